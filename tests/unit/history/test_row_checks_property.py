"""Whatever the table, its statistics, its deletes and the check: what a search finds is what the rows say."""

from __future__ import annotations

import math
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
)

from frazil.errors import CheckError
from frazil.history.row_checks import RowSearch
from frazil.scan.planning import Source
from frazil.write.contract import compile_checks
from tests.kit.changes import example_count
from tests.kit.metadata_tables import Stats, split_by_partition
from tests.kit.real_tables import MadeDelete, RealFile, RealTable, to_arrow

DAY = 86_400_000_000
COLUMNS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "id": (LongType(), st.integers(-3, 3) | st.sampled_from([2**60, -(2**60)])),
    "number": (IntegerType(), st.integers(-3, 3)),
    "single": (FloatType(), st.sampled_from([-1.5, 0.0, 0.5, 2.0, 0.10000000149011612, math.nan, math.inf])),
    "double": (DoubleType(), st.sampled_from([-1.5, -0.0, 0.0, 0.1, 0.5, 2.0, math.nan, -math.inf])),
    "name": (StringType(), st.text(alphabet="abπ€", max_size=4)),
    "flag": (BooleanType(), st.booleans()),
    "day": (DateType(), st.integers(-3, 800)),
    "at": (TimestampType(), st.integers(-3 * DAY, 800 * DAY)),
    "price": (DecimalType(9, 2), st.integers(-300, 300).map(lambda cents: Decimal(cents).scaleb(-2))),
}
SCHEMA = Schema(*(NestedField(at, name, kind) for at, (name, (kind, _)) in enumerate(COLUMNS.items(), 1)))
TRANSFORMS = [
    ("number", "identity"),
    ("name", "truncate[1]"),
    ("day", "month"),
    ("price", "identity"),
    ("id", "bucket[3]"),
]
NUMBERS = ["-2", "0", "1", "0.1", "1.255", "-1.5", "2e0", "1e6", "99999999999999999999", "-1e30"]
LITERALS = {
    **dict.fromkeys(("id", "number", "single", "double", "price"), NUMBERS),
    "name": ["''", "'a'", "'ab'", "'b'", "'π'"],
    "day": ["DATE '1970-01-02'", "'1971-02-28'"],
    "at": ["TIMESTAMP '1970-01-02 03:04:05'", "'1971-01-01'"],
    "flag": ["true", "false"],
}

EMPTY = RealTable(Path(), SCHEMA, [PartitionSpec()]).pyiceberg()


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """A condition on one column, in the words of checks."""
    name = draw(st.sampled_from(list(COLUMNS)))
    literals = st.sampled_from([*LITERALS[name], "NULL"])
    kind = draw(st.integers(0, 6))
    if kind <= 2:
        sides = [name, draw(literals)]
        sign = draw(st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]))
        return f" {sign} ".join(sides if draw(st.booleans()) else sides[::-1])
    if kind == 3:
        some = draw(st.lists(st.sampled_from(LITERALS[name]), min_size=1, max_size=3))
        return f"{name} {draw(st.sampled_from(['IN', 'NOT IN']))} ({', '.join(some)})"
    if kind == 4:
        return f"{name} BETWEEN {draw(literals)} AND {draw(literals)}"
    if kind == 5:
        return f"{name} IS {draw(st.sampled_from(['NULL', 'NOT NULL']))}"
    return draw(
        st.sampled_from(["name LIKE 'a%'", "name NOT LIKE 'ab%'", "length(name) < 2", "flag", "number + 1 > 1"])
    )


checks = st.recursive(
    conditions(),
    lambda inner: (
        st.builds("({} AND {})".format, inner, inner)
        | st.builds("({} OR {})".format, inner, inner)
        | inner.map("NOT ({})".format)
    ),
    max_leaves=4,
)
rows = st.fixed_dictionaries({name: values | st.none() for name, (_, values) in COLUMNS.items()})
# Rows that are alike make files whose statistics decide.
alike = st.tuples(rows, st.integers(1, 3)).map(lambda drawn: [drawn[0]] * drawn[1])
stats = st.builds(Stats, bounds=st.booleans(), counts=st.booleans(), cut_to=st.sampled_from([None, 1, 2]))


def make_spec(spec_id: int, chosen: tuple[str, str] | None) -> PartitionSpec:
    if chosen is None:
        return PartitionSpec(spec_id=spec_id)
    source = SCHEMA.find_field(chosen[0]).field_id
    return PartitionSpec(PartitionField(source, 1000 + spec_id, parse_transform(chosen[1]), "part"), spec_id=spec_id)


def write_files(draw: Any, table: RealTable, folder: Path) -> None:
    files: list[RealFile] = []
    for spec in table.specs:
        drawn = draw(st.lists(rows, max_size=3) | alike)
        for partition, own in split_by_partition(drawn, spec, SCHEMA).items():
            path = str(folder / f"f{len(table.files) + len(files)}.parquet")
            files.append(RealFile(path, own, spec, partition, draw(stats)))
    table.write(files)


def delete_rows(draw: Any, table: RealTable) -> None:
    file: Any = draw(st.sampled_from(table.files))
    kind = draw(st.sampled_from(["positions", "vector", "equality"]))
    if kind == "equality":
        values = draw(st.lists(st.sampled_from(file.rows), min_size=1, max_size=2))
        table.delete([MadeDelete(kind, file.spec, file.partition, 0, columns=("id", "name"), values=values)])
        return
    positions = draw(st.lists(st.integers(0, len(file.rows) - 1), min_size=1, max_size=3))
    table.delete([MadeDelete(kind, file.spec, file.partition, 0, positions={file.path: positions})])


@settings(max_examples=example_count(short=60, full=1500), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data(), texts=st.lists(checks, min_size=1, max_size=2))
def test_a_search_finds_the_rows_that_break_a_check_in_every_snapshot(data: st.DataObject, texts: list[str]) -> None:
    try:
        compiled = compile_checks(texts, SCHEMA.as_arrow())
        for text in texts:
            RowSearch.breaking(EMPTY, Source.of(EMPTY.io), SCHEMA, [text])
    except CheckError:
        reject()  # types that do not fit, or a check that is always NULL
    draw = data.draw
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        specs = [make_spec(0, None), make_spec(1, draw(st.sampled_from([None, *TRANSFORMS])))]
        table = RealTable(folder, SCHEMA, specs)
        expected = []
        for _ in range(draw(st.integers(1, 4))):
            if table.files and draw(st.booleans()):
                delete_rows(draw, table)
            else:
                write_files(draw, table, folder)
            live = to_arrow(table.live(), SCHEMA.fields)
            masks = [mask.to_pylist() for check in compiled if (mask := check.fails(live)) is not None]
            expected.append(sum(any(fails) for fails in zip(*masks, strict=True)))
        loaded = table.pyiceberg()
        search = RowSearch.breaking(loaded, Source.of(loaded.io), SCHEMA, texts)
        numbers = draw(st.permutations(range(1, len(expected) + 1)))
        assert {number: search.has_rows(number) for number in numbers} == {
            number: expected[number - 1] > 0 for number in numbers
        }
        assert [search.find(number, 1).rows for number in sorted(numbers)] == expected
