"""No table or view lives inside another one's folders, on both databases."""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from frazil.catalog import places
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.catalog.store import open_database
from frazil.catalog.store.migrations import _take as take_step
from frazil.catalog.store.migrations import steps
from frazil.cli.main import cli
from frazil.errors import ConfigError
from tests.contract.test_catalog_views import version as view_version
from tests.kit.catalog_databases import SCHEMA, Client
from tests.kit.raising import raises

FORBIDDEN = (403, "ForbiddenException")


def create(client: Client, name: str, location: str | None = None, *, namespace: str = "ns", **properties: str) -> Any:
    body: dict[str, Any] = {"name": name, "schema": SCHEMA, "properties": properties}
    return client.post(f"/namespaces/{namespace}/tables", body | ({"location": location} if location else {}))


def create_view(client: Client, name: str, location: str | None = None) -> Any:
    body: dict[str, Any] = {"name": name, "schema": SCHEMA, "view-version": view_version(), "properties": {}}
    return client.post("/namespaces/ns/views", body | ({"location": location} if location else {}))


def staged_create(client: Client, name: str, location: str) -> Any:
    """What Spark and Java send for CREATE TABLE AS SELECT: stage, then commit a create at the location that
    was staged.
    """
    updates = [
        {"action": "assign-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": location},
    ]
    return client.commit(*updates, table=name, requirements=[{"type": "assert-create"}])


def spellings(path: str) -> list[str]:
    return [path, f"file:{path}", f"file://{path}", f"file://localhost{path}/", f"file://{path.replace('/ns', '//ns')}"]


@pytest.mark.parametrize("where", ["/ns/t", "/ns/t/data", "/ns/t/data/p=1", "/ns/t/metadata", "/ns", "", "/ns/t/"])
def test_no_table_is_created_in_above_or_at_the_place_of_another(
    client: Client, server: EmbeddedCatalog, where: str
) -> None:
    client.create("t")
    root = server.warehouse.removeprefix("file://")
    for number, location in enumerate(spellings(root + where)):
        assert create(client, f"u{number}", location).error[:2] == FORBIDDEN, location
        assert staged_create(client, f"u{number}", location).error[:2] == FORBIDDEN, location
        assert create_view(client, f"u{number}", location).error[:2] == FORBIDDEN, location
    assert [entry["name"] for entry in client.get("/namespaces/ns/tables").body["identifiers"]] == ["t"]
    assert sorted(path.name for path in Path(root, "ns").iterdir()) == ["t"]  # no file was written for what was refused


@pytest.mark.parametrize(
    "key", ["write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"]
)
def test_path_properties_are_places_too(client: Client, server: EmbeddedCatalog, key: str) -> None:
    client.create("t", properties={key: f"{server.warehouse}/shared/t"})
    client.create("v")
    for location in (f"{server.warehouse}/shared", f"{server.warehouse}/shared/t", f"{server.warehouse}/shared/t/x"):
        assert create(client, "u", location).error[:2] == FORBIDDEN
        assert create(client, "u", **{"write.data.path": location}).error[:2] == FORBIDDEN
        assert client.commit({"action": "set-properties", "updates": {key: location}}, table="v").error[:2] == FORBIDDEN
        assert client.commit({"action": "set-location", "location": location}, table="v").error[:2] == FORBIDDEN
    inside = {"action": "set-properties", "updates": {"write.data.path": f"{server.warehouse}/shared/t/data"}}
    assert client.commit(inside).status == 200  # a table's own places may lie in each other


def test_a_place_that_a_table_has_left_stays_its_own_until_it_is_dropped(
    client: Client, server: EmbeddedCatalog
) -> None:
    """Its older data files are still there."""
    client.create("t")
    old, new = f"{server.warehouse}/ns/t", f"{server.warehouse}/moved"
    assert client.commit({"action": "set-location", "location": new}).status == 200
    assert [create(client, "u", place).status for place in (old, new)] == [403, 403]
    assert client.commit({"action": "set-location", "location": old}).status == 200
    client.delete("/namespaces/ns/tables/t")
    assert [create(client, name, place).status for name, place in (("u", old), ("v", new))] == [200, 200]


def test_views_and_tables_of_other_warehouses_count(client: Client, server: EmbeddedCatalog, tmp_path: Path) -> None:
    allowed, cold = f"file://{tmp_path}/allowed/x", Client(server.uri, "cold")
    client.create("t")
    assert create_view(client, "v", allowed).status == 200
    cold.post("/namespaces", {"namespace": ["ns"]})
    assert create(cold, "t", f"{allowed}/below").error[:2] == FORBIDDEN
    assert create(cold, "t", f"file://{tmp_path}/allowed").error[:2] == FORBIDDEN
    assert create(cold, "t", f"{allowed}-other").status == 200


def test_several_tables_of_one_transaction_may_not_overlap_each_other(client: Client, server: EmbeddedCatalog) -> None:
    client.create("a")
    client.create("b")
    places = {"a": f"{server.warehouse}/x", "b": f"{server.warehouse}/x/y"}

    def change(name: str, place: str) -> dict[str, Any]:
        updates = [{"action": "set-location", "location": place}]
        return {"identifier": {"namespace": ["ns"], "name": name}, "requirements": [], "updates": updates}

    answer = client.post("/transactions/commit", {"table-changes": [change(*item) for item in places.items()]})
    assert answer.error[:2] == FORBIDDEN
    assert client.load("a")["metadata"]["location"] == f"{server.warehouse}/ns/a"


def test_an_occupied_location_is_not_registered(client: Client, server: EmbeddedCatalog, tmp_path: Path) -> None:
    result, cold = client.create("t"), Client(server.uri, "cold")
    cold.post("/namespaces", {"namespace": ["ns"]})
    body = {"name": "u", "metadata-location": result["metadata-location"]}
    assert client.post("/namespaces/ns/register", body).error[:2] == FORBIDDEN
    foreign = tmp_path / "allowed" / "forged.metadata.json"
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_text(json.dumps({**result["metadata"], "location": f"{result['metadata']['location']}/data"}))
    assert (
        cold.post("/namespaces/ns/register", {"name": "u", "metadata-location": f"file://{foreign}"}).error[:2]
        == FORBIDDEN
    )
    inside = Path(result["metadata-location"].removeprefix("file://")).with_name("00009-x.metadata.json")
    inside.write_text(json.dumps({**result["metadata"], "location": f"{server.warehouse}/elsewhere"}))
    assert (
        client.post("/namespaces/ns/register", {"name": "u", "metadata-location": f"file://{inside}"}).error[:2]
        == FORBIDDEN
    )
    again = {"name": "t", "metadata-location": result["metadata-location"], "overwrite": True}
    assert client.post("/namespaces/ns/register", again).status == 200  # its own
    client.delete("/namespaces/ns/tables/t")
    assert client.post("/namespaces/ns/register", body).status == 200  # it has no owner


def test_an_occupied_location_of_a_view_is_not_registered(client: Client) -> None:
    client.create("t")
    result = create_view(client, "v").body
    body = {"name": "w", "metadata-location": result["metadata-location"]}
    assert client.post("/namespaces/ns/register-view", body).error[:2] == FORBIDDEN
    client.delete("/namespaces/ns/views/v")
    assert client.post("/namespaces/ns/register-view", body).status == 200


def test_an_overwriting_registration_gives_up_the_places_of_the_table_before(
    client: Client, server: EmbeddedCatalog
) -> None:
    old, other = client.create("t"), client.create("u")
    client.delete("/namespaces/ns/tables/u")
    body = {"name": "t", "metadata-location": other["metadata-location"], "overwrite": True}
    assert client.post("/namespaces/ns/register", body).status == 200
    assert create(client, "x", other["metadata"]["location"]).error[:2] == FORBIDDEN
    assert create(client, "x", old["metadata"]["location"]).status == 200


def test_an_operator_may_allow_overlaps(database: str, tmp_path: Path) -> None:
    nested = {"default": str(tmp_path / "w"), "inner": str(tmp_path / "w" / "inner")}
    with running_catalog(tmp_path, database=database, warehouses=nested, allow_overlap=True) as running:
        client = Client(running.uri)
        result = client.create("t")
        body = {"name": "u", "metadata-location": result["metadata-location"]}
        assert client.post("/namespaces/ns/register", body).status == 200
        assert create(client, "v", f"{running.warehouse}/ns/t/data").status == 200
        assert client.commit({"action": "set-properties", "updates": {"x": "y"}}).status == 200


def test_a_renamed_table_keeps_its_place_and_the_next_of_its_name_gets_another(client: Client) -> None:
    result = client.create("t")
    body = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "moved"}}
    assert client.post("/tables/rename", body).status == 204
    again = client.create("t")["metadata"]["location"]
    assert again.startswith(result["metadata"]["location"] + "-")
    assert create(client, "u", result["metadata"]["location"] + "/data").error[:2] == FORBIDDEN
    assert client.delete("/namespaces/ns/tables/moved").status == 204
    assert create(client, "u", result["metadata"]["location"] + "/data").status == 200


def test_a_table_and_a_namespace_of_one_name_get_places_next_to_each_other(
    client: Client, server: EmbeddedCatalog
) -> None:
    client.create("t")
    for levels in (["ns", "t"], ["ns", "later"]):
        assert client.post("/namespaces", {"namespace": levels}).status == 200
    below = create(client, "u", namespace="ns\x1ft").body["metadata"]["location"]
    assert below.startswith(f"{server.warehouse}/ns/t-")
    assert below.endswith("/u")
    assert create(client, "later").body["metadata"]["location"].startswith(f"{server.warehouse}/ns/later-")


def test_the_folder_of_a_namespace_is_no_place_for_a_table(client: Client, server: EmbeddedCatalog) -> None:
    client.post("/namespaces", {"namespace": ["ns"], "properties": {"location": f"{server.warehouse}/elsewhere/ns"}})
    client.post("/namespaces", {"namespace": ["a/b"]})
    odd = client.get("/namespaces/a%2Fb").body["properties"]["location"]
    for location in (
        f"{server.warehouse}/elsewhere/ns",
        f"{server.warehouse}/elsewhere",
        f"{server.warehouse}/ns",
        odd,
    ):
        assert create(client, "t", location).error[:2] == FORBIDDEN
    assert create(client, "t").body["metadata"]["location"] == f"{server.warehouse}/elsewhere/ns/t"
    assert client.delete("/namespaces/ns/tables/t").status == 204
    assert client.post("/namespaces/ns/properties", {"removals": ["location"]}).status == 200
    assert create(client, "t", f"{server.warehouse}/elsewhere/ns").status == 200


def test_a_namespace_is_not_put_into_a_table(client: Client, server: EmbeddedCatalog) -> None:
    place = client.create("t")["metadata"]["location"]
    for location in (place, f"{place}/data"):
        body = {"namespace": ["inside"], "properties": {"location": location}}
        assert client.post("/namespaces", body).error[:2] == FORBIDDEN
        assert client.post("/namespaces/ns/properties", {"updates": {"location": location}}).error[:2] == FORBIDDEN


def test_a_symbolic_link_is_no_way_into_another_table(client: Client, server: EmbeddedCatalog) -> None:
    client.create("t")
    root = Path(server.warehouse.removeprefix("file://"))
    (root / "link").symlink_to(root / "ns")
    assert create(client, "u", f"{server.warehouse}/link/t/data").error[:2] == FORBIDDEN


def test_a_location_that_no_index_can_hold_is_refused(client: Client, server: EmbeddedCatalog) -> None:
    client.create("t")
    for location in (f"{server.warehouse}/{'x' * 2000}", f"{server.warehouse}{'/y' * 1500}"):
        assert create(client, "u", location).error[:2] == (400, "BadRequestException")


def test_of_concurrent_creates_that_overlap_one_wins(client: Client, server: EmbeddedCatalog) -> None:
    """Each round, threads create a table in the same folder at several depths at once, and tables with default places
    as well.
    """
    client.create("t")
    for number in range(8):
        depths = [f"{server.warehouse}/round{number}{'/x' * depth}" for depth in range(4)]
        jobs = [lambda c, d=depth, n=number: create(c, f"r{n}-{len(d)}", d) for depth in depths]
        jobs.append(lambda c, n=number: create(c, f"free{n}"))
        statuses = run_at_once(server.uri, jobs)
        assert sorted(statuses[:4]) == [200, 403, 403, 403]
        assert statuses[4] == 200


@pytest.mark.parametrize("inner", ["w", "w/inner", "link"])
def test_warehouses_do_not_lie_in_each_other(tmp_path: Path, inner: str) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "w")
    nested = {"default": str(tmp_path / "w"), "inner": f"file:{tmp_path / inner}"}
    with raises(ConfigError, name="inner"), running_catalog(tmp_path, warehouses=nested):
        pass


def old_lake(database: str, folder: Path) -> None:
    """What the version before places made of it: `outer`, `inner` in its data folder, `apart` with a data path, and a
    namespace.
    """
    tables = {"outer": {}, "inner": {}, "apart": {"write.data.path": f"file://{folder}/warehouse/far"}, "lost": {}}
    with running_catalog(folder, database=database, allow_overlap=True) as running:
        client = Client(running.uri)
        client.post(
            "/namespaces", {"namespace": ["placed"], "properties": {"location": f"{running.warehouse}/placed-here"}}
        )
        for name, properties in tables.items():
            place = f"{running.warehouse}/ns/outer/data/x" if name == "inner" else f"{running.warehouse}/ns/{name}"
            client.create(name, location=place, properties=properties)
        Path(client.load("lost")["metadata-location"].removeprefix("file://")).unlink()
    take_back_schema(database, folder)


def take_back_schema(database: str, folder: Path) -> None:
    """Gives the catalog's database its first schema, with the namespaces and relations that it holds."""
    columns = {
        "namespaces": "warehouse, namespace, parent, properties",
        "relations": "warehouse, namespace, name, kind, uuid, metadata_location, previous_location, location",
    }
    opened = open_database(database)
    rows = {table: opened.read().rows(f"SELECT {names} FROM {table}") for table, names in columns.items()}
    if opened.dialect == "postgresql":
        opened.write(lambda sql: sql.run("DROP SCHEMA public CASCADE") and sql.run("CREATE SCHEMA public"))
    opened.close()
    for file in folder.glob("catalog.db*"):
        file.unlink()
    opened = open_database(database)
    opened.write(lambda sql: take_step(sql, dialect=opened.dialect, version=1, text=steps()[1][1]))
    for table, names in columns.items():
        marks = ", ".join("?" * len(names.split(",")))
        for row in rows[table]:
            insert = f"INSERT INTO {table} ({names}) VALUES ({marks})"
            opened.write(lambda sql, insert=insert, row=row: sql.run(insert, *row))
    opened.close()


def test_overlaps_from_before_are_reported_by_the_migration_and_keep_working(database: str, tmp_path: Path) -> None:
    old_lake(database, tmp_path)
    migrated = CliRunner().invoke(cli, ["catalog", "migrate", "--database", database])
    assert "stored the folders of 4 tables and views: 1 overlaps; frazil catalog overlaps lists them" in migrated.output
    listed = CliRunner().invoke(cli, ["catalog", "overlaps", "--database", database, "--output", "json"])
    (overlap,) = json.loads(listed.output)["overlaps"]
    assert (overlap["outer"]["name"], overlap["inner"]["name"]) == ("outer", "inner")
    with running_catalog(tmp_path, database=database) as running:
        client = Client(running.uri)
        for name in ("outer", "inner", "apart"):
            assert client.commit({"action": "set-properties", "updates": {"n": "1"}}, table=name).status == 200
        for place in ("ns/outer/data/y", "far/below", "ns/lost", "placed-here", "ns/apart", "ns/inner"):
            expected = 200 if place == "ns/inner" else 403
            assert create(client, "new", f"{running.warehouse}/{place}").status == expected, place


def test_a_server_stores_what_an_older_one_left_out(database: str, tmp_path: Path) -> None:
    """A server of the version before, still running while the database was migrated."""
    with running_catalog(tmp_path, database=database) as running:
        Client(running.uri).create("t", properties={"write.data.path": f"{running.warehouse}/far"})
        running.app.ctx.database.write(lambda sql: sql.run("DELETE FROM places"))
        running.app.ctx.database.write(lambda sql: sql.run("UPDATE relations SET places_known = 0"))
    with running_catalog(tmp_path, database=database) as running:
        assert create(Client(running.uri), "u", f"{running.warehouse}/far/u").error[:2] == FORBIDDEN


def test_an_append_does_not_look_at_places() -> None:
    metadata = {"location": "file:///w/t", "properties": {"write.data.path": "file:///w/far"}}
    assert places.new_locations({**metadata, "snapshots": [1]}, metadata) == []
    assert places.new_locations({**metadata, "properties": {**metadata["properties"], "x": "y"}}, metadata) == []


def run_at_once(uri: str, jobs: list[Callable[[Client], Any]]) -> list[int]:
    statuses = [0] * len(jobs)
    barrier = threading.Barrier(len(jobs))

    def run(position: int) -> None:
        own = Client(uri)
        own.get("/namespaces")
        barrier.wait(120)
        statuses[position] = jobs[position](own).status
        own.session.close()

    threads = [threading.Thread(target=run, args=(position,)) for position in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return statuses


def test_whatever_was_accepted_does_not_overlap(client: Client, server: EmbeddedCatalog) -> None:
    """Random creates, moves, renames and drops against a model that knows every place."""
    chance, live = random.Random(7), dict[str, set[str]]()
    client.create("seed")
    client.delete("/namespaces/ns/tables/seed")

    def place() -> str:
        return "/".join([server.warehouse, "p", *(chance.choice("abc") for _ in range(chance.randint(1, 4)))])

    for name in (f"t{number}" for number in itertools.islice(itertools.count(), 120)):
        wanted, known = place(), chance.choice([*live, None])
        if known is None or chance.random() < 0.5:
            status, owner = create(client, name, wanted).status, name
        elif chance.random() < 0.4:
            status, owner = client.commit({"action": "set-location", "location": wanted}, table=known).status, known
        elif chance.random() < 0.5:
            assert client.delete(f"/namespaces/ns/tables/{known}").status == 204
            live.pop(known)
            continue
        else:
            body = {"source": {"namespace": ["ns"], "name": known}, "destination": {"namespace": ["ns"], "name": name}}
            assert client.post("/tables/rename", body).status == 204
            live[name] = live.pop(known)
            continue
        others = [p for holder, places in live.items() if holder != owner for p in places]
        free = not any((p + "/").startswith(wanted + "/") or (wanted + "/").startswith(p + "/") for p in others)
        assert (status == 200) == free, (name, wanted, live)
        if free:
            live.setdefault(owner, set()).add(wanted)
