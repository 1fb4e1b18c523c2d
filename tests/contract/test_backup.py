"""A backup of the catalog's database, restored: as docs/operations.md says, with the tools that it names."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pyarrow as pa
from click.testing import CliRunner

from frazil.catalog.embedded import running_catalog
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from frazil.services.postgres import installs


@contextmanager
def lake(folder: Path, database: str) -> Iterator[FrazilCatalog]:
    with running_catalog(folder, database=database) as server:
        yield FrazilCatalog("lake", **server.properties)


def program(name: str) -> str:
    """A client program of the PostgreSQL that the tests run."""
    return str(next(iter(installs())).home / "bin" / name)


def back_up(database: str, backup: Path) -> None:
    """While the server runs."""
    if database.startswith("sqlite"):
        with closing(sqlite3.connect(database.removeprefix("sqlite:///"))) as connection:
            connection.execute(f"VACUUM INTO '{backup}'")
        return
    subprocess.run([program("pg_dump"), "-Fc", "-f", str(backup), database], check=True)


def restore(backup: Path, database: str, folder: Path) -> str:
    """The URL of a new database with what the backup holds."""
    if database.startswith("sqlite"):
        return f"sqlite:///{backup}"
    restored = f"{database}_restored"
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{restored.rpartition("/")[2]}"')
    subprocess.run([program("pg_restore"), "--no-owner", "-d", restored, str(backup)], check=True)
    return restored


def ids(catalog: FrazilCatalog) -> list[int]:
    return sorted(catalog.load_table("lake.orders").scan().to_arrow()["id"].to_pylist())


def test_a_restored_catalog_has_the_tables_of_the_backup_and_finds_later_commits(database: str, tmp_path: Path) -> None:
    backup, orders = tmp_path / "backup.db", pa.table({"id": [1, 2]})
    with lake(tmp_path, database) as catalog:
        catalog.create_namespace("lake")
        catalog.create_table("lake.orders", orders.schema).append(orders)
        back_up(database, backup)
        catalog.load_table("lake.orders").append(pa.table({"id": [3]}))
        latest = catalog.load_table("lake.orders").metadata_location
    restored = restore(backup, database, tmp_path)
    with lake(tmp_path, restored) as catalog:
        assert ids(catalog) == [1, 2]
    command = ["table", "recover", "lake.orders", "--to", latest.rpartition("/")[2], "--yes", "--database", restored]
    recovered = CliRunner().invoke(cli, [*command, "--warehouse", f"default={tmp_path / 'warehouse'}"])
    assert (recovered.exit_code, "perhaps never current" in recovered.stdout) == (0, True), recovered.output
    with lake(tmp_path, restored) as catalog:
        assert ids(catalog) == [1, 2, 3]
        catalog.load_table("lake.orders").append(pa.table({"id": [4]}))
        assert ids(catalog) == [1, 2, 3, 4]
