"""Idempotency keys in SQL: what was answered to a request, kept in the transaction that did what the request
asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

from frazil.catalog.store.database import Sql


@dataclass(frozen=True, slots=True)
class Record:
    """The final answer to a request. The body of a table's answer is not kept; its metadata file is, and says
    the same.
    """

    request: str  # hash of the request that the key belongs to
    status: int
    body: str | None = None
    metadata_location: str | None = None
    kind: str | None = None  # of what the metadata file describes: table or view; None in records of older versions
    uuid: str | None = None


def find(sql: Sql, key: str) -> Record | None:
    rows = sql.rows("SELECT request, status, body, metadata_location, kind, uuid FROM idempotency WHERE key = ?", key)
    return Record(*rows[0]) if rows else None


def keep(sql: Sql, key: str, record: Record, *, now_ms: int) -> bool:
    """Whether the key was free. A second request with the same key waits here until the first one's
    transaction ends.
    """
    statement = (
        "INSERT INTO idempotency (key, request, status, body, metadata_location, kind, uuid, created_ms) VALUES (?, "
        "?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO NOTHING"
    )
    answer = (record.request, record.status, record.body, record.metadata_location, record.kind, record.uuid)
    return sql.run(statement, key, *answer, now_ms) == 1


def forget(sql: Sql, *, before_ms: int) -> int:
    return sql.run("DELETE FROM idempotency WHERE created_ms < ?", before_ms)
