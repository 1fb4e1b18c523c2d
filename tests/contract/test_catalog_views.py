"""Views, on both databases."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.catalog_databases import SCHEMA, Client

ONE = "/namespaces/ns/views/v"


def version(sql: str = "SELECT 1", dialect: str = "spark", number: int = 1) -> dict[str, Any]:
    return {
        "version-id": number,
        "timestamp-ms": 1000 + number,
        "schema-id": -1,
        "summary": {"engine": "test"},
        "representations": [{"type": "sql", "sql": sql, "dialect": dialect}],
        "default-namespace": ["ns"],
    }


def create(client: Client, name: str = "v", **more: Any) -> dict[str, Any]:
    client.post("/namespaces", {"namespace": ["ns"]})
    body = {"name": name, "schema": SCHEMA, "view-version": version(), "properties": {}, **more}
    answer = client.post("/namespaces/ns/views", body)
    assert answer.status == 200, answer.body
    result: dict[str, Any] = answer.body
    return result


def replace(sql: str, number: int = 2, dialect: str = "spark") -> list[dict[str, Any]]:
    changed = {**version(sql, dialect, number), "schema-id": 0}
    return [
        {"action": "add-view-version", "view-version": changed},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]


def commit(client: Client, updates: list[dict[str, Any]], requirements: Any = ()) -> Any:
    return client.post(ONE, {"requirements": list(requirements), "updates": updates})


def test_a_view_is_created_loaded_listed_and_dropped(client: Client) -> None:
    result = create(client)
    assert client.get(ONE).body == result
    assert result["metadata"]["versions"][0]["schema-id"] == 0
    assert client.get("/namespaces/ns/views").body["identifiers"] == [{"namespace": ["ns"], "name": "v"}]
    assert client.get("/namespaces/ns/tables").body["identifiers"] == []
    assert client.call("HEAD", ONE).status == 204
    assert client.delete(ONE).status == 204
    assert client.get(ONE).error == (404, "NoSuchViewException", "View does not exist: ns.v")


def test_a_view_and_a_table_cannot_share_a_name(client: Client) -> None:
    create(client)
    client.create("t")
    body = {"name": "v", "schema": SCHEMA}
    assert client.post("/namespaces/ns/tables", body).error == (
        409,
        "AlreadyExistsException",
        "View with same name already exists: ns.v",
    )
    view = {"name": "t", "schema": SCHEMA, "view-version": version(), "properties": {}}
    assert client.post("/namespaces/ns/views", view).error[2] == "Table with same name already exists: ns.t"
    assert client.get("/namespaces/ns/tables/v").status == client.get("/namespaces/ns/views/t").status == 404


def test_a_replacement_adds_a_version_and_keeps_the_old_one(client: Client) -> None:
    result = create(client)
    uuid = {"type": "assert-view-uuid", "uuid": result["metadata"]["view-uuid"]}
    after = commit(client, replace("SELECT 2"), [uuid]).body["metadata"]
    assert [v["version-id"] for v in after["versions"]] == [1, 2]
    assert [e["version-id"] for e in after["version-log"]] == [1, after["current-version-id"]] == [1, 2]
    wrong = commit(client, replace("SELECT 3"), [{**uuid, "uuid": "other"}])
    assert wrong.error[:2] == (409, "CommitFailedException")


def test_an_equal_version_is_used_again(client: Client) -> None:
    create(client)
    commit(client, replace("SELECT 2"))
    after = commit(client, replace("SELECT 1", number=7)).body["metadata"]
    assert (after["current-version-id"], len(after["versions"])) == (1, 2)
    assert [e["version-id"] for e in after["version-log"]] == [1, 2, 1]


def test_old_versions_expire(client: Client) -> None:
    create(client, properties={"version.history.num-entries": "2"})
    for number in range(2, 5):
        after = commit(client, replace(f"SELECT {number}", number)).body["metadata"]
    assert [v["version-id"] for v in after["versions"]] == [3, 4]
    assert [e["version-id"] for e in after["version-log"]] == [3, 4]


def test_a_dialect_is_lost_only_when_the_view_allows_it(client: Client) -> None:
    create(client)
    assert "loss of view dialects" in commit(client, replace("SELECT 2", dialect="trino")).error[2]
    commit(client, [{"action": "set-properties", "updates": {"replace.drop-dialect.allowed": "true"}}])
    assert commit(client, replace("SELECT 2", dialect="trino")).status == 200


def test_one_dialect_has_one_query(client: Client) -> None:
    create(client)
    twice = {**version(), "schema-id": 0, "representations": version()["representations"] * 2}
    answer = commit(client, [{"action": "add-view-version", "view-version": twice}])
    assert answer.error == (
        400,
        "IllegalArgumentException",
        "Invalid view version: Cannot add multiple queries for dialect spark",
    )


def test_a_view_is_renamed_and_registered(client: Client) -> None:
    result = create(client)
    move = {"source": {"namespace": ["ns"], "name": "v"}, "destination": {"namespace": ["ns"], "name": "w"}}
    assert client.post("/views/rename", move).status == 204
    assert client.post("/views/rename", move).error == (404, "NoSuchViewException", "View does not exist: ns.v")
    body = {"name": "v", "metadata-location": result["metadata-location"]}
    assert client.delete("/namespaces/ns/views/w").status == 204
    assert client.post("/namespaces/ns/register-view", body).body == result
    assert client.post("/namespaces/ns/register-view", body).error[2] == "View already exists: ns.v"


def test_a_namespace_with_a_view_is_not_empty(client: Client) -> None:
    create(client)
    assert client.delete("/namespaces/ns").error[:2] == (409, "NamespaceNotEmptyException")


@pytest.mark.parametrize(
    "update",
    [
        {"action": "add-snapshot", "snapshot": {}},
        {"action": "set-current-view-version", "view-version-id": 9},
        {"action": "set-current-view-version", "view-version-id": -1},
        {"action": "add-view-version", "view-version": version()},
        {"action": "add-view-version", "view-version": {**version(), "schema-id": 9}},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "assign-uuid", "uuid": "6f0b3c5e-8a2b-4a4e-9d51-2f1d1c0d7a11"},
        {"action": "set-location", "location": "file:///etc"},
        {"action": "set-properties", "updates": {"version.history.num-entries": "0"}},
    ],
)
def test_an_update_that_a_view_cannot_take_is_refused(client: Client, update: dict[str, Any]) -> None:
    result = create(client)
    assert commit(client, [update]).status in (400, 403)
    assert client.get(ONE).body == result
