"""The audit log in SQL: who changed what, and what was refused. A change is recorded in its own transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from frazil.catalog.store.database import Sql, Statement
from frazil.logs import hide_tokens

MOST_CHARACTERS = 2000  # of each text
_COLUMNS = "at_ms, actor, key_id, address, request_id, operation, objects, decision, note"
_INSERT = f"INSERT INTO audit ({_COLUMNS}) SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?"


@dataclass(frozen=True, slots=True)
class Record:
    """A change or a refusal."""

    at_ms: int
    actor: str  # a principal, or who used the command line; empty: unknown
    key_id: str
    address: str
    request_id: str
    operation: str
    objects: str  # the privileges that were needed, and on what; what is new. Several records, if it is long
    decision: str  # allowed or refused
    note: str = ""


def join_objects(objects: Iterable[str]) -> list[str]:
    r"""The objects of a request as texts for records: more than one, if they do not fit.

    >>> join_objects(["write table w: ns.t", "write table w: ns.a;b"])
    ['write table w: ns.t; write table w: ns.a\\;b']
    """
    texts, line = [], ""
    for item in dict.fromkeys(objects):
        text = _shorten(item.replace(";", r"\;"))
        if line and len(line) + 2 + len(text) > MOST_CHARACTERS:
            texts.append(line)
            line = text
        else:
            line = f"{line}; {text}" if line else text
    return [*texts, line]


def _shorten(text: str) -> str:
    """The text as it can be stored, without tokens; a hash tells a long one from others that begin like it."""
    text = hide_tokens(text)
    if not text.isascii() or "\0" in text:  # PostgreSQL has no NUL, and neither database half of a surrogate pair
        text = text.replace("\0", r"\x00").encode("utf-8", "backslashreplace").decode()
    if len(text) <= MOST_CHARACTERS:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text[: MOST_CHARACTERS - 100]}... sha256 {digest}"


def add(sql: Sql, record: Record) -> None:
    text, parameters = insert_statement(record)
    sql.run(text, *parameters)


def insert_statement(record: Record) -> Statement:
    """The statement that inserts a record, of the kind that `Sql.run_recorded` takes."""
    texts = (record.actor, record.key_id, record.address, record.request_id, record.operation, record.objects)
    return _INSERT, (record.at_ms, *map(_shorten, texts), record.decision, _shorten(record.note))


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
