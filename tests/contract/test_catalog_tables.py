"""Tables, on both databases: create, load, list, drop, rename, register."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from frazil.catalog.embedded import EmbeddedCatalog
from tests.kit.catalog_databases import SCHEMA, Client, create_updates

ONE = "/namespaces/ns/tables/t"


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def test_a_table_gets_fresh_ids_a_uuid_a_location_and_a_metadata_file(client: Client, server: EmbeddedCatalog) -> None:
    schema = {"type": "struct", "fields": [{**SCHEMA["fields"][0], "id": 7}, {**SCHEMA["fields"][1], "id": 3}]}
    result = client.create(
        schema=schema, **{"partition-spec": {"fields": [{"source-id": 7, "name": "id", "transform": "identity"}]}}
    )
    metadata = result["metadata"]
    assert [f["id"] for f in metadata["schemas"][0]["fields"]] == [1, 2]
    assert metadata["partition-specs"][0]["fields"] == [
        {"source-id": 1, "name": "id", "transform": "identity", "field-id": 1000}
    ]
    assert metadata["location"] == f"{server.warehouse}/ns/t"
    assert json.loads(path_of(result["metadata-location"]).read_bytes()) == metadata
    assert client.load() == result


def test_an_existing_name_is_409_and_a_missing_namespace_404(client: Client) -> None:
    client.create()
    body = {"name": "t", "schema": SCHEMA}
    assert client.post("/namespaces/ns/tables", body).error == (
        409,
        "AlreadyExistsException",
        "Table already exists: ns.t",
    )
    assert client.post("/namespaces/x/tables", body).error == (
        404,
        "NoSuchNamespaceException",
        "Namespace does not exist: x",
    )


def test_a_missing_table_is_404(client: Client) -> None:
    client.create()
    assert client.get("/namespaces/ns/tables/x").error == (404, "NoSuchTableException", "Table does not exist: ns.x")
    assert [client.call("HEAD", f"/namespaces/ns/tables/{name}").status for name in ("t", "x")] == [204, 404]


def test_a_staged_create_becomes_a_table_only_with_its_commit(client: Client) -> None:
    client.post("/namespaces", {"namespace": ["ns"]})
    staged = client.post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA, "stage-create": True}).body
    assert "metadata-location" not in staged
    assert client.get("/namespaces/ns/tables").body["identifiers"] == []
    metadata = staged["metadata"]
    answer = client.commit(*create_updates(metadata), requirements=[{"type": "assert-create"}])
    assert answer.status == 200
    assert answer.body["metadata"]["table-uuid"] == metadata["table-uuid"]
    again = client.commit(*create_updates(metadata), requirements=[{"type": "assert-create"}])
    assert again.error == (409, "CommitFailedException", "Requirement failed: table already exists")


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_each_format_version_is_created_and_appended_to(client: Client, version: str) -> None:
    result = client.create(properties={"format-version": version})["metadata"]
    assert result["format-version"] == int(version)
    assert "format-version" not in result["properties"]
    snapshot = {"snapshot-id": 5, "timestamp-ms": 1, "manifest-list": "file:///x", "summary": {"operation": "append"}}
    snapshot |= {"sequence-number": 1} if version != "1" else {}
    snapshot |= {"first-row-id": 0, "added-rows": 10} if version == "3" else {}
    moved = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 5}
    after = client.commit({"action": "add-snapshot", "snapshot": snapshot}, moved).body["metadata"]
    assert (after["current-snapshot-id"], after.get("next-row-id")) == (5, 10 if version == "3" else None)


def test_pages_of_tables_hold_each_once(client: Client) -> None:
    names = [f"t{number}" for number in range(5)] + ['quo"te', "ünïcode", "with.dot", "a b"]
    for name in names:
        client.create(name)
    seen: list[str] = []
    token: str | None = ""
    while token is not None:
        page = client.get("/namespaces/ns/tables", pageToken=token, pageSize="2").body
        seen += [entry["name"] for entry in page["identifiers"]]
        token = page["next-page-token"]
    assert seen == sorted(names, key=str.encode)
    assert [e["name"] for e in client.get("/namespaces/ns/tables").body["identifiers"]] == seen


def test_a_table_moves_to_another_namespace_and_keeps_its_files(client: Client) -> None:
    result = client.create()
    client.post("/namespaces", {"namespace": ["other"]})
    move = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["other"], "name": "u"}}
    assert client.post("/tables/rename", move).status == 204
    assert client.load("u", "other") == result
    assert client.get(ONE).status == 404
    recreated = client.create()  # the name is free, its place is not
    assert recreated["metadata"]["location"] != result["metadata"]["location"]


def test_a_rename_names_what_is_in_its_way(client: Client) -> None:
    client.create("a")
    client.create("b")

    def rename(source: str, namespace: str, target: str) -> tuple[int, str, str]:
        move = {
            "source": {"namespace": ["ns"], "name": source},
            "destination": {"namespace": [namespace], "name": target},
        }
        return client.post("/tables/rename", move).error

    assert rename("a", "ns", "b") == (409, "AlreadyExistsException", "Cannot rename ns.a to ns.b. Table already exists")
    assert rename("x", "ns", "y") == (404, "NoSuchTableException", "Table does not exist: ns.x")
    assert rename("a", "nope", "y") == (404, "NoSuchNamespaceException", "Namespace does not exist: nope")


def test_a_drop_keeps_the_files_and_the_table_can_be_registered_again(client: Client) -> None:
    result = client.create()
    assert client.delete(ONE).status == 204
    assert client.delete(ONE).status == 404
    body = {"name": "back", "metadata-location": result["metadata-location"]}
    assert client.post("/namespaces/ns/register", body).body == result
    assert client.post("/namespaces/ns/register", body).error == (
        409,
        "AlreadyExistsException",
        "Table already exists: ns.back",
    )


def test_register_with_overwrite_replaces_the_table(client: Client) -> None:
    old = client.create()
    client.commit({"action": "set-properties", "updates": {"x": "1"}})
    body = {"name": "t", "metadata-location": old["metadata-location"], "overwrite": True}
    assert client.post("/namespaces/ns/register", body).status == 200
    assert client.load() == old


def test_unregister_answers_the_last_metadata_and_keeps_the_files(client: Client) -> None:
    result = client.create()
    answer = client.post(f"{ONE}/unregister")
    assert (answer.status, answer.body) == (200, result)
    assert client.get(ONE).status == 404
    assert path_of(result["metadata-location"]).exists()
    assert client.commit({"action": "set-properties", "updates": {"x": "1"}}).status == 404


def test_a_purge_deletes_the_tables_own_files_and_nothing_else(client: Client, server: EmbeddedCatalog) -> None:
    result = client.create()
    client.commit({"action": "set-properties", "updates": {"x": "1"}})
    folder = path_of(result["metadata"]["location"])
    stranger = folder / "metadata" / "notes.txt"
    stranger.write_text("not the table's")
    assert client.delete(ONE, purgeRequested="true").status == 204
    assert [path for path in folder.rglob("*") if path.is_file()] == [stranger]


def test_a_purge_spares_files_that_another_table_of_the_same_place_needs(overlapping: EmbeddedCatalog) -> None:
    client, server = Client(overlapping.uri), overlapping
    result = client.create()
    client.post("/namespaces/ns/register", {"name": "twin", "metadata-location": result["metadata-location"]})
    assert client.delete(ONE, purgeRequested="true").status == 204
    server.app.ctx.background.submit(int).result()
    assert client.load("twin") == result
    server.app.ctx.files.cache.drop(result["metadata-location"])
    assert client.load("twin") == result


def test_a_metadata_file_that_vanishes_is_noticed_although_it_is_in_memory(client: Client) -> None:
    result = client.create()
    location = client.load()["metadata-location"]
    path_of(location).rename(path_of(location).with_suffix(".away"))
    status, kind, message = client.get(ONE).error
    assert (status, kind) == (404, "NotFoundException")
    assert message.startswith(f"Failed to open input stream for file: {location} (table ns.t is in the catalog")
    assert "frazil table recover ns.t" in message
    assert client.call("HEAD", ONE).status == 204
    path_of(location).with_suffix(".away").rename(path_of(location))
    assert client.load() == result


def test_a_corrupt_metadata_file_is_a_clear_error(client: Client, database: str, server: EmbeddedCatalog) -> None:
    result = client.create()
    path_of(result["metadata-location"]).write_text("{nonsense")
    server.app.ctx.files.cache.drop(result["metadata-location"])
    status, kind, message = client.get(ONE).error
    assert (status, kind) == (422, "UnprocessableEntityException")
    assert f"{result['metadata-location']} of table ns.t" in message
    assert "frazil table recover ns.t" in message


def test_a_metadata_file_that_cannot_be_opened_names_its_table_and_may_be_asked_for_again(
    client: Client, server: EmbeddedCatalog
) -> None:
    location = client.create()["metadata-location"]
    path_of(location).unlink()
    path_of(location).symlink_to(path_of(location))  # a loop: the system refuses to open it
    server.app.ctx.files.cache.drop(location)
    status, kind, message = client.get(ONE).error
    assert (status, kind) == (503, "ServiceUnavailableException")
    assert message.startswith(f"cannot read {location}: ")
    assert message.endswith("(table ns.t)")


def test_metadata_in_gzip_is_written_and_read(client: Client, server: EmbeddedCatalog) -> None:
    result = client.create(properties={"write.metadata.compression-codec": "gzip"})
    assert result["metadata-location"].endswith(".gz.metadata.json")
    assert path_of(result["metadata-location"]).read_bytes()[:2] == b"\x1f\x8b"
    server.app.ctx.files.cache.drop(result["metadata-location"])
    assert client.load() == result


def test_metrics_reports_are_kept(client: Client, server: EmbeddedCatalog) -> None:
    from frazil.catalog.names import Name
    from frazil.catalog.store import reports

    client.create()
    report = {"report-type": "scan-report", "table-name": "t", "snapshot-id": 1, "metrics": {}}
    assert client.post(f"{ONE}/metrics", report).status == 204
    assert client.post("/namespaces/ns/tables/x/metrics", report).status == 404
    kept = reports.newest(server.app.ctx.database.read(), "default", Name(("ns",), "t"))
    assert [(kind, json.loads(text)) for _, kind, text in kept] == [("scan-report", report)]


def test_functions_are_an_empty_list_for_now(client: Client) -> None:
    client.create()
    assert client.get("/namespaces/ns/functions").body == {"identifiers": [], "next-page-token": None}
    assert client.get("/namespaces/ns/functions/f").error[:2] == (404, "NoSuchFunctionException")
