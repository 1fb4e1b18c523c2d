"""What commands share that work on the catalog's database itself, as its operator."""

from __future__ import annotations

import getpass
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.cli.context import Context
from frazil.local_stack import catalog_database
from frazil.served import read_served

if TYPE_CHECKING:
    from frazil.catalog import Database
    from frazil.config import Settings
    from frazil.services import Catalog


@dataclass(frozen=True)
class Opened:
    """The catalog's database, and the file of the pepper of its API keys."""

    database: Database
    pepper_path: Path


@contextmanager
def opened_catalog(context: Context, url: str | None, *, needs_pepper: bool = False) -> Iterator[Opened]:
    """The catalog's database, with the current schema."""
    from frazil.catalog import check_schema, current_version, migrate, open_database, pepper_path

    settings = context.settings_with(server__database=url)
    text = database_of(settings)
    path = pepper_path(text, settings.server.pepper_file) if needs_pepper else Path()
    database = open_database(text)
    try:
        if database.dialect == "sqlite" and current_version(database) == 0:
            migrate(database)
        check_schema(database, text)
        yield Opened(database, path)
    finally:
        database.close()


def database_of(settings: Settings) -> str:
    """The database that is set; else that of the catalog that was started here, by `frazil up` or `frazil serve`."""
    own, folder = settings.server.database.get_secret_value(), settings.stack.folder.absolute()
    if settings.source_of("server.database") != "default":
        return own
    served, stack = read_served(folder), catalog_database(folder)
    of_stack = served.command == "up" if served is not None else not Path(own.removeprefix("sqlite:///")).exists()
    return f"sqlite:///{stack}" if of_stack and stack.exists() else own


def stack_catalog(context: Context) -> Catalog | None:
    """The catalog of the local stack, where it was started."""
    from frazil.services import Catalog, Stack

    stack = Stack(context.settings).service("catalog")
    assert isinstance(stack, Catalog)
    return stack if stack.state_file.exists() else None


def roots_of(context: Context, database: str | None) -> dict[str, str]:
    """The warehouses of the settings: the local stack's where it was started, unless another database is named."""
    stack = stack_catalog(context) if database is None else None
    return dict(stack.warehouses) if stack is not None else dict(context.settings.server.warehouses)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def operator() -> str:
    """Who runs this command, for the audit log."""
    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):
        return "command line"
