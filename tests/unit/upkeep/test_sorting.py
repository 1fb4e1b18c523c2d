"""Sorting more rows than fit into memory gives what sorting them at once gives."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField

from frazil.upkeep import sorting
from frazil.upkeep.sorting import sorted_batches
from frazil.write.files.ordering import sort_keys, sort_rows

SCHEMA = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", DoubleType()))
ORDER = SortOrder(
    SortField(1, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_FIRST),
    SortField(2, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_LAST),
)
KEYS = sort_keys(SCHEMA, ORDER)
VALUES = st.tuples(st.none() | st.integers(-3, 3), st.none() | st.floats(-2, 2) | st.just(float("nan")))


def as_text(table: pa.Table) -> list[str]:
    return [str(row) for row in table.to_pylist()]  # NaN is not itself


@pytest.fixture(autouse=True)
def tiny_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "MERGE_BATCH_BYTES", 64)


@given(st.lists(VALUES, max_size=200), st.integers(1, 40))
def test_merged_runs_are_in_order(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[int | None, float | None]], each: int
) -> None:
    rows = pa.table(
        {"a": pa.array([a for a, _ in pairs], pa.int64()), "b": pa.array([b for _, b in pairs], pa.float64())}
    )
    folder = Path(tmp_path_factory.getbasetemp())
    batches = list(sorted_batches(rows.to_batches(max_chunksize=each), KEYS, run_bytes=300, folder=folder))
    result = pa.Table.from_batches(batches, rows.schema)
    assert as_text(result) == as_text(sort_rows(rows, KEYS))


def test_no_rows_give_none() -> None:
    assert list(sorted_batches([], KEYS, run_bytes=10)) == []
