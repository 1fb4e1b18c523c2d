"""The rows: a table with ids from 0 on, and changes of every tenth of them or so, scattered; some are new, some are
deletes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, LongType, NestedField, StringType, TimestampType

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "customer", StringType()),
    NestedField(3, "amount", DecimalType(12, 2)),
    NestedField(4, "note", StringType()),
    NestedField(5, "version", LongType()),
    NestedField(6, "changed_at", TimestampType()),
)
PIECE = 1_000_000
NEW_SHARE, DELETED_SHARE = 0.1, 0.05
START_US = 1_704_067_200_000_000


def base_rows(rows: int) -> Iterator[pa.Table]:
    """The table's rows before the changes."""
    for start in range(0, rows, PIECE):
        yield _rows(pa.array(range(start, min(start + PIECE, rows)), pa.int64()), version=1)


def change_rows(rows: int, changes: int, *, deletes: bool) -> pa.Table:
    """Changes with keys of their own: most are of rows that are there, the others of new ones."""
    chance, new = random.Random(7), int(changes * NEW_SHARE)
    ids = [*chance.sample(range(rows), changes - new), *range(rows, rows + new)]
    chance.shuffle(ids)
    result = _rows(pa.array(ids, pa.int64()), version=2)
    if not deletes:
        return result
    gone = pa.array([number < changes * DELETED_SHARE for number in range(changes)])
    return result.append_column("op", pc.if_else(gone, "d", "u"))


def _rows(ids: pa.Array, *, version: int) -> pa.Table:
    mixed = pc.bit_wise_and(pc.multiply(ids, 2654435761), 0xFFFFFF)
    text = mixed.cast(pa.string())
    count = len(ids)
    return pa.table(
        {
            "id": ids,
            "customer": pc.binary_join_element_wise("CUST-", pc.bit_wise_and(mixed, 0xFFFF).cast(pa.string()), ""),
            "amount": mixed.cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2)),
            "note": pc.binary_join_element_wise(f"version {version} of", text, text, " "),
            "version": pa.repeat(pa.scalar(version, pa.int64()), count),
            "changed_at": pc.add(mixed, START_US + version).cast(pa.timestamp("us")),
        }
    )
