"""The audit log in SQL: who changed what, and what was refused. A change is recorded in its own transaction."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.catalog.store.database import Sql

MOST_CHARACTERS = 2000  # of each text
_COLUMNS = "at_ms, actor, key_id, address, request_id, operation, objects, decision, note"


@dataclass(frozen=True, slots=True)
class Record:
    """A change or a refusal."""

    at_ms: int
    actor: str  # a principal, or who used the command line; empty: unknown
    key_id: str
    address: str
    request_id: str
    operation: str
    objects: str  # the privileges that were needed, and on what
    decision: str  # allowed or refused
    note: str = ""


def add(sql: Sql, record: Record) -> None:
    texts = (record.actor, record.key_id, record.address, record.request_id, record.operation, record.objects)
    short = [text[:MOST_CHARACTERS] for text in texts]
    statement = f"INSERT INTO audit ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608  # a constant
    sql.run(statement, record.at_ms, *short, record.decision, record.note[:MOST_CHARACTERS])


def newest_records(
    sql: Sql, *, limit: int, actor: str | None = None, decision: str | None = None, since_ms: int = 0
) -> list[Record]:
    """The newest records, in the order of time."""
    conditions, parameters = ["at_ms >= ?"], [since_ms]
    texts: list[str] = []
    for column, value in (("actor", actor), ("decision", decision)):
        if value is not None:
            conditions.append(f"{column} = ?")
            texts.append(value)
    where = " AND ".join(conditions)
    statement = f"SELECT {_COLUMNS} FROM audit WHERE {where} ORDER BY id DESC LIMIT ?"  # noqa: S608  # constants
    return [Record(*row) for row in reversed(sql.rows(statement, *parameters, *texts, limit))]


def prune_records(sql: Sql, *, before_ms: int) -> int:
    """How many older records were deleted."""
    return sql.run("DELETE FROM audit WHERE at_ms < ?", before_ms)
