"""A request that is repeated with its idempotency key gets the outcome of the first one, on both databases."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from frazil.catalog.embedded import EmbeddedCatalog
from tests.contract.test_catalog_views import replace, version
from tests.kit.catalog_databases import SCHEMA, Client

PROPERTIES = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"x": "y"}}]}


def send_keyed(client: Client, path: str, body: Any, key: str | None = None) -> Any:
    return client.post(path, body, headers={"Idempotency-Key": key or str(uuid.uuid4())})


def send_twice(server: EmbeddedCatalog, path: str, body: Any) -> Any:
    """The answer that both requests with one key get; the second one's server has the file no longer in memory."""
    client, key = Client(server.uri), str(uuid.uuid4())
    first = send_keyed(client, path, body, key)
    server.app.ctx.files.cache.drop(first.body["metadata-location"])
    again = send_keyed(client, path, body, key)
    assert (first.status, again.status, again.body) == (200, 200, first.body)
    return first.body


def path_of(answer: dict[str, Any]) -> Path:
    return Path(answer["metadata-location"].removeprefix("file://"))


@pytest.mark.parametrize(
    ("namespace", "name"),
    [("ns", "views"), ("ns", "views_daily"), ("views", "t"), ("ns", "register-view"), ("register-view", "views")],
)
def test_the_names_of_a_table_do_not_change_what_a_repeat_gets(
    client: Client, server: EmbeddedCatalog, namespace: str, name: str
) -> None:
    client.post("/namespaces", {"namespace": [namespace]})
    tables = f"/namespaces/{namespace}/tables"
    send_twice(server, tables, {"name": name, "schema": SCHEMA})
    twice = send_twice(server, f"{tables}/{name}", PROPERTIES)
    client.delete(f"{tables}/{name}")
    body = {"name": name, "metadata-location": twice["metadata-location"]}
    assert send_twice(server, f"/namespaces/{namespace}/register", body) == twice


def test_a_repeat_about_a_view_returns_the_view(client: Client, server: EmbeddedCatalog) -> None:
    client.post("/namespaces", {"namespace": ["tables"]})
    views = "/namespaces/tables/views"
    create = {"name": "tables", "schema": SCHEMA, "view-version": version(), "properties": {}}
    send_twice(server, views, create)
    changed = send_twice(server, f"{views}/tables", {"requirements": [], "updates": replace("SELECT 2")})
    client.delete(f"{views}/tables")
    body = {"name": "again", "metadata-location": changed["metadata-location"]}
    assert send_twice(server, "/namespaces/tables/register-view", body) == changed


@pytest.mark.parametrize("renamed", [False, True])
def test_a_repeat_whose_metadata_file_is_gone_returns_the_tables_current_state(client: Client, renamed: bool) -> None:
    client.create()
    key = str(uuid.uuid4())
    first = send_keyed(client, "/namespaces/ns/tables/t", PROPERTIES, key)
    later = client.commit({"action": "set-properties", "updates": {"later": "1"}})
    if renamed:
        ends = [{"namespace": ["ns"], "name": name} for name in ("t", "moved")]
        assert client.post("/tables/rename", {"source": ends[0], "destination": ends[1]}).status == 204
    path_of(first.body).unlink()
    again = send_keyed(client, "/namespaces/ns/tables/t", PROPERTIES, key)
    assert (again.status, again.body) == (200, later.body)


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_repeat_about_a_dropped_table_is_not_reported_as_failed(client: Client, made_anew: bool) -> None:
    """A 4xx would be a lie: Java deletes the files of a commit that was refused."""
    client.create()
    key = str(uuid.uuid4())
    first = send_keyed(client, "/namespaces/ns/tables/t", PROPERTIES, key)
    client.delete("/namespaces/ns/tables/t")
    path_of(first.body).unlink()
    if made_anew:
        client.create()
    status, kind, message = send_keyed(client, "/namespaces/ns/tables/t", PROPERTIES, key).error
    assert (status, kind) == (500, "CommitStateUnknownException")
    assert "was carried out" in message


def test_a_damaged_file_is_like_one_that_is_gone(client: Client) -> None:
    client.create()
    key = str(uuid.uuid4())
    first = send_keyed(client, "/namespaces/ns/tables/t", PROPERTIES, key)
    later = client.commit({"action": "set-properties", "updates": {"later": "1"}})
    path_of(first.body).write_text("{}")
    again = send_keyed(client, "/namespaces/ns/tables/t", PROPERTIES, key)
    assert (again.status, again.body) == (200, later.body)


def test_records_from_before_the_kind_was_stored_are_answered(client: Client, server: EmbeddedCatalog) -> None:
    client.create("views")
    client.create("other")
    view, table = str(uuid.uuid4()), str(uuid.uuid4())
    body = {"name": "v", "schema": SCHEMA, "view-version": version(), "properties": {}}
    first = [
        send_keyed(client, "/namespaces/ns/views", body, view),
        send_keyed(client, "/namespaces/ns/tables/views", PROPERTIES, table),
    ]
    server.app.ctx.database.write(lambda sql: sql.run("UPDATE idempotency SET kind = NULL, uuid = NULL"))
    for answer in first:
        server.app.ctx.files.cache.drop(answer.body["metadata-location"])
    again = [
        send_keyed(client, "/namespaces/ns/views", body, view),
        send_keyed(client, "/namespaces/ns/tables/views", PROPERTIES, table),
    ]
    assert [answer.body for answer in again] == [answer.body for answer in first]
    path_of(first[1].body).unlink()
    assert send_keyed(client, "/namespaces/ns/tables/views", PROPERTIES, table).status == 500
