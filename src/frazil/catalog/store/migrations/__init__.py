"""The schema of the database, as numbered steps, and the command that takes them."""

from __future__ import annotations

import functools
from importlib import resources

from frazil.catalog.store.database import Database, Sql
from frazil.config import redact_url
from frazil.errors import SchemaBehind, Unavailable

_TYPES = {
    "sqlite": {
        "{text}": "TEXT",
        "{serial}": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "{now_ms}": "CAST(strftime('%s', 'now') AS INTEGER) * 1000",
    },
    # "C": names are ordered by their bytes, as in SQLite, whatever the database's own language.
    "postgresql": {
        "{text}": 'TEXT COLLATE "C"',
        "{serial}": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "{now_ms}": "CAST(floor(extract(epoch FROM now())) * 1000 AS BIGINT)",
    },
}


def steps() -> dict[int, tuple[str, str]]:
    """The numbered steps: version -> (name, SQL)."""
    files = [f for f in resources.files(__package__).iterdir() if f.name.endswith(".sql")]
    return {int(f.name[:4]): (f.name[5:-4], f.read_text(encoding="utf-8")) for f in sorted(files, key=lambda f: f.name)}


def latest_version() -> int:
    return max(steps())


def current_version(database: Database) -> int:
    """The version of the database's schema; 0 when it has none."""
    table = "sqlite_master" if database.dialect == "sqlite" else "pg_tables WHERE schemaname = current_schema()"
    column = "name" if database.dialect == "sqlite" else "tablename"
    if "frazil_schema" not in {row[0] for row in database.read().rows(f"SELECT {column} FROM {table}")}:  # noqa: S608
        return 0
    rows = database.read().rows("SELECT max(version) FROM frazil_schema")
    return int(rows[0][0] or 0)


def migrate(database: Database) -> list[str]:
    """The names of the steps that were taken; none when the schema is up to date. Several servers may call it
    at once.
    """
    taken = []
    for version, (name, text) in steps().items():
        step = functools.partial(_take, dialect=database.dialect, version=version, text=text)
        if version > current_version(database) and database.write(step):
            taken.append(f"{version:04d} {name}")
    return taken


def _take(sql: Sql, *, dialect: str, version: int, text: str) -> bool:
    if dialect == "postgresql":
        sql.rows("SELECT pg_advisory_xact_lock(7203951)")  # one migration at a time; another server may have been first
    sql.run("CREATE TABLE IF NOT EXISTS frazil_schema (version INTEGER PRIMARY KEY)")
    if sql.rows("SELECT 1 FROM frazil_schema WHERE version = ?", version):
        return False
    for placeholder, kind in _TYPES[dialect].items():
        text = text.replace(placeholder, kind)
    for statement in text.split(";\n"):
        if statement.strip() and (dialect == "sqlite" or not statement.startswith("-- sqlite only")):
            sql.run(statement)
    sql.run("INSERT INTO frazil_schema (version) VALUES (?)", version)
    return True


def check_schema(database: Database, url: str) -> None:
    """Passes when the schema is the one that this program knows; says the command when it is behind."""
    version, wanted = current_version(database), latest_version()
    if version < wanted:
        raise SchemaBehind(
            f"the catalog's database {redact_url(url)} has schema version {version}; this program needs {wanted}",
            hint=f"frazil catalog migrate --database '{redact_url(url)}'",
        )
    if version > wanted:
        raise Unavailable(
            f"the catalog's database {redact_url(url)} has schema version {version}; this program knows up to {wanted}",
            hint="upgrade frazil to the version that wrote it",
        )
