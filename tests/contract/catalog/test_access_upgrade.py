"""Databases of every earlier schema, with data in them: `frazil catalog migrate` keeps all of it, and it is served with
authentication off and on.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner

from frazil.catalog import Operator as WarehouseOperator
from frazil.catalog import (
    change_grant,
    change_member,
    create_role,
    create_warehouse,
    newest_records,
    open_database,
    revoke_token,
    running_catalog,
)
from frazil.catalog.store import upkeep
from frazil.catalog.store.database import Database, Row, Sql
from frazil.catalog.store.migrations import _take as take_step
from frazil.catalog.store.migrations import current_version, latest_version, steps
from frazil.cli.main import cli
from tests.contract.catalog.test_indexes import record
from tests.contract.test_catalog_views import version as view_version
from tests.kit.access import Operator, bearer_session, namespace, now_ms, operator, table
from tests.kit.catalog_databases import DATABASES, SCHEMA, Client, fresh_database

EARLIER = range(1, latest_version())
INDEXES, ACCESS, AUDIT, WAREHOUSES = 6, 7, 8, 12  # the versions that have them first
CHANGE = {"action": "set-properties", "updates": {"changed": "yes"}}


@dataclass(frozen=True)
class Source:
    """A database of the newest schema that a catalog has worked on; its rows are put into databases of older ones."""

    kind: str
    postgres: str
    url: str
    folder: Path  # of the warehouses and the pepper
    keys: dict[str, str]  # API keys by principal
    idempotency: dict[str, dict[str, str]]  # the header of a request that made a table, with authentication off and on
    shown: dict[str, Any]  # by the catalog


@pytest.fixture(scope="module", params=DATABASES)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    kind, folder = request.param, tmp_path_factory.mktemp("upgrade")
    postgres = request.getfixturevalue("postgres") if kind == "postgresql" else ""
    with fresh_database(kind, folder, postgres) as url, operator(url, folder / "pepper") as owner:
        idempotency = {name: {"Idempotency-Key": str(uuid.uuid4())} for name in ("off", "on")}
        with serving(folder, url) as client:
            fill(client, folder)
            create(client, "made_off", headers=idempotency["off"])
        keys = {name: owner.token(name) for name in ("reader", "analyst", "former", "root")}
        give(owner, keys)
        store_warehouse(owner, folder)
        with serving(folder, url, keys["root"]) as client:
            create(client, "made_on", headers=idempotency["on"])
            shown = show(client)
        score_tables(owner.database)
        yield Source(kind, postgres, url, folder, keys, idempotency, shown)


@contextmanager
def serving(folder: Path, url: str, key: str | None = None) -> Iterator[Client]:
    """A client of a catalog on this database; with a key, of one that asks for keys."""
    warehouses = {name: str(folder / name) for name in ("default", "cold")}
    authentication = "off" if key is None else "keys"
    with (
        requests.Session() if key is None else bearer_session(key) as session,
        running_catalog(folder, database=url, warehouses=warehouses, authentication=authentication) as server,
    ):
        yield Client(server.uri, session=session)


def fill(client: Client, folder: Path) -> None:
    """Namespaces in each other, one with a location of its own, tables with a past, a view, an index, a report and a
    table that was dropped.
    """
    cold = Client(client.uri, "cold", client.session)
    for body in (
        {"namespace": ["ns"], "properties": {"owner": "ann"}},
        {"namespace": ["ns", "sub"]},
        {"namespace": ["empty"]},
        {"namespace": ["placed"], "properties": {"location": str(folder / "default" / "elsewhere")}},
    ):
        assert client.post("/namespaces", body).status == 200
    location = client.create("t")["metadata"]["location"]
    assert client.commit({"action": "set-properties", "updates": {"a": "b"}}).status == 200
    client.create("moved")
    assert client.commit({"action": "set-location", "location": f"{location}-moved"}, table="moved").status == 200
    client.create("deep", "ns%1Fsub")
    cold.create("t")
    view = {"name": "v", "schema": SCHEMA, "view-version": view_version(), "properties": {}}
    assert client.post("/namespaces/ns/views", view).status == 200
    index = {"name": "i", "record": record(location, "a.puffin")}
    assert client.post("/namespaces/ns/tables/t/indexes", index).status == 200
    report = {"report-type": "commit-report", "table-name": "t", "snapshot-id": 1}
    assert client.post("/namespaces/ns/tables/t/metrics", report).status in (200, 204)
    client.create("gone")
    assert client.delete("/namespaces/ns/tables/gone").status == 204


def create(client: Client, name: str, *, headers: dict[str, str] | None = None, **more: Any) -> Any:
    body = {"name": name, "schema": SCHEMA, **more}
    return client.post("/namespaces/ns/tables", body, headers=headers)


def give(owner: Operator, keys: dict[str, str]) -> None:
    """Grants of each kind, a role, and a key that was revoked."""
    owner.grant("manage", namespace("ns"), "former")
    owner.grant("read", table("t"), "reader")
    create_role(owner.database, "analysts", now_ms=now_ms())
    change_grant(owner.database, "read", namespace("ns\x1fsub"), "analysts", adding=True, by="test", now_ms=now_ms())
    for role, member in (("analysts", "analyst"), ("admin", "root")):
        change_member(owner.database, role, member, member=True, now_ms=now_ms())
    revoke_token(owner.database, keys["former"].split("_")[1], now_ms=now_ms())


def store_warehouse(owner: Operator, folder: Path) -> None:
    create_warehouse(owner.database, "stored", str(folder / "stored"), {}, None, WarehouseOperator("test", now_ms()))


def score_tables(database: Database) -> None:
    """What a worker of upkeep notes about itself and about each table."""
    database.write(partial(upkeep.note_worker, owner="host:1:a", for_ms=3_600_000))
    for kept in upkeep.list_all(database.read()):
        location = kept.metadata_location
        database.write(partial(upkeep.save_score, table_uuid=kept.uuid, location=location, score=0, debt="{}"))


def show(client: Client) -> dict[str, Any]:
    """Everything that is in the catalog, as it answers."""
    answers: dict[str, Any] = {}
    for prefix, names in {"default": ("ns", "ns%1Fsub", "empty", "placed"), "cold": ("ns",)}.items():
        base = f"/v1/{prefix}/namespaces"
        answers[base] = client.raw("GET", base).body
        for key in names:
            answers[f"{base}/{key}"] = client.raw("GET", f"{base}/{key}").body
            for kind in ("tables", "views"):
                path = f"{base}/{key}/{kind}"
                answers[path] = client.raw("GET", path).body
                for entry in answers[path]["identifiers"]:
                    answers[f"{path}/{entry['name']}"] = client.raw("GET", f"{path}/{entry['name']}").body
    answers["indexes"] = client.get("/namespaces/ns/tables/t/indexes").body
    return answers


# --- databases of older schemas --------------------------------------------------------------------------------------


def make_old(database: Database, version: int) -> None:
    """The schema as it was at a version."""
    if database.dialect == "postgresql":
        database.write(lambda sql: sql.run("DROP SCHEMA public CASCADE"))
        database.write(lambda sql: sql.run("CREATE SCHEMA public"))
    for number in range(1, version + 1):
        database.write(partial(take_step, dialect=database.dialect, version=number, text=steps()[number][1]))
    assert current_version(database) == version


def columns(database: Database) -> dict[str, list[str]]:
    """The tables in the order in which they were made, each with its columns but the one that the database counts."""
    if database.dialect == "sqlite":
        listed = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
        of_table = "SELECT name FROM pragma_table_info(?) WHERE NOT (type = 'INTEGER' AND pk = 1)"
    else:
        listed = (
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace "
            "ORDER BY oid"
        )
        of_table = (
            "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND "
            "table_name = ? AND is_identity = 'NO' ORDER BY ordinal_position"
        )
    sql = database.read()
    names = [row[0] for row in sql.rows(listed) if row[0] != "frazil_schema" and not row[0].startswith("sqlite_")]
    return {name: [row[0] for row in sql.rows(of_table, name)] for name in names}


def rows_of(database: Database, name: str, chosen: list[str]) -> list[Row]:
    return sorted(database.read().rows(f"SELECT {', '.join(chosen)} FROM {name}"), key=repr)


def put_rows(new: Database, old: Database) -> dict[str, tuple[list[str], list[Row]]]:
    """Puts the rows of a new database into an old one, as far as that has their tables and columns; what is now in each
    table.
    """
    known, rows = columns(new), {}
    for name, own in columns(old).items():
        assert name in known, f"a migration has removed {name}: say here where its rows come from"
        chosen = [column for column in own if column in known[name]]
        rows[name] = chosen, rows_of(new, name, chosen)

    def write(sql: Sql) -> None:
        for name in reversed(rows):
            sql.run(f"DELETE FROM {name}")
        for name, (chosen, values) in rows.items():
            marks = ", ".join("?" * len(chosen))
            for row in values:
                sql.run(f"INSERT INTO {name} ({', '.join(chosen)}) VALUES ({marks})", *row)

    old.write(write)
    return rows


def test_the_source_has_rows_in_every_table(source: Source) -> None:
    opened = open_database(source.url)
    try:
        empty = [name for name, chosen in columns(opened).items() if not rows_of(opened, name, chosen)]
    finally:
        opened.close()
    assert empty == []


# --- the upgrade -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", EARLIER)
def test_an_old_database_keeps_its_data_and_is_served(source: Source, version: int, tmp_path: Path) -> None:
    with fresh_database(source.kind, tmp_path, source.postgres) as url:
        upgrade(source, url, version)
        with serving(source.folder, url) as client:
            assert show(client) == expected(source, version)
            change(client)
            assert (
                create(client, "made_off", headers=source.idempotency["off"]).status == 200
            )  # the answer of its first time
        with operator(url, source.folder / "pepper") as owner:
            keys = source.keys if version >= ACCESS else {"root": owner.token("root", roles=["admin"])}
            with serving(source.folder, url, keys["root"]) as client:
                assert Client(client.uri).get("/namespaces").status == 401
                assert show(client) == expected(source, version)
                change(client)
                if version < WAREHOUSES:
                    store_warehouse(owner, tmp_path)
                assert client.raw("GET", "/v1/config", warehouse="stored").body["overrides"]["prefix"] == "stored"
                if version >= ACCESS:
                    assert create(client, "made_on", headers=source.idempotency["on"]).status == 200
                    check_grants(client.uri, keys)
            recorded = {(record.actor, record.operation) for record in newest_records(owner.database.read(), limit=99)}
        assert (("root", "createTable") in recorded, ("test", "grant") in recorded) == (True, version >= AUDIT)


def upgrade(source: Source, url: str, version: int) -> None:
    """A database of an old schema with the rows of the source, migrated by the command line: no row has changed."""
    new, old = open_database(source.url), open_database(url)
    try:
        make_old(old, version)
        rows = put_rows(new, old)
        done = CliRunner().invoke(cli, ["catalog", "migrate", "--database", url], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        assert current_version(old) == latest_version()
        assert {name: (chosen, rows_of(old, name, chosen)) for name, (chosen, _) in rows.items()} == rows
    finally:
        new.close()
        old.close()


def expected(source: Source, version: int) -> dict[str, Any]:
    return source.shown if version >= INDEXES else source.shown | {"indexes": {"indexes": []}}


def change(client: Client) -> None:
    """Tables are created, committed to, renamed and dropped; old ones keep their places."""
    place = client.load("t")["metadata"]["location"]
    assert create(client, "intruder", location=place).error[:2] == (403, "ForbiddenException")
    assert create(client, "new").status == 200
    assert client.commit(CHANGE, table="new").status == 200
    names = [{"namespace": ["ns"], "name": name} for name in ("new", "renamed")]
    assert client.post("/tables/rename", dict(zip(("source", "destination"), names, strict=True))).status == 204
    assert client.delete("/namespaces/ns/tables/renamed").status == 204


def check_grants(uri: str, keys: dict[str, str]) -> None:
    """Each key may do what it might before."""
    paths = ("/namespaces/ns/tables/t", "/namespaces/ns%1Fsub/tables/deep", "/namespaces/ns/tables/moved")
    statuses = {}
    for name in ("reader", "analyst", "former"):
        client = Client(uri, session=bearer_session(keys[name]))
        statuses[name] = [client.get(path).status for path in paths]
        client.session.close()
    assert statuses == {"reader": [200, 404, 404], "analyst": [404, 200, 404], "former": [401, 401, 401]}
