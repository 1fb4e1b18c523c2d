"""What the clients of the catalog benchmark send: creates, loads, appends, transactions, lists."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.load import Client, Reply, request

_SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "order_id", "type": "string", "required": True},
        {"id": 2, "name": "customer_id", "type": "long", "required": True},
        {"id": 3, "name": "amount", "type": "decimal(12, 2)", "required": True},
        {"id": 4, "name": "event_time", "type": "timestamptz", "required": False},
        {"id": 5, "name": "ingestion_date", "type": "date", "required": True},
    ],
}
_ids = itertools.count(1)


def next_snapshot_id() -> int:
    """A snapshot id that no other snapshot of this run has."""
    return 10**15 + next(_ids)


@dataclass(frozen=True)
class Place:
    """Where a server keeps the tables: the path in front of everything, and a namespace."""

    root: str  # "/v1" or "/v1/<prefix>"
    namespace: str = "bench"
    token: str = field(default="", repr=False)  # of a caller, with authentication on

    def _request(self, method: str, path: str, body: bytes = b"") -> bytes:
        return request(method, f"{self.root}{path}", body, token=self.token)

    def create_namespace(self) -> bytes:
        return self._request(
            "POST", "/namespaces", json.dumps({"namespace": [self.namespace], "properties": {}}).encode()
        )

    def create_table(self, name: str, *, location: str | None = None) -> bytes:
        body = {"name": name, "schema": _SCHEMA, "properties": {"owner": "bench"}}
        body |= {"location": location} if location else {}
        return self._request("POST", f"/namespaces/{self.namespace}/tables", json.dumps(body).encode())

    def load(self, name: str) -> bytes:
        return self._request("GET", f"/namespaces/{self.namespace}/tables/{name}")

    def list_tables(self) -> bytes:
        return self._request("GET", f"/namespaces/{self.namespace}/tables")

    def append(self, table: Growing, *, snapshots: int = 1) -> bytes:
        return self._request(
            "POST",
            f"/namespaces/{self.namespace}/tables/{table.name}",
            json.dumps(table.change(snapshots)).encode(),
        )

    def transaction(self, tables: list[Growing]) -> bytes:
        changes = [
            {"identifier": {"namespace": [self.namespace], "name": table.name}, **table.change()} for table in tables
        ]
        return self._request("POST", "/transactions/commit", json.dumps({"table-changes": changes}).encode())


@dataclass
class Growing:
    """What a client knows of a table that it appends to: the newest snapshot, as after its last commit or load."""

    name: str
    snapshot: int | None = None
    sequence: int = 0
    staged: tuple[int, int] = field(default=(0, 0))

    def change(self, snapshots: int = 1) -> dict[str, object]:
        """The requirements and updates of one commit that appends so many snapshots."""
        parent, updates = self.snapshot, []
        for number in range(1, snapshots + 1):
            snapshot = _snapshot(self.name, parent, self.sequence + number)
            parent = snapshot["snapshot-id"]
            ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": parent}
            updates += [{"action": "add-snapshot", "snapshot": snapshot}, ref]
        self.staged = (parent or 0, self.sequence + snapshots)
        return {
            "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": self.snapshot}],
            "updates": updates,
        }

    def committed(self) -> None:
        self.snapshot, self.sequence = self.staged

    def refresh(self, reply: Reply) -> None:
        """Takes the newest snapshot from a load; by pattern, for parsing 0.4 MB would load the generator, not the
        server.
        """
        self.snapshot = int(_CURRENT.search(reply.body)[1])  # type: ignore[index]
        self.sequence = int(_SEQUENCE.search(reply.body)[1])  # type: ignore[index]


_CURRENT = re.compile(rb'"current-snapshot-id"\s*:\s*(-?\d+)')
_SEQUENCE = re.compile(rb'"last-sequence-number"\s*:\s*(\d+)')


def _snapshot(table: str, parent: int | None, sequence: int) -> dict[str, object]:
    snapshot_id = next_snapshot_id()
    return {
        "snapshot-id": snapshot_id,
        **({"parent-snapshot-id": parent} if parent is not None else {}),
        "sequence-number": sequence,
        "timestamp-ms": int(time.time() * 1000),
        "manifest-list": f"file:/tmp/bench/{table}/metadata/snap-{snapshot_id}-1-00000000-0000-4000-8000-000000000000.avro",  # noqa: E501
        "summary": {
            "operation": "append",
            "added-data-files": "1",
            "added-records": "10000",
            "added-files-size": "1048576",
            "total-data-files": str(sequence),
            "total-records": str(10000 * sequence),
            "total-files-size": str(1048576 * sequence),
            "total-delete-files": "0",
        },
        "schema-id": 0,
    }


# --- the clients -----------------------------------------------------------------------------------------------------


def expect(reply: Reply, *statuses: int) -> None:
    """A benchmark of refusals would be worth nothing."""
    if reply.status not in statuses:
        raise RuntimeError(f"expected {statuses}, got {reply.status}: {reply.body[:500]!r}")


def creating(place: Place, names: Iterator[str], count: int) -> Client:
    for _ in range(count):
        expect((yield place.create_table(next(names))), 200)


def loading(place: Place, table: str, count: int) -> Client:
    asked = place.load(table)
    for _ in range(count):
        expect((yield asked), 200)


def listing(place: Place, count: int) -> Client:
    asked = place.list_tables()
    for _ in range(count):
        expect((yield asked), 200)


def appending(place: Place, table: Growing, count: int, *, snapshots: int = 1) -> Client:
    """Appends to a table that no other client touches."""
    for _ in range(count):
        expect((yield place.append(table, snapshots=snapshots)), 200)
        table.committed()


def contending(place: Place, table: Growing, left: list[int]) -> Client:
    """Appends to a table that others append to as well: after a conflict it loads and tries again. `left` is shared by
    all.
    """
    while left[0] > 0:
        reply = yield place.append(table)
        expect(reply, 200, 409)
        if reply.status == 200:
            table.committed()
            left[0] -= 1
        else:
            table.refresh((yield place.load(table.name)))


def transacting(place: Place, pair: list[Growing], count: int) -> Client:
    for _ in range(count):
        expect((yield place.transaction(pair)), 200, 204)
        for table in pair:
            table.committed()
