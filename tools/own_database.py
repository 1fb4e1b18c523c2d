"""A PostgreSQL of its own for a test or a benchmark, gone afterwards."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from frazil.config import load_settings
from frazil.services import ports
from frazil.services.postgres import DATABASE, USER, Postgres


class _Postgres(Postgres):
    """Tests make databases of their own on it."""

    role_options = "LOGIN NOSUPERUSER CREATEDB"


@contextlib.contextmanager
def postgres_database(folder: Path) -> Iterator[str]:
    """The URL of an empty database, served from below `folder` on a free port."""
    port = ports.free_port()
    flags = {"stack.folder": str(folder), "stack.ports.postgres": str(port)}
    settings = load_settings(flags=flags, environ={})
    server = _Postgres(settings)
    server.start()
    try:
        password = server.settings.stack.postgres_password.get_secret_value()
        yield f"postgresql://{USER}:{password}@{ports.HOST}:{port}/{DATABASE}"
    finally:
        server.stop()
        for path in server.purge_paths():
            shutil.rmtree(path, ignore_errors=True)
