"""The audit log says what was changed, whatever the names are and however many objects a request has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from frazil.catalog import newest_records
from frazil.catalog.store.audit import MOST_CHARACTERS, join_objects
from frazil.cli.main import cli
from tests.kit.access import SERVER, VIEW_VERSION, Guarded, namespace
from tests.kit.catalog_databases import SCHEMA

CHANGE = {"action": "set-properties", "updates": {"a": "b"}}


@pytest.fixture
def guarded(guarded: Guarded) -> Guarded:
    guarded.admin.post("/namespaces", {"namespace": ["ns"]})
    return guarded


def objects(guarded: Guarded, operation: str) -> list[str]:
    records = newest_records(guarded.database.read(), limit=1000)
    return [record.objects for record in records if record.operation == operation]


def test_a_name_makes_no_lines_of_its_own_and_is_recorded(guarded: Guarded, database: str, tmp_path: Path) -> None:
    ann = guarded.user("ann", ("read", namespace("ns")))
    refused, breaks = ["\n", "\r", "\t"], ["\x85", "\u2028", "\u2029"]
    for text in (*refused, *breaks):
        name = quote(f"x{text}2026-01-01 00:00 UTC  allowed  root  dropTable", safe="")
        status = 400 if text in refused else 404  # no table has such a name
        assert ann.delete(f"/namespaces/hidden/tables/{name}").status == status
    recorded = [record for record in guarded.refusals() if record.operation == "dropTable"]
    assert len(recorded) == len(breaks)
    words = ["--set", f"server.pepper_file={tmp_path / 'pepper'}", "audit-log", "--refused", "--database", database]
    shown = CliRunner().invoke(cli, words, catch_exceptions=False).output
    assert len(shown.splitlines()) == len(breaks)
    assert r"hidden.x\x852026" in shown
    as_json = CliRunner().invoke(cli, [*words, "--output", "json"], catch_exceptions=False).output
    assert len(json.loads(as_json)["records"]) == len(breaks)


def test_every_table_of_a_commit_is_recorded(guarded: Guarded) -> None:
    names = [f"{'n' * 100}{number}" for number in range(25)]
    for name in names:
        guarded.admin.create(name)
    changes = [
        {"identifier": {"namespace": ["ns"], "name": name}, "requirements": [], "updates": [CHANGE]} for name in names
    ]
    assert guarded.admin.post("/transactions/commit", {"table-changes": changes}).status == 204
    rows = objects(guarded, "commitTransaction")
    assert "; ".join(rows).split("; ") == [f"write table default: ns.{name}" for name in names]
    assert max(map(len, rows)) <= MOST_CHARACTERS
    ann = guarded.user("ann", ("read", namespace("ns")))
    assert ann.post("/transactions/commit", {"table-changes": changes}).status == 403
    (refused,) = [record.objects for record in guarded.refusals()]
    assert refused.startswith("write table default: ns.n")
    assert len(refused) <= MOST_CHARACTERS
    assert " more, sha256 " in refused


def test_what_no_privilege_allows_is_recorded_as_refused(guarded: Guarded) -> None:
    taken = guarded.admin.create("t")["metadata"]["location"]
    ann = guarded.user("ann", ("manage", SERVER))
    changes: dict[str, dict[str, Any]] = {
        "taken": {"location": taken},
        "outside": {"location": "s3://elsewhere/x"},
        "loads": {"properties": {"s3.signer.uri": "http://192.0.2.1"}},
    }
    for name, change in changes.items():
        body = {"name": name, "schema": SCHEMA, **change}
        assert ann.post("/namespaces/ns/tables", body).error[:2] == (403, "ForbiddenException")
    recorded = guarded.refusals()
    assert [(record.operation, record.actor) for record in recorded] == [("createTable", "ann")] * 3
    words = ["overlaps", "is outside the warehouse", "Cannot set s3.signer.uri"]
    assert [word in record.note for word, record in zip(words, recorded, strict=True)] == [True] * 3


def test_a_long_name_is_cut_and_stays_distinct() -> None:
    first, second = (join_objects(["x" * 5000 + end])[0] for end in "ab")
    assert len(first) == len(second) <= MOST_CHARACTERS
    assert first != second
    assert join_objects(["a", "b; c"]) == [r"a; b\; c"]
    assert join_objects(["nul \0, half \ud800"]) == [r"nul \x00, half \ud800"]
    assert join_objects([]) == [""]


def test_what_a_request_makes_is_recorded(guarded: Guarded) -> None:
    admin, target = guarded.admin, "default: ns"
    file = admin.create("t")["metadata-location"]
    rename = {
        "source": {"namespace": ["ns"], "name": "t"},
        "destination": {"namespace": ["ns"], "name": "u"},
    }
    assert admin.post("/tables/rename", rename).status == 204
    assert admin.delete("/namespaces/ns/tables/u").status == 204
    assert admin.post("/namespaces/ns/register", {"name": "r", "metadata-location": file}).status == 200
    view = {"name": "v", "schema": SCHEMA, "view-version": VIEW_VERSION, "properties": {}}
    assert admin.post("/namespaces/ns/views", view).status == 200
    assert objects(guarded, "createNamespace") == ["create warehouse default; new namespace default: ns"]
    assert objects(guarded, "createTable") == [f"create namespace {target}; new table {target}.t"]
    (renamed,) = objects(guarded, "renameTable")
    assert renamed.startswith(f"drop table {target}.t; ")
    assert renamed.endswith(f"; new table {target}.u")
    (registered,) = objects(guarded, "registerTable")
    assert registered.startswith(f"register namespace {target}; ")
    assert registered.endswith(f"; file {file}; new table {target}.r")
    assert objects(guarded, "createView")[0].endswith(f"; new view {target}.v")
