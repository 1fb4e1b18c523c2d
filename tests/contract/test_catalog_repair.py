"""Orphans and broken metadata, on both databases, through the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner, Result

from frazil.catalog import Name, find_candidates, newest_records, roll_back
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.catalog.store.migrations import latest_version
from frazil.cli.main import cli
from frazil.errors import CommitConflict
from tests.contract.test_catalog_purge import register_elsewhere
from tests.kit.catalog_databases import Client
from tests.kit.raising import raises


@pytest.fixture
def run(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`frazil ...` as an operator would call it while the server runs."""
    monkeypatch.setenv("FRAZIL_SERVER__DATABASE", database)
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str, answer: str | None = None) -> Result:
        result = CliRunner().invoke(cli, [*arguments, "--warehouse", str(tmp_path / "warehouse")], input=answer)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


def metadata_folder(server: EmbeddedCatalog, table: str = "t") -> Path:
    return server.folder / "warehouse" / "ns" / table / "metadata"


def grow(client: Client, count: int) -> list[str]:
    """The metadata locations of a table and of its next versions."""
    result = [client.create()["metadata-location"]]
    for number in range(count):
        result.append(
            client.commit({"action": "set-properties", "updates": {"n": str(number)}}).body["metadata-location"]
        )
    return result


def orphan(server: EmbeddedCatalog, number: int = 2) -> Path:
    file = metadata_folder(server) / f"{number:05d}-0000-orphan.metadata.json"
    file.write_text("{}")
    return file


def test_a_sweep_lists_what_was_never_current_and_deletes_it_on_request(
    client: Client, server: EmbeddedCatalog, run: Any
) -> None:
    grow(client, 3)
    file = orphan(server)
    kept = set(metadata_folder(server).iterdir()) - {file}
    listed = run("catalog", "sweep", "--older-than", "0m").output
    assert str(file) in listed
    assert "1 orphan metadata files, 2 bytes: nothing was deleted" in listed
    assert "deleted 1" in run("catalog", "sweep", "--older-than", "0m", "--yes").output
    assert set(metadata_folder(server).iterdir()) == kept
    assert client.load()["metadata"]["properties"]["n"] == "2"


def test_a_sweep_spares_the_young_and_the_dropped(client: Client, server: EmbeddedCatalog, run: Any) -> None:
    grow(client, 1)
    orphan(server)
    assert run("catalog", "sweep").output.startswith("0 orphan metadata files")
    client.delete("/namespaces/ns/tables/t")
    assert run("catalog", "sweep", "--older-than", "0m").output.startswith("0 orphan metadata files")


def test_versions_that_fell_out_of_the_log_are_no_orphans(client: Client, server: EmbeddedCatalog, run: Any) -> None:
    client.create(properties={"write.metadata.previous-versions-max": "2"})
    for number in range(7):
        client.commit({"action": "set-properties", "updates": {"n": str(number)}})
    file = orphan(server, 5)
    document = json.loads(run("catalog", "sweep", "--older-than", "0m", "--output", "json").output)
    assert [o["location"] for o in document["orphans"]] == [f"file://{file}"]


def swept(run: Any) -> list[str]:
    """What a sweep would delete."""
    return [
        o["location"]
        for o in json.loads(run("catalog", "sweep", "--older-than", "0m", "--output", "json").output)["orphans"]
    ]


def test_a_sweep_spares_the_versions_of_a_table_that_was_dropped_and_made_anew(client: Client, run: Any) -> None:
    old = grow(client, 3)
    client.delete("/namespaces/ns/tables/t")
    new = client.create(location=str(Path(old[0]).parent.parent).replace("file:/", "file:///"))
    assert Path(new["metadata-location"]).parent == Path(old[0]).parent
    assert swept(run) == []
    assert "deleted 0" in run("catalog", "sweep", "--older-than", "0m", "--yes").output
    assert all(Path(item.removeprefix("file://")).exists() for item in old)


@pytest.mark.parametrize("how", ["recover", "register"])
def test_a_sweep_spares_the_versions_that_a_pointer_was_set_back_from(
    client: Client, server: EmbeddedCatalog, run: Any, how: str
) -> None:
    locations = grow(client, 4)
    if how == "recover":
        run("table", "recover", "ns.t", "--to", locations[1].rpartition("/")[2], "--yes")
    else:
        body = {"name": "t", "metadata-location": locations[1], "overwrite": True}
        assert client.post("/namespaces/ns/register", body).status == 200
    for number in range(4):
        assert client.commit({"action": "set-properties", "updates": {"again": str(number)}}).status == 200
    file = orphan(server)
    assert swept(run) == [f"file://{file}"]


def test_a_sweep_spares_what_a_recovery_from_lost_versions_left(
    client: Client, server: EmbeddedCatalog, run: Any
) -> None:
    locations = grow(client, 5)
    for lost in locations[4:]:
        Path(lost.removeprefix("file://")).unlink()
        server.app.ctx.files.cache.drop(lost)
    run("table", "recover", "ns.t", "--to", locations[1].rpartition("/")[2], "--yes")
    for number in range(4):
        assert client.commit({"action": "set-properties", "updates": {"again": str(number)}}).status == 200
    assert swept(run) == []


def test_a_sweep_spares_a_table_that_is_dropped_while_it_looks(
    client: Client, server: EmbeddedCatalog, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from frazil.catalog import sweep

    grow(client, 3)
    listing = sweep.list_metadata_files

    def list_then_drop(*arguments: Any) -> Any:
        drop = listing(*arguments)
        client.delete("/namespaces/ns/tables/t")
        return drop

    monkeypatch.setattr(sweep, "list_metadata_files", list_then_drop)
    assert swept(run) == []


def test_a_sweep_spares_the_versions_of_a_table_that_is_registered_in_two_warehouses(
    client: Client, server: EmbeddedCatalog, run: Any
) -> None:
    locations = grow(client, 1)
    register_elsewhere(server, locations[-1])
    cold = Client(server.uri, "cold", client.session)
    body = {"updates": [{"action": "set-properties", "updates": {"cold": "1"}}], "requirements": []}
    response = cold.post("/namespaces/ns/tables/twin", body)
    assert response.status == 200
    assert Path(response.body["metadata-location"]).parent == Path(locations[-1]).parent
    client.commit({"action": "set-properties", "updates": {"default": "1"}})
    file = orphan(server)
    assert swept(run) == [f"file://{file}"]


def test_a_sweep_spares_files_from_before_the_catalog_kept_a_record(
    client: Client, server: EmbeddedCatalog, run: Any
) -> None:
    grow(client, 3)
    file = orphan(server)
    os.utime(file, (1_600_000_000, 1_600_000_000))
    assert swept(run) == []


def test_a_sweep_spares_metadata_of_another_table_or_view(client: Client, server: EmbeddedCatalog, run: Any) -> None:
    grow(client, 3)
    for number, content in enumerate(('{"view-uuid": "a-view"}', '{"table-uuid": "another"}')):
        (metadata_folder(server) / f"0000{number}-0000-other.metadata.json").write_text(content)
    (metadata_folder(server) / "deep").mkdir()
    (metadata_folder(server) / "deep" / "00001-0000-deep.metadata.json").write_text("{}")
    assert swept(run) == []


def test_versions_that_fall_out_of_the_log_are_deleted_where_the_table_asks_for_it(
    client: Client, server: EmbeddedCatalog
) -> None:
    client.create(
        properties={"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "true"}
    )
    for number in range(4):
        client.commit({"action": "set-properties", "updates": {"n": str(number)}})
    server.app.ctx.background.submit(int).result(timeout=120)
    assert sorted(path.name[:5] for path in metadata_folder(server).iterdir()) == ["00003", "00004"]


@pytest.mark.parametrize("damage", ["corrupt", "gone"])
def test_recover_goes_back_to_the_version_before(
    client: Client, server: EmbeddedCatalog, run: Any, damage: str
) -> None:
    locations = grow(client, 2)
    current = Path(locations[-1].removeprefix("file://"))
    current.write_text("{half a fi") if damage == "corrupt" else current.unlink()
    orphan(server)
    server.app.ctx.files.cache.drop(locations[-1])
    assert client.get("/namespaces/ns/tables/t").status in (404, 422)
    declined = run("table", "recover", "ns.t", answer="n\n")
    assert client.get("/namespaces/ns/tables/t").status in (404, 422)
    assert "perhaps never current" in declined.output
    assert run("table", "recover", "ns.t", answer="y\n").exit_code == 0
    assert client.load()["metadata-location"] == locations[-2]
    assert client.commit({"action": "set-properties", "updates": {"n": "again"}}).status == 200


def test_recover_shows_a_healthy_table_and_goes_back_only_on_request(client: Client, run: Any) -> None:
    locations = grow(client, 3)
    assert "the current version can be read" in run("table", "recover", "ns.t").output
    assert client.load()["metadata-location"] == locations[-1]
    run("table", "recover", "ns.t", "--to", locations[1].rpartition("/")[2], "--yes")
    assert client.load()["metadata-location"] == locations[1]


def test_a_recovery_is_in_the_audit_log_if_it_was_made(client: Client, server: EmbeddedCatalog, run: Any) -> None:
    first, second, third = grow(client, 2)
    name, ctx = first.rpartition("/")[2], server.app.ctx
    table = (warehouse := ctx.warehouses.named(None)), Name(("ns",), "t")
    relation, candidates = find_candidates(ctx, *table)
    run("table", "recover", "ns.t", "--to", name, "--yes")
    (record,) = newest_records(ctx.database.read(), limit=10)
    assert (record.actor, record.operation, record.decision) == ("command line", "recoverTable", "allowed")
    assert (record.objects, record.note) == (f"table {warehouse.name}: ns.t", f"from {third} to {first}")
    with pytest.raises(CommitConflict):  # the pointer has moved since it was read
        roll_back(ctx, *table, relation, next(each for each in candidates if each.location == second))
    assert newest_records(ctx.database.read(), limit=10) == [record]


def test_recover_of_an_unknown_table_or_file_says_so(client: Client, run: Any) -> None:
    from frazil.errors import BadRequest, NoSuchTable

    grow(client, 1)
    with pytest.raises(NoSuchTable):
        run("table", "recover", "ns.x")
    with raises(BadRequest, path="nope"):
        run("table", "recover", "ns.t", "--to", "nope")
    with raises(BadRequest, name="t"):
        run("table", "recover", "t")


def test_migrate_says_where_the_schema_is(run: Any, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(cli, ["catalog", "migrate", "--database", database])
    assert result.output.endswith(f"the schema is at version {latest_version()}\n")


def test_a_server_refuses_a_schema_that_is_behind_or_ahead(database: str, tmp_path: Path) -> None:
    from frazil.catalog.store import open_database
    from frazil.errors import SchemaBehind, Unavailable

    with running_catalog(tmp_path, database=database):
        pass
    for version, error, text in ((99, Unavailable, "knows up to"), (0, SchemaBehind, "frazil catalog migrate")):
        opened = open_database(database)
        opened.write(lambda sql: sql.run("DELETE FROM frazil_schema"))
        opened.write(lambda sql, v=version: sql.run("INSERT INTO frazil_schema (version) VALUES (?)", v))
        opened.close()
        with pytest.raises(error) as raised, running_catalog(tmp_path, database=database):
            pass
        assert text in str(raised.value)
        assert (urlsplit(database).password or "no password") not in str(raised.value)
