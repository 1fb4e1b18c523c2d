"""The audit log in SQL: who changed what, and what was refused. A change is recorded in its own transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from frazil.catalog.store.database import Sql, Statement
from frazil.logs import hide_tokens

MOST_CHARACTERS = 2000  # of each text
WINDOW = 100_000  # rows that are looked at for a page
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records are asked for; None: any."""

    actor: str | None = None
    operation: str | None = None
    mentions: str | None = None  # text of the objects
    decision: str | None = None
    since_ms: int = 0
    until_ms: int | None = None

    def condition(self) -> Statement:
        """What the rows must fulfil."""
        mentions = self.mentions.replace(";", r"\;") if self.mentions is not None else None
        parts: list[tuple[str, str | int | None]] = [
            ("at_ms >= ?", self.since_ms),
            ("at_ms < ?", self.until_ms),
            ("actor = ?", self.actor),
            ("operation = ?", self.operation),
            ("decision = ?", self.decision),
            ("replace(objects, ?, '') <> objects", mentions or None),  # contains it, with the same letters
        ]
        tests = [(text, value) for text, value in parts if value is not None]
        parameters = [_shorten(value) if isinstance(value, str) else value for _, value in tests]
        return " AND ".join(text for text, _ in tests), parameters


def newest_records(
    sql: Sql,
    *,
    limit: int,
    actor: str | None = None,
    operation: str | None = None,
    mentions: str | None = None,
    decision: str | None = None,
    since_ms: int = 0,
) -> list[Record]:
    """The newest records, in the order of time."""
    wanted = Wanted(actor, operation, mentions, decision, since_ms)
    where, parameters = wanted.condition()
    statement = f"SELECT {_COLUMNS} FROM audit WHERE {where} ORDER BY id DESC LIMIT ?"  # noqa: S608  # constants
    return [Record(*row) for row in reversed(sql.rows(statement, *parameters, limit))]


def find_records(
    sql: Sql, wanted: Wanted, *, limit: int, before: int | None = None, window: int = WINDOW
) -> tuple[list[Record], int | None]:
    """The records that are wanted, the newest first, and the number to go on before; None at the end of the log. Looks
    at a window of rows, so that a rare match in a long log takes several calls and not one long one.
    """
    oldest, newest = sql.rows("SELECT COALESCE(min(id), 0), COALESCE(max(id), 0) FROM audit")[0]
    before = newest + 1 if before is None else min(before, newest + 1)
    first = before - window
    where, parameters = wanted.condition()
    statement = f"SELECT id, {_COLUMNS} FROM audit WHERE id >= ? AND id < ? AND {where} ORDER BY id DESC LIMIT ?"  # noqa: S608  # constants
    rows = sql.rows(statement, first, before, *parameters, limit)
    after = rows[-1][0] if len(rows) == limit else first
    return [Record(*row[1:]) for row in rows], after if after > oldest else None


def prune_records(sql: Sql, *, before_ms: int) -> int:
    """How many older records were deleted."""
    return sql.run("DELETE FROM audit WHERE at_ms < ?", before_ms)
