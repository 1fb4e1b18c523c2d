"""Commits, on both databases: requirements, all or nothing, server retry, ETags, idempotency keys."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.kit.catalog_databases import Client, append_change, create_updates

ONE = "/namespaces/ns/tables/t"
SET_X = {"action": "set-properties", "updates": {"x": "1"}}


def new_key() -> dict[str, str]:
    return {"Idempotency-Key": str(uuid.uuid4())}


def entry(table: str, change: dict[str, Any]) -> dict[str, Any]:
    return {"identifier": {"namespace": ["ns"], "name": table}, **change}


def test_a_commit_whose_requirement_fails_is_409_and_changes_nothing(client: Client) -> None:
    client.create()
    assert client.append(1, parent=None, sequence=1).status == 200
    before = client.load()
    answer = client.append(2, parent=None, sequence=2)
    assert answer.error == (409, "CommitFailedException", "Requirement failed: branch main was created concurrently")
    assert client.load() == before


def test_a_tag_that_is_made_while_its_snapshot_expires_is_not_lost(client: Client) -> None:
    client.create()
    for number in (1, 2):
        assert client.append(number, parent=number - 1 or None, sequence=number).status == 200
    expiry = {"action": "remove-snapshots", "snapshot-ids": [1]}  # decided before the tag was there
    assert (
        client.commit({"action": "set-snapshot-ref", "ref-name": "v1", "type": "tag", "snapshot-id": 1}).status == 200
    )
    assert client.commit(expiry).error == (
        409,
        "CommitFailedException",
        "Cannot remove snapshot 1: tag v1 points at it",
    )
    assert client.commit({"action": "remove-snapshot-ref", "ref-name": "v1"}, expiry).status == 200


def test_a_commit_that_changes_nothing_writes_no_file(client: Client) -> None:
    result = client.create()
    assert client.commit({"action": "set-properties", "updates": {}}).body == result


def test_the_metadata_log_leads_back_to_every_version(client: Client) -> None:
    locations = [client.create()["metadata-location"]]
    for number in range(3):
        locations.append(
            client.commit({"action": "set-properties", "updates": {"n": str(number)}}).body["metadata-location"]
        )
    log = client.load()["metadata"]["metadata-log"]
    assert [item["metadata-file"] for item in log] == locations[:-1]


def test_several_tables_change_together_or_not_at_all(client: Client) -> None:
    for name in ("a", "b"):
        client.create(name)
    good = [entry(name, append_change(1, parent=None, sequence=1)) for name in ("a", "b")]
    assert client.post("/transactions/commit", {"table-changes": good}).status == 204
    before = [client.load(name) for name in ("a", "b")]
    stale = [entry("a", append_change(2, parent=1, sequence=2)), entry("b", append_change(2, parent=None, sequence=2))]
    assert client.post("/transactions/commit", {"table-changes": stale}).error[:2] == (409, "CommitFailedException")
    assert [client.load(name) for name in ("a", "b")] == before
    assert before[0]["metadata"]["current-snapshot-id"] == before[1]["metadata"]["current-snapshot-id"] == 1


def test_a_staged_create_and_a_change_commit_in_one_transaction(client: Client) -> None:
    metadata = client.create("a")["metadata"]
    updates = [u for u in create_updates(metadata) if u["action"] not in ("assign-uuid", "set-location")]
    new = {"requirements": [{"type": "assert-create"}], "updates": updates}
    taken = entry("a", new)
    changes = [entry("a", append_change(1, parent=None, sequence=1)), entry("new", new)]
    assert client.post("/transactions/commit", {"table-changes": changes}).status == 204
    assert client.load("a")["metadata"]["current-snapshot-id"] == 1
    assert client.load("new")["metadata"]["location"].endswith("/ns/new")
    refused = client.post("/transactions/commit", {"table-changes": [taken, entry("other", new)]})
    assert refused.error[:2] == (409, "CommitFailedException")
    assert client.get("/namespaces/ns/tables/other").status == 404


def test_a_table_that_is_only_asserted_must_stay_where_it_was(client: Client) -> None:
    client.create("a")
    client.create("b")
    asserted = entry(
        "a", {"requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}], "updates": []}
    )
    change = entry("b", {"requirements": [], "updates": [SET_X]})
    assert client.post("/transactions/commit", {"table-changes": [asserted, change]}).status == 204
    client.append(1, parent=None, sequence=1, table="a")
    assert client.post("/transactions/commit", {"table-changes": [asserted, change]}).error[:2] == (
        409,
        "CommitFailedException",
    )


def test_etags_spare_a_client_what_it_has_and_differ_for_refs(client: Client) -> None:
    client.create()
    client.append(1, parent=None, sequence=1)
    whole, refs = client.get(ONE), client.get(ONE, snapshots="refs")
    assert whole.headers["etag"] != refs.headers["etag"]
    assert client.call("GET", ONE, headers={"If-None-Match": whole.headers["etag"]}).status == 304
    assert client.call("GET", ONE, headers={"If-None-Match": refs.headers["etag"]}).status == 200
    assert client.call("GET", ONE, headers={"If-None-Match": refs.headers["etag"]}, snapshots="refs").status == 304
    committed = client.append(2, parent=1, sequence=2)
    assert client.call("GET", ONE, headers={"If-None-Match": whole.headers["etag"]}).status == 200
    assert client.get(ONE).headers["etag"] == committed.headers["etag"]


def test_refs_only_leaves_out_the_history(client: Client) -> None:
    client.create()
    for number in range(1, 4):
        client.append(number, parent=number - 1 or None, sequence=number)
    client.commit({"action": "set-snapshot-ref", "ref-name": "old", "type": "tag", "snapshot-id": 1})
    refs = client.get(ONE, snapshots="refs").body["metadata"]
    assert [s["snapshot-id"] for s in refs["snapshots"]] == [1, 3]
    assert len(client.load()["metadata"]["snapshots"]) == 3
    assert client.get(ONE, snapshots="some").error[:2] == (400, "BadRequestException")


# --- idempotency keys ------------------------------------------------------------------------------------------------


def test_a_commit_that_is_sent_again_with_its_key_is_answered_again_and_applied_once(client: Client) -> None:
    client.create()
    key = new_key()
    first, second = (client.append(1, parent=None, sequence=1, headers=key) for _ in range(2))
    assert (first.status, first.body) == (second.status, second.body) == (200, client.load())
    assert len(client.load()["metadata"]["snapshots"]) == 1


def test_a_key_belongs_to_one_request(client: Client) -> None:
    client.create()
    key = new_key()
    client.append(1, parent=None, sequence=1, headers=key)
    assert client.append(2, parent=1, sequence=2, headers=key).error[:2] == (422, "UnprocessableEntityException")


def test_a_final_refusal_is_replayed_even_when_it_would_succeed_now(client: Client) -> None:
    client.post("/namespaces", {"namespace": ["a"]})
    key = new_key()
    first = client.post("/namespaces", {"namespace": ["a"]}, headers=key)
    client.delete("/namespaces/a")
    assert client.post("/namespaces", {"namespace": ["a"]}, headers=key).error == first.error
    assert client.get("/namespaces/a").status == 404


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/namespaces", {"namespace": ["new"]}),
        ("/namespaces/ns/tables", {"name": "new", "schema": {"type": "struct", "fields": []}}),
        ("/namespaces/ns/properties", {"updates": {"a": "b"}}),
        (
            "/tables/rename",
            {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "u"}},
        ),
        ("/namespaces/ns/tables/t/unregister", None),
        ("/transactions/commit", {"table-changes": [entry("t", append_change(1, parent=None, sequence=1))]}),
    ],
)
def test_every_write_takes_a_key(client: Client, path: str, body: Any) -> None:
    client.create()
    key = new_key()
    first, second = (client.post(path, body, headers=key) for _ in range(2))
    assert first.status in (200, 204)
    assert (second.status, second.body) == (first.status, first.body)


def test_a_key_that_is_no_uuid_is_refused(client: Client) -> None:
    answer = client.post("/namespaces", {"namespace": ["a"]}, headers={"Idempotency-Key": "again"})
    assert answer.error[:2] == (400, "BadRequestException")
    assert client.get("/namespaces/a").status == 404
