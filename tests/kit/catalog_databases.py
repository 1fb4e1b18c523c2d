"""The two databases that every test of the catalog's contract runs on, and a client that speaks plain HTTP to the
server.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import requests

from frazil.catalog.store import open_database
from frazil.catalog.store.migrations import migrate
from frazil.processes import wait_until

DATABASES = ("sqlite", "postgresql")
SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "data", "type": "string", "required": False},
    ],
}


@contextmanager
def fresh_database(kind: str, folder: Path, postgres: str) -> Iterator[str]:
    """The URL of a database with the schema and nothing else; `postgres` is a server where databases can be made."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'catalog.db'}"
        return
    name = f"catalog_{uuid.uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{_template(postgres)}"')
    try:
        yield postgres.rpartition("/")[0] + f"/{name}"
    finally:
        with psycopg.connect(postgres, autocommit=True) as admin:
            assert wait_until(lambda: _drop(admin, name), 60)


def _drop(admin: psycopg.Connection[Any], name: str) -> bool:
    """Whether the database is gone. It stays while the server's own autovacuum is at work in it: an ordinary role may
    not end that.
    """
    try:
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True


@functools.cache
def _template(postgres: str) -> str:
    """A database with the schema, to be copied: a quarter of the time of migrating each."""
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute("CREATE DATABASE catalog_template")
    database = open_database(postgres.rpartition("/")[0] + "/catalog_template")
    migrate(database)
    database.close()
    return "catalog_template"


@dataclass
class Answer:
    """A status, a JSON body (None when empty) and headers."""

    status: int
    body: Any
    headers: dict[str, str]

    @property
    def error(self) -> tuple[int, str, str]:
        """Status, type and message of an error in the specification's shape."""
        result = self.body["error"]
        assert result["code"] == self.status
        return self.status, result["type"], result["message"]


@dataclass
class Client:
    """Calls operations of one server by path, below its prefix."""

    uri: str
    prefix: str = "default"
    session: requests.Session = field(default_factory=requests.Session)

    def call(
        self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None, **query: str
    ) -> Answer:
        return self.raw(method, f"/v1/{self.prefix}{path}", body, headers=headers, **query)

    def raw(
        self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None, **query: str
    ) -> Answer:
        reply = self.session.request(method, f"{self.uri}{path}", json=body, headers=headers, params=query, timeout=60)
        return Answer(
            reply.status_code, reply.json() if reply.content else None, {k.lower(): v for k, v in reply.headers.items()}
        )

    def get(self, path: str, **query: str) -> Answer:
        return self.call("GET", path, **query)

    def post(self, path: str, body: Any = None, *, headers: dict[str, str] | None = None) -> Answer:
        return self.call("POST", path, body, headers=headers)

    def delete(self, path: str, **query: str) -> Answer:
        return self.call("DELETE", path, **query)

    def create(self, table: str = "t", namespace: str = "ns", **more: Any) -> dict[str, Any]:
        """A table in a namespace that is created when it is missing; its load result."""
        self.post("/namespaces", {"namespace": [namespace]})
        answer = self.post(f"/namespaces/{namespace}/tables", {"name": table, "schema": SCHEMA, **more})
        assert answer.status == 200, answer.body
        result: dict[str, Any] = answer.body
        return result

    def load(self, table: str = "t", namespace: str = "ns") -> dict[str, Any]:
        answer = self.get(f"/namespaces/{namespace}/tables/{table}")
        assert answer.status == 200, answer.body
        result: dict[str, Any] = answer.body
        return result

    def commit(
        self, *updates: dict[str, Any], table: str = "t", requirements: Any = (), headers: dict[str, str] | None = None
    ) -> Answer:
        body = {"requirements": list(requirements), "updates": list(updates)}
        return self.post(f"/namespaces/ns/tables/{table}", body, headers=headers)

    def append(self, snapshot_id: int, *, parent: int | None, sequence: int, table: str = "t", **more: Any) -> Answer:
        """Commits a snapshot to main, if main is still at the parent."""
        return self.post(
            f"/namespaces/ns/tables/{table}", append_change(snapshot_id, parent=parent, sequence=sequence), **more
        )


def create_updates(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """The updates of the commit that creates a staged table, as Java and PyIceberg send them."""
    return [
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": metadata["format-version"]},
        {"action": "add-schema", "schema": metadata["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": metadata["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata["location"]},
    ]


def append_change(snapshot_id: int, *, parent: int | None, sequence: int) -> dict[str, Any]:
    snapshot: dict[str, Any] = {
        "snapshot-id": snapshot_id,
        "sequence-number": sequence,
        "timestamp-ms": 1_700_000_000_000 + sequence,
        "manifest-list": f"file:///nowhere/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    if parent is not None:
        snapshot["parent-snapshot-id"] = parent
    return {
        "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent}],
        "updates": [
            {"action": "add-snapshot", "snapshot": snapshot},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
        ],
    }
