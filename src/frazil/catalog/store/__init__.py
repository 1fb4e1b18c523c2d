"""What the catalog remembers, in SQL: `open_database(url)` gives SQLite or PostgreSQL behind one protocol."""

from __future__ import annotations

from frazil.catalog.store.database import Database
from frazil.errors import ConfigError, MissingExtra

__all__ = ["Database", "open_database"]


def open_database(url: str) -> Database:
    """The database of `sqlite:///relative/file.db`, `sqlite:////absolute/file.db` or `postgresql://user@host/name`."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        from frazil.catalog.store.sqlite import SqliteDatabase

        if not rest.startswith("/") or len(rest) == 1:
            raise ConfigError(
                f"database '{url}' does not name a file",
                hint="sqlite:///folder/catalog.db (relative) or sqlite:////folder/catalog.db",
                option="server.database",
            )
        return SqliteDatabase(rest[1:])
    if scheme in ("postgresql", "postgres"):
        try:
            from frazil.catalog.store.postgres import PostgresDatabase
        except ImportError as exc:
            raise MissingExtra("psycopg", extra="postgres") from exc
        return PostgresDatabase(url)
    raise ConfigError(
        f"database '{scheme}' is not supported",
        hint="use sqlite:///folder/catalog.db or postgresql://user@host/name",
        option="server.database",
    )
