"""Whatever the table, its deletes and the predicate: a pruned scan gives exactly the rows that a full scan with the
filter gives.
"""

from __future__ import annotations

import math
import operator
import struct
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundLiteralPredicate,
    BoundSetPredicate,
    Or,
)
from pyiceberg.expressions.visitors import bind, rewrite_not
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.types import FloatType

from frazil.scan.planning.plan import ScanRequest
from frazil.scan.planning.source import Source
from frazil.scan.scan import Scan
from tests.kit.changes import example_count
from tests.kit.real_tables import MadeDelete, RealFile, RealTable, to_arrow, to_stored
from tests.unit.scan.planning.test_prune_property import (
    COLUMNS,
    SCHEMA,
    filters,
    make_spec,
    rows,
    specs,
    split_by_partition,
    stats,
)

SIGNS = {"EqualTo": operator.eq, "NotEqualTo": operator.ne, "LessThan": operator.lt, "LessThanOrEqual": operator.le}
SIGNS |= {"GreaterThan": operator.gt, "GreaterThanOrEqual": operator.ge}
SIGNS |= {"StartsWith": str.startswith, "NotStartsWith": lambda value, prefix: not value.startswith(prefix)}


def is_true(expr: BooleanExpression, row: Mapping[str, Any]) -> bool | None:
    """Whether a bound expression holds for a row; None when SQL does not know."""
    match expr:
        case AlwaysTrue():
            return True
        case AlwaysFalse():
            return False
        case And():
            both = is_true(expr.left, row), is_true(expr.right, row)
            return False if False in both else None if None in both else True
        case Or():
            either = is_true(expr.left, row), is_true(expr.right, row)
            return True if True in either else None if None in either else False
    kind, value = type(expr).__name__.removeprefix("Bound"), row[expr.term.ref().field.name]  # type: ignore[attr-defined]
    if kind in ("IsNull", "NotNull"):
        return (value is None) == (kind == "IsNull")
    if kind in ("IsNaN", "NotNaN"):
        return (isinstance(value, float) and math.isnan(value)) == (kind == "IsNaN")
    if value is None:
        return None
    if isinstance(expr, BoundSetPredicate):
        return (value in [literal.value for literal in expr.literals]) == (kind == "In")
    assert isinstance(expr, BoundLiteralPredicate)
    other = expr.literal.value
    if isinstance(expr.term.ref().field.field_type, FloatType):
        (other,) = struct.unpack("<f", struct.pack("<f", other))
    return bool(SIGNS[kind](value, other))


@st.composite
def real_tables(draw: Any, folder: Path) -> RealTable:
    everywhere = PartitionSpec(spec_id=9)
    table = RealTable(folder, SCHEMA, [*(make_spec(at, chosen) for at, chosen in enumerate(draw(specs))), everywhere])
    for _ in range(draw(st.integers(1, 3))):
        files: list[RealFile] = []
        for spec in table.specs:
            for partition, own in split_by_partition(draw(st.lists(rows, max_size=5)), spec, SCHEMA).items():
                path = str(folder / f"f{len(table.files) + len(files)}.parquet")
                files.append(RealFile(path, own, spec, partition, draw(stats)))
        if files:
            table.write(files, group_rows=draw(st.integers(1, 3)), per_manifest=draw(st.integers(1, 3)))
        if table.files and (result := draw(st.lists(deletes(table), max_size=3))):
            table.delete(one_vector_each(table, result))
    return table


def one_vector_each(table: RealTable, value: list[MadeDelete]) -> list[MadeDelete]:
    """A data file has one deletion vector at most: writers put a new one in place of the old."""
    taken = {path for response in table.deletes if response.kind == "vector" for path in response.positions}
    kept = []
    for item in value:
        if item.kind != "vector" or taken.isdisjoint(item.positions):
            kept.append(item)
            taken |= set(item.positions) if item.kind == "vector" else set()
    return kept


@st.composite
def deletes(draw: Any, table: RealTable) -> MadeDelete:
    kind = draw(st.sampled_from(["positions", "vector", "equality", "equality"]))
    file = draw(st.sampled_from(table.files))
    response = MadeDelete(kind, file.spec, file.partition, 0)
    if kind == "equality":
        if draw(st.booleans()):
            response.spec, response.partition = table.specs[-1], ()
        response.columns = tuple(draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=3, unique=True)))
        known = [row for file in table.files for row in file.rows]
        response.values = draw(st.lists(st.sampled_from(known) | rows, min_size=1, max_size=3))
        return response
    places = st.lists(st.integers(0, len(file.rows) - 1), min_size=1, max_size=6)
    response.positions = {file.path: draw(places)}
    if kind == "positions":
        files = [
            partition
            for partition in table.files
            if partition.spec is file.spec and partition.partition == file.partition and partition is not file
        ]
        if files:
            response.positions[files[0].path] = draw(
                st.lists(st.integers(0, len(files[0].rows) - 1), min_size=1, max_size=2)
            )
    return response


@settings(max_examples=example_count(short=50, full=1000), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data(), expr=filters)
def test_a_pruned_scan_gives_the_rows_of_a_full_scan_with_the_filter(
    data: st.DataObject, expr: BooleanExpression
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = data.draw(real_tables(Path(folder)))
        names = data.draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, unique=True))
        bound = bind(SCHEMA, rewrite_not(expr), True)
        fields = [SCHEMA.find_field(name) for name in names]
        wanted = [row for row in table.live() if is_true(bound, row)]
        how = {"batch_rows": data.draw(st.sampled_from([1, 2, 1000])), "spare": data.draw(st.booleans())}
        result, at_once = (table.read(expr, names, whole=whole, **how) for whole in (False, True))
        expected = to_stored(pa.Table.from_batches(to_arrow(wanted, fields).to_batches(), schema=result.schema), fields)
        assert Counter(to_stored(result, fields)) == Counter(expected)
        assert to_stored(at_once, fields) == to_stored(result, fields)
        assert Scan(table.state, Source.of(table.io), ScanRequest(filter=expr)).count() == len(wanted)
