"""Databases of every earlier schema, with data in them, get access control by the migration and keep what they have."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from frazil.catalog import create_token, migrate, open_database, open_pepper, running_catalog
from frazil.catalog.store import access as store
from frazil.catalog.store.database import Database, Sql
from frazil.catalog.store.migrations import _take as take_step
from frazil.catalog.store.migrations import current_version, latest_version, steps
from tests.kit.access import bearer_session, now_ms
from tests.kit.catalog_databases import Client

EARLIER = range(1, latest_version())
TABLES = ("namespaces", "relations", "idempotency", "reports")


def make_old(database: Database, version: int) -> None:
    """The schema as it was at a version."""
    if database.dialect == "postgresql":
        database.write(lambda sql: sql.run("DROP SCHEMA public CASCADE"))
        database.write(lambda sql: sql.run("CREATE SCHEMA public"))
    for step in range(1, version + 1):

        def take(sql: Sql, step: int = step) -> bool:
            return take_step(sql, dialect=database.dialect, version=step, text=steps()[step][1])

        database.write(take)
    assert current_version(database) == version


def fill(sql: Sql, template: dict[str, str], key: str) -> None:
    """A namespace with a table, an answered request and a report, in the columns that the first schema has."""
    columns = "warehouse, namespace, name, kind, uuid, metadata_location, location"
    sql.run("INSERT INTO namespaces (warehouse, namespace, properties) VALUES ('default', 'ns', '{}')")
    values = ("default", "ns", "t", "table", template["uuid"], template["metadata"], template["location"])
    sql.run(f"INSERT INTO relations ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", *values)
    answer = (key, "x", 204, now_ms())
    sql.run("INSERT INTO idempotency (key, request, status, created_ms) VALUES (?, ?, ?, ?)", *answer)
    report = ("default", "ns", "t", now_ms(), "scan-report", "{}")
    statement = "INSERT INTO reports (warehouse, namespace, name, received_ms, kind, report) VALUES (?, ?, ?, ?, ?, ?)"
    sql.run(statement, *report)


@pytest.mark.parametrize("version", EARLIER)
def test_an_old_database_keeps_its_data_and_gets_access_control(database: str, tmp_path: Path, version: int) -> None:
    with running_catalog(tmp_path / "template", warehouses={"default": str(tmp_path / "warehouse")}) as server:
        loaded = Client(server.uri).create()
        metadata = loaded["metadata"]
        template = {
            "uuid": metadata["table-uuid"],
            "metadata": loaded["metadata-location"],
            "location": metadata["location"],
        }
    opened = open_database(database)
    key = str(uuid.uuid4())
    try:
        make_old(opened, version)
        opened.write(lambda sql: fill(sql, template, key))
        before = {name: opened.read().rows(f"SELECT count(*) FROM {name}") for name in TABLES}
        taken = migrate(opened)
        assert len(taken) == latest_version() - version
        assert {name: opened.read().rows(f"SELECT count(*) FROM {name}") for name in TABLES} == before
        assert store.all_members(opened.read()) == {"admin": []}
        pepper = open_pepper(opened, tmp_path / "pepper")
        token = create_token(opened, pepper, "root", now_ms=now_ms(), roles=["admin"]).token
    finally:
        opened.close()
    with running_catalog(tmp_path, database=database) as server:
        client = Client(server.uri)
        assert client.load()["metadata"]["table-uuid"] == template["uuid"]
        client.session.close()
    with running_catalog(tmp_path, database=database, authentication="keys") as server:
        client = Client(server.uri, session=bearer_session(token))
        assert client.commit({"action": "set-properties", "updates": {"a": "b"}}).status == 200
        assert Client(server.uri).get("/namespaces/ns/tables/t").status == 401
        client.session.close()
