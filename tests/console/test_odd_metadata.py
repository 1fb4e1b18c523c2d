"""What the routes of the console answer about tables whose metadata is odd, and in which order they list them."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from frazil.catalog.embedded import EmbeddedCatalog
from frazil.console import listing
from frazil.console.snapshots import to_columns
from tests.kit.console_tables import DAY_MS, add_tables, metadata, snapshot

NOW_MS = 1_790_000_000_000
HIDDEN = {"s3.secret-access-key": "topsecret", "py-io-impl": "evil.IO", "owner": "ana"}
CIRCLE = [snapshot(1, 3, NOW_MS), snapshot(2, 1, NOW_MS + 1), snapshot(3, 2, NOW_MS + 2)]


def ask(server: EmbeddedCatalog, path: str) -> Any:
    answer = requests.get(f"{server.uri}/console/api/default/{path}", timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_one_odd_table_leaves_the_list_as_it_is(server: EmbeddedCatalog) -> None:
    """Metadata that is registered or was written by others may hold anything."""
    at = f"{server.warehouse}/odd"
    odd = snapshot(1, None, NOW_MS, **{"added-data-files": 5})  # type: ignore[arg-type]
    tables = {
        "circle": metadata(f"{at}/circle", CIRCLE, {"main": 3}),
        "fine": metadata(f"{at}/fine", [snapshot(1, None, NOW_MS)], {"main": 1}),
        "future": metadata(f"{at}/future", [snapshot(1, None, 2**63 - 1)], {"main": 1}),
        "numbers": metadata(f"{at}/numbers", [odd], {"main": 1}),
        "policy": metadata(f"{at}/policy", [odd], {"main": 1}, properties={"write.target-file-size-bytes": "x"}),
    }
    add_tables(server, "odd", iter(tables.items()))
    lines = {line["name"]: line["health"]["level"] for line in ask(server, "tables")["tables"]}
    assert lines.keys() == tables.keys()
    assert (lines["fine"], lines["numbers"], lines["policy"]) == ("fine", "error", "error")


def test_a_property_that_the_catalog_hides_is_hidden_here_too(server: EmbeddedCatalog) -> None:
    document = metadata(f"{server.warehouse}/odd/t", [], {}, properties=HIDDEN)
    add_tables(server, "odd", iter([("t", document)]))
    answer = requests.get(f"{server.uri}/console/api/default/namespaces/odd/tables/t", timeout=60)
    assert answer.json()["properties"] == {"owner": "ana"}
    assert "topsecret" not in answer.text


def test_pages_have_every_table_of_nested_namespaces_once(
    server: EmbeddedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MOST_LINES", 1)
    for namespace in ("a", "a\x1fb", "b"):
        body = {"namespace": namespace.split("\x1f")}
        requests.post(f"{server.uri}/v1/namespaces", json=body, timeout=60).raise_for_status()
        for name in ("c", "x"):
            table = {"name": name, "schema": {"type": "struct", "schema-id": 0, "fields": []}}
            path = namespace.replace("\x1f", "%1F")
            requests.post(f"{server.uri}/v1/namespaces/{path}/tables", json=table, timeout=60).raise_for_status()
    seen, after = [], ""
    while after is not None:
        page = ask(server, f"tables?after={after}")
        seen += [(*line["namespace"], line["name"]) for line in page["tables"]]
        after = page["next"]
    assert seen == [("a", "c"), ("a", "x"), ("a", "b", "c"), ("a", "b", "x"), ("b", "c"), ("b", "x")]


def test_a_circle_of_parents_is_drawn() -> None:
    columns = to_columns(metadata("file:///t", CIRCLE, {"main": 3}))
    assert (columns["id"], columns["parent"], columns["line"]) == (["3", "2", "1"], [1, 2, 0], [0, 0, 0])


def test_thousands_of_staged_snapshots_have_lanes() -> None:
    """Each is a line of its own; all are in a few lanes."""
    staged = [snapshot(number, 1, NOW_MS + number * DAY_MS) for number in range(2, 5_001)]
    columns = to_columns(metadata("file:///t", [snapshot(1, None, NOW_MS), *staged], {"main": 1}))
    assert len(columns["lines"]) == 5_000
