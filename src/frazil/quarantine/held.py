"""Rows in quarantine, as plain values: which they are, which ones are meant, and what they have in common. Pure."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from frazil.errors import ArgumentError, SinkError
from frazil.write.contract import reason_contains, reason_kind

COLUMNS = ("raw", "reason", "position", "part", "quarantined_at")
TOP_REASONS = 5


@dataclass(frozen=True)
class HeldRow:
    """A row in quarantine. Its id is a hash of all but the reason; of rows that are the same in all of it, the second
    ends in `.2`.
    """

    id: str
    raw: str
    reason: str
    position: str
    part: str
    quarantined_at: dt.datetime

    @property
    def kind(self) -> str:
        """The reason without the value."""
        return reason_kind(self.reason)

    def to_json(self) -> dict[str, Any]:
        """The row for people and for `edited_rows`: the raw row as an object, if it is one."""
        return {
            "id": self.id,
            "reason": self.reason,
            "part": self.part,
            "position": _parsed(self.position),
            "quarantined_at": self.quarantined_at.isoformat(),
            "raw": _parsed(self.raw),
        }


@dataclass
class Naming:
    """Gives rows their ids; one for each walk over a quarantine table, for it counts rows that are the same."""

    seen: Counter[str] = field(default_factory=Counter)

    def name_rows(self, rows: pa.Table) -> Iterator[HeldRow]:
        """The rows of a quarantine table with their ids."""
        if missing := [name for name in COLUMNS if name not in rows.column_names]:
            raise SinkError(f"the table is no quarantine: it has no column '{missing[0]}'", column=missing[0])
        for values in rows.select(COLUMNS).to_pylist():
            when = values["quarantined_at"].astimezone(dt.UTC)
            text = "\0".join([values["position"], values["part"], when.isoformat(), values["raw"]])
            key = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
            self.seen[key] += 1
            name = key if self.seen[key] == 1 else f"{key}.{self.seen[key]}"
            yield HeldRow(name, **{**values, "quarantined_at": when})


@dataclass(frozen=True)
class Choice:
    """Which rows are meant: those whose reason has this text in it, of this part, with one of these ids; all, if
    nothing is said.
    """

    reason: str | None = None
    part: str | None = None
    ids: frozenset[str] | None = None
    without: frozenset[str] = frozenset()  # and not these

    def has(self, row: HeldRow) -> bool:
        """Whether the row is meant.

        >>> row = HeldRow("a1", "{}", "check 'x > 0' failed", "{}", "s/part-0", dt.datetime(2024, 1, 1))
        >>> Choice(reason="x > 0").has(row), Choice(part="s/part-1").has(row)
        (True, False)
        """
        return (
            (self.reason is None or reason_contains(row.reason, self.reason))
            and (self.part is None or self.part == row.part)
            and (self.ids is None or row.id in self.ids)
            and row.id not in self.without
        )


def as_choice(choice: Choice | None) -> Choice:
    """The choice; None is all rows. Raises `ArgumentError` for anything else."""
    return Choice() if choice is None else check_choice(choice)


def check_choice(choice: object) -> Choice:
    """The choice; raises `ArgumentError` for anything else."""
    if not isinstance(choice, Choice):
        expected = "a frazil.quarantine.Choice, such as Choice(reason='amount'); Choice() is all rows"
        raise ArgumentError("choice", choice, expected=expected)
    return choice


@dataclass(frozen=True)
class Holding:
    """What a quarantine table holds: how many rows, since when and until when, and why, the most frequent first."""

    table: str
    rows: int = 0
    oldest: dt.datetime | None = None
    newest: dt.datetime | None = None
    reasons: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, table: str, rows: Iterable[tuple[str, dt.datetime]]) -> Holding:
        """What rows, given by reason and time, come to."""
        reasons: Counter[str] = Counter()
        oldest = newest = None
        for reason, when in rows:
            reasons[reason_kind(reason)] += 1
            oldest = when if oldest is None else min(oldest, when)
            newest = when if newest is None else max(newest, when)
        return cls(table, reasons.total(), oldest, newest, dict(reasons.most_common()))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def edited_rows(text: str, *, name: str) -> dict[str, str]:
    """The rows of a file that `show --output json` wrote and a user has edited: the raw row by id."""
    try:
        document = json.loads(text)
        rows = document["rows"] if isinstance(document, dict) else document
        edited = {row["id"]: json.dumps(row["raw"], ensure_ascii=False) for row in rows}
    except (ValueError, KeyError, TypeError) as exc:
        raise SinkError(
            f"{name} is no list of quarantined rows: {exc!r}",
            hint="write it with: frazil quarantine show TABLE --output json > FILE",
            table=name,
        ) from exc
    if len(edited) < len(rows):
        raise SinkError(f"{name} names a row twice", hint="each id may stand there once")
    return edited
