"""Our catalog as the kit meets it: `frazil serve` on each database, with the kit's own locations allowed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.contract.rck.kit import FOREIGN_LOCATION
from tools.own_server import own_server

_ALLOWED = ["--allow-location", FOREIGN_LOCATION]


@contextlib.contextmanager
def on_sqlite(folder: Path) -> Iterator[str]:
    with own_server(folder, options=_ALLOWED) as (uri, _):
        yield uri


@contextlib.contextmanager
def on_postgres(folder: Path) -> Iterator[str]:
    from tools.own_database import postgres_database

    with postgres_database(folder / "postgres") as url, own_server(folder, database=url, options=_ALLOWED) as (uri, _):
        yield uri


OURS: dict[str, Callable[[Path], contextlib.AbstractContextManager[str]]] = {
    "Frazil on SQLite": on_sqlite,
    "Frazil on PostgreSQL": on_postgres,
}
