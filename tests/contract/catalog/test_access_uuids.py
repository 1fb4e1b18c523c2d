"""UUIDs and access: a chosen UUID, an idempotency key or a page token gives nothing of a table of another owner."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from frazil.catalog.operations import references
from tests.kit.access import VIEW, Guarded, namespace, table
from tests.kit.catalog_databases import SCHEMA, Answer, Client

FORBIDDEN = (403, "ForbiddenException")


@pytest.fixture
def guarded(guarded: Guarded) -> Guarded:
    for name in ("hr", "eve"):
        guarded.admin.post("/namespaces", {"namespace": [name]})
    return guarded


@pytest.fixture
def eve(guarded: Guarded) -> Client:
    return guarded.user("eve", ("manage", namespace("eve")))


def create_with(client: Client, table_uuid: str, key: str | None = None, name: str = "twin") -> Answer:
    """A commit that creates a table with a UUID of the client's choice."""
    updates = [
        {"action": "assign-uuid", "uuid": table_uuid},
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]
    body = {"requirements": [{"type": "assert-create"}], "updates": updates}
    headers = {"Idempotency-Key": key} if key else {}
    return client.post(f"/namespaces/eve/tables/{name}", body, headers=headers)


def path_of(loaded: dict[str, Any]) -> Path:
    return Path(loaded["metadata-location"].removeprefix("file://"))


def create_index(client: Client, loaded: dict[str, Any], path: str) -> Answer:
    codebook = {"path": f"{loaded['metadata']['location']}/x.puffin"}
    record = {"type": "frazil-vector-v1", "metric": "cosine", "field-id": 1, "dimension": 4, "probes": 1}
    return client.post(f"{path}/indexes", {"name": "i", "record": record | {"segments": [], "codebook": codebook}})


def rewritten(guarded: Guarded, loaded: dict[str, Any], table_uuid: str) -> str:
    """A metadata file in the folder of a table of eve, with another UUID in it; the table is dropped."""
    path = path_of(loaded)
    document = json.loads(path.read_text()) | {"table-uuid": table_uuid}
    copy = path.with_name("00009-00000000-0000-0000-0000-000000000009.metadata.json")
    copy.write_text(json.dumps(document))
    assert guarded.admin.delete("/namespaces/eve/tables/mine").status == 204
    return f"file://{copy}"


def test_a_repeat_reads_the_table_as_it_is_now_only_for_who_may_read_it(guarded: Guarded, eve: Client) -> None:
    key, table_uuid = str(uuid.uuid4()), str(uuid.uuid4())
    first = create_with(eve, table_uuid, key)
    ends = [{"namespace": [ns], "name": "twin"} for ns in ("eve", "hr")]
    assert guarded.admin.post("/tables/rename", {"source": ends[0], "destination": ends[1]}).status == 204
    changes = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"owner": "later"}}]}
    assert guarded.admin.post("/namespaces/hr/tables/twin", changes).status == 200
    path_of(first.body).unlink()
    again = create_with(eve, table_uuid, key)
    assert again.error[:2] == (500, "CommitStateUnknownException")
    assert "later" not in str(again.body)
    guarded.grant("read", table("twin", "hr"), "eve")
    assert create_with(eve, table_uuid, key).body["metadata"]["properties"]["owner"] == "later"


def test_a_new_table_does_not_get_the_uuid_of_a_table_of_another_owner(guarded: Guarded, eve: Client) -> None:
    victim = guarded.admin.create("pay", "hr")
    refused = create_with(eve, victim["metadata"]["table-uuid"]).error
    assert refused[:2] == FORBIDDEN
    assert "pay" not in refused[2]
    assert "hr" not in refused[2].split()
    assert not list((path_of(victim).parents[3] / "eve").rglob("*.json"))  # nothing is left of it
    guarded.grant("manage", table("pay", "hr"), "eve")
    assert create_with(eve, victim["metadata"]["table-uuid"]).status == 200
    assert create_with(eve, str(uuid.uuid4()), name="other").status == 200


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_registration_does_not_bring_the_uuid_of_a_table_of_another_owner(
    guarded: Guarded, eve: Client, overwrite: bool
) -> None:
    victim = guarded.admin.create("pay", "hr")
    file = rewritten(guarded, eve.create("mine", "eve"), victim["metadata"]["table-uuid"])
    if overwrite:
        eve.create("again", "eve")
    body = {"name": "again", "metadata-location": file, "overwrite": overwrite}
    refused = eve.post("/namespaces/eve/register", body).error
    assert refused[:2] == FORBIDDEN
    assert "pay" not in refused[2]
    assert guarded.admin.post("/namespaces/eve/register", body).status == 200


def drop_and_take_over(guarded: Guarded, eve: Client, victim: dict[str, Any]) -> None:
    """Drops the table of the victim; then eve tries to get its UUID, by a commit and by a registration."""
    file = rewritten(guarded, eve.create("mine", "eve"), victim["metadata"]["table-uuid"])
    assert guarded.admin.delete("/namespaces/hr/tables/pay").status == 204
    assert create_with(eve, victim["metadata"]["table-uuid"]).error[:2] == FORBIDDEN
    body = {"name": "again", "metadata-location": file}
    assert eve.post("/namespaces/eve/register", body).error[:2] == FORBIDDEN


def test_indexes_of_a_dropped_table_do_not_come_to_a_new_one(guarded: Guarded, eve: Client) -> None:
    victim = guarded.admin.create("pay", "hr")
    assert create_index(guarded.admin, victim, "/namespaces/hr/tables/pay").status == 200
    drop_and_take_over(guarded, eve, victim)
    ann = guarded.user("ann", ("manage", namespace("hr")))
    body = {"name": "pay", "metadata-location": victim["metadata-location"]}
    assert ann.post("/namespaces/hr/register", body).status == 200  # the table itself has its indexes again
    assert [index["name"] for index in ann.get("/namespaces/hr/tables/pay/indexes").body["indexes"]] == ["i"]


def test_a_new_table_does_not_get_the_uuid_of_a_dropped_one(guarded: Guarded, eve: Client) -> None:
    victim = guarded.admin.create("pay", "hr")
    drop_and_take_over(guarded, eve, victim)
    ann = guarded.user("ann", ("manage", namespace("hr")))
    body = {"name": "back", "metadata-location": victim["metadata-location"]}
    assert ann.post("/namespaces/hr/register", body).status == 200


def test_a_registered_view_does_not_bring_the_uuid_of_a_table(guarded: Guarded, eve: Client) -> None:
    victim = guarded.admin.create("pay", "hr")
    loaded = eve.post("/namespaces/eve/views", VIEW).body
    assert eve.delete("/namespaces/eve/views/v").status == 204
    path = path_of(loaded)
    copy = path.with_name("00009-00000000-0000-0000-0000-000000000009.metadata.json")
    document = json.loads(path.read_text())
    copy.write_text(json.dumps(document | {"view-uuid": victim["metadata"]["table-uuid"]}))
    body = {"name": "again", "metadata-location": f"file://{copy}"}
    assert eve.post("/namespaces/eve/register-view", body).error[:2] == FORBIDDEN
    body = {"name": "again", "metadata-location": loaded["metadata-location"]}
    assert eve.post("/namespaces/eve/register-view", body).status == 200  # its own


def test_the_token_of_a_page_of_references_names_no_table(
    guarded: Guarded, eve: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "PAGE_SECONDS", -1.0)  # a page for each table
    hidden = [guarded.admin.create(name, "hr") for name in ("pay", "bonus", "staff")]
    eve.create("mine", "eve")
    files = [loaded["metadata-location"] for loaded in hidden]
    body: dict[str, Any] = {"files": files, "other-than": {"namespace": ["eve"], "name": "mine"}}
    pages = [eve.post("/tables/references", body).body]
    while token := pages[-1]["next-page-token"]:
        pages.append(eve.post("/tables/references", body | {"page-token": token}).body)
    assert sorted(entry["file"] for page in pages for entry in page["referenced"]) == sorted(files)
    assert len(pages) == 3
    names = ["hr", "pay", "bonus", "staff", *(loaded["metadata"]["table-uuid"] for loaded in hidden)]
    assert not [name for page in pages for name in names if name in (page["next-page-token"] or [])]
    mine = guarded.admin.post("/tables/references", body).body["next-page-token"]
    assert mine not in [page["next-page-token"] for page in pages]  # each principal has its own
