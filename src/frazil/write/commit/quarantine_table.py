"""The companion table `__quarantine`: rejected rows, with the reason and where they came from."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.typedef import Identifier
from pyiceberg.types import NestedField, StringType, TimestamptzType

from frazil.protocol import QUARANTINE_SUFFIX
from frazil.write.contract import Rejected
from frazil.write.files import TableLayout

SCHEMA = Schema(
    NestedField(1, "raw", StringType(), required=True, doc="The row as JSON, as it was written"),
    NestedField(
        2, "reason", StringType(), required=True, doc="The field and what was expected, or the check that failed"
    ),
    NestedField(3, "position", StringType(), required=True, doc="Where the row stood in its source, as JSON"),
    NestedField(4, "part", StringType(), required=True, doc="The part of the sink that wrote it"),
    NestedField(5, "quarantined_at", TimestamptzType(), required=True, doc="When"),
)


def quarantine_of(identifier: Identifier) -> Identifier:
    """The name of a table's quarantine table.

    >>> quarantine_of(("lakehouse", "sales"))
    ('lakehouse', 'sales__quarantine')
    """
    return (*identifier[:-1], f"{identifier[-1]}{QUARANTINE_SUFFIX}")


@dataclass(frozen=True)
class OpenQuarantine:
    """The quarantine table of a part, for who writes its files elsewhere; bad rows before the offsets in `reached` are
    in it already.
    """

    layout: TableLayout
    reached: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class QuarantinedRow:
    """A row of the quarantine table, and the position that the source has reached with it."""

    values: Mapping[str, Any]
    end: Mapping[str, int]


@dataclass
class QuarantinedRows:
    """Rejected rows that wait for the next commit."""

    part: str
    rows: list[QuarantinedRow] = field(default_factory=list)

    def add(self, row: Rejected, *, position: str, end: Mapping[str, int], now: dt.datetime) -> None:
        """Takes a row; `position` is what the table says of it, `end` what progress says."""
        values = {"raw": row.raw, "reason": row.reason, "position": position, "part": self.part, "quarantined_at": now}
        self.rows.append(QuarantinedRow(values, end))

    def take(self) -> list[QuarantinedRow]:
        taken, self.rows = self.rows, []
        return taken


def exact_position(source: str, offset: int) -> str:
    """The position of a row whose offset is known.

    >>> exact_position("events/0", 12)
    '{"source":"events/0","offset":12}'
    """
    return json.dumps({"source": source, "offset": offset}, separators=(",", ":"))


def position_in_batch(number: int, end: Mapping[str, int] | None) -> str:
    """The position of a row of which only the batch's end is known: the number of the row, from 0, in the batch that
    ends there.

    >>> position_in_batch(3, {"events/0": 500})
    '{"row":3,"end":{"events/0":500}}'
    """
    return json.dumps({"row": number, **({"end": dict(end)} if end else {})}, separators=(",", ":"))


def as_arrow(rows: Sequence[QuarantinedRow], schema: pa.Schema) -> pa.Table:
    """The rows as the quarantine table wants them."""
    return pa.Table.from_pylist([dict(row.values) for row in rows], schema)
