"""Tables for the console: many of them, or with a long past, as metadata files that were not made commit by commit."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests

from frazil.catalog.embedded import EmbeddedCatalog
from frazil.catalog.names import Name
from frazil.catalog.store import relations
from frazil.catalog.store.database import Sql

DAY_MS = 86_400_000
FIELDS = [
    {"id": 1, "name": "id", "type": "long", "required": True},
    {"id": 2, "name": "note", "type": "string", "required": False, "doc": "free text"},
]


def snapshot(number: int, parent: int | None, at_ms: int, **summary: str) -> dict[str, Any]:
    """A snapshot that says what it holds; its manifest list does not exist."""
    facts = {"operation": "append", "added-data-files": "1", "added-records": "1000", "added-files-size": "20000000"}
    totals = {"total-records": str(1000 * number), "total-data-files": str(number), "total-delete-files": "0"}
    totals |= {"total-files-size": str(20_000_000 * number), "total-position-deletes": "0"}
    document: dict[str, Any] = {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": at_ms,
        "manifest-list": f"file:///nowhere/{number}.avro",
        "summary": facts | totals | summary,
        "schema-id": 0,
    }
    return document if parent is None else document | {"parent-snapshot-id": parent}


def metadata(location: str, snapshots: list[dict[str, Any]], refs: dict[str, int], **more: Any) -> dict[str, Any]:
    """The metadata of a table with these snapshots and branches."""
    now_ms = time.time_ns() // 1_000_000
    document = {
        "format-version": 2,
        "table-uuid": str(uuid.uuid4()),
        "location": location,
        "last-sequence-number": len(snapshots),
        "last-updated-ms": now_ms,
        "last-column-id": 2,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": FIELDS}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "current-snapshot-id": refs.get("main", -1),
        "refs": {name: {"snapshot-id": at, "type": "branch"} for name, at in refs.items()},
        "snapshots": snapshots,
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
    return document | more


def add_tables(server: EmbeddedCatalog, namespace: str, tables: Iterator[tuple[str, dict[str, Any]]]) -> None:
    """Puts tables into the catalog: their metadata files, then all rows in one transaction."""
    body = {"namespace": [namespace]}
    requests.post(f"{server.uri}/v1/namespaces", json=body, timeout=60).raise_for_status()
    swaps = []
    for name, document in tables:
        folder = Path(document["location"].removeprefix("file://")) / "metadata"
        folder.mkdir(parents=True)
        file = folder / "00000-a.metadata.json"
        file.write_text(json.dumps(document), encoding="utf-8")
        place = document["location"]
        swaps.append(
            relations.Swap(Name((namespace,), name), "table", None, f"file://{file}", document["table-uuid"], place)
        )

    def insert(sql: Sql) -> None:
        for swap in swaps:
            relations.swap(sql, "default", swap)

    server.app.ctx.database.write(insert)


def many_tables(server: EmbeddedCatalog, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Tables of one to five snapshots."""
    now_ms = time.time_ns() // 1_000_000
    for number in range(count):
        last = 1 + number % 5
        snapshots = [
            snapshot(at, at - 1 if at > 1 else None, now_ms - (last - at) * DAY_MS - number * 60_000)
            for at in range(1, last + 1)
        ]
        name = f"table_{number:05}"
        yield name, metadata(f"{server.warehouse}/many/{name}", snapshots, {"main": last})


def long_past(server: EmbeddedCatalog, name: str, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """A table of many snapshots: a main line, branches from it now and then, and tags."""
    now_ms = time.time_ns() // 1_000_000
    snapshots, refs, head = [], {}, None
    for number in range(1, count + 1):
        at_ms = now_ms - (count - number) * 60_000
        if number % 40 == 0 and head is not None:
            snapshots.append(snapshot(number, head, at_ms, operation="overwrite"))
            refs[f"branch-{number}"] = number
        else:
            snapshots.append(snapshot(number, head, at_ms))
            head = number
    assert head is not None
    yield name, metadata(f"{server.warehouse}/many/{name}", snapshots, {"main": head, **refs})
