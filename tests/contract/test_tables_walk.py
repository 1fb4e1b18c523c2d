"""A random walk of evolutions: rows are written after every step, and every old snapshot reads back with its own
values.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.table import Table as LiveTable
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from frazil import Table
from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.tables.apply import apply_steps, plan
from frazil.tables.check import can_transform
from frazil.tables.terms import Term, parse_partition
from frazil.tables.types import Column, Struct, normalise_column

STEPS = 20
WIDER = {"int": "long", "float": "double", "decimal(9, 2)": "decimal(14, 2)"}
KINDS = [
    "int",
    "float",
    "decimal(9, 2)",
    "string",
    "date",
    "timestamp",
    "boolean",
    "binary",
    "list<string>",
    "map<string, int>",
    "struct<x: int>",
]
TRANSFORMS = ["identity", "year", "month", "day", "hour", "bucket[4]", "truncate[3]"]
Row = dict[int, Any]  # values by field id, so that a name says nothing
TYPES = {name: normalise_column(Column("x", name)).type for name in KINDS}


@pytest.fixture(scope="module")
def walk_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrazilCatalog]:
    with running_catalog(tmp_path_factory.mktemp("catalog")) as server:
        client = FrazilCatalog("lake", uri=server.uri)
        client.create_namespace("walk")
        yield client
        client.close()


@dataclass
class Walk:
    """What is declared, the rows by field id, and what each snapshot is to show for ever."""

    catalog: FrazilCatalog
    columns: list[Column]
    partition_by: list[str] = field(default_factory=list)
    sort_by: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    snapshots: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    counter: int = 0

    def declared(self) -> Table:
        present = {column.name for column in self.columns}
        gone = [name for name in self.dropped if name not in present]
        return Table("walk.t", *self.columns, partition_by=self.partition_by, sort_by=self.sort_by, dropped=gone)

    def step(self) -> None:
        """Applies the declaration, looks at all rows through it, and writes some more."""
        declared = self.declared()
        list(apply_steps(plan(declared, self.catalog), self.catalog))
        assert plan(declared, self.catalog) == []
        live = self.catalog.load_table("walk.t")
        assert rows_of(live) == show(self.rows, live.schema().as_struct())
        new = [self._row(live) for _ in range(2)]
        live.append(pa.Table.from_pylist(show(new, live.schema().as_struct()), schema=live.schema().as_arrow()))
        self.rows += new
        live = self.catalog.load_table("walk.t")
        snapshot = live.current_snapshot()
        assert snapshot is not None
        self.snapshots[snapshot.snapshot_id] = show(self.rows, live.schema().as_struct())

    def _row(self, live: LiveTable) -> Row:
        self.counter += 1
        return {f.field_id: value_of(f.field_type, self.counter, required=f.required) for f in live.schema().fields}

    def fresh(self) -> str:
        self.counter += 1
        return f"c{self.counter}"


def value_of(kind: IcebergType, n: int, *, required: bool = False) -> Any:
    """A value that tells its row; every fifth is NULL where that may be."""
    if n % 5 == 0 and not required:
        return None
    if isinstance(kind, StructType):
        return {f.field_id: value_of(f.field_type, n + 1, required=f.required) for f in kind.fields}
    if isinstance(kind, ListType):
        return [value_of(kind.element_type, n + i, required=True) for i in range(n % 3)]
    if isinstance(kind, MapType):
        return {f"k{i}": value_of(kind.value_type, n + i, required=True) for i in range(n % 3)}
    values: dict[str, Any] = {
        "int": n,
        "long": n + 2**40,
        "float": n / 4,
        "double": n / 7,
        "decimal(9, 2)": Decimal(n) / 4,
        "decimal(14, 2)": Decimal(n) + 10**10,
        "string": f"text {n}",
        "date": dt.date(2024, 1, 1) + dt.timedelta(n),
        "timestamp": dt.datetime(2024, 1, 1) + dt.timedelta(hours=7 * n),
        "boolean": n % 2 == 0,
        "binary": bytes([n % 256]),
    }
    return values[str(kind)]


def show(rows: list[Row], struct: StructType) -> list[dict[str, Any]]:
    """The rows as a schema shows them, by name; what a row never had is NULL."""
    shown = [{f.name: _shown(row.get(f.field_id), f.field_type) for f in struct.fields} for row in rows]
    return sorted(shown, key=repr)


def _shown(value: Any, kind: IcebergType) -> Any:
    if value is None or kind.is_primitive:
        return value
    if isinstance(kind, StructType):
        return {f.name: _shown(value.get(f.field_id), f.field_type) for f in kind.fields}
    return value if isinstance(kind, ListType) else list(value.items())


def rows_of(live: LiveTable, snapshot_id: int | None = None) -> list[dict[str, Any]]:
    return sorted(live.scan(snapshot_id=snapshot_id).to_arrow().to_pylist(), key=repr)


# --- the moves: each changes the declaration, or returns False where it finds nothing to change ----------------------


def used(walk: Walk) -> set[str]:
    """The columns that partitions, also old ones, and the sort order rest on; they are never dropped."""
    live = walk.catalog.load_table("walk.t")
    fields = [f for spec in live.metadata.partition_specs for f in spec.fields] + list(live.sort_order().fields)
    return {live.schema().find_column_name(f.source_id) or "" for f in fields}


def add(walk: Walk, data: st.DataObject) -> bool:
    column = Column(
        walk.fresh(),
        TYPES[data.draw(st.sampled_from(KINDS), label="type")],
        doc=data.draw(st.sampled_from([None, "new"])),
    )
    walk.columns.insert(data.draw(st.integers(0, len(walk.columns)), label="place"), column)
    return True


def drop(walk: Walk, data: st.DataObject) -> bool:
    free = [c for c in walk.columns if c.name not in used(walk) | {"id"}]
    if not free:
        return False
    gone = data.draw(st.sampled_from(free), label="dropped")
    walk.columns.remove(gone)
    walk.dropped.append(gone.name)
    return True


def _change(walk: Walk, data: st.DataObject, choices: list[Column], **changes: Any) -> bool:
    if not choices:
        return False
    place = walk.columns.index(data.draw(st.sampled_from(choices), label="column"))
    walk.columns[place] = replace(walk.columns[place], **changes)
    return True


def rename(walk: Walk, data: st.DataObject) -> bool:
    """A column by another name, and perhaps a new one that takes the old name: only ids tell them apart."""
    free = [c for c in walk.columns if c.name not in used(walk) | {"id"}]
    if not free:
        return False
    old = data.draw(st.sampled_from(free), label="renamed")
    walk.columns[walk.columns.index(old)] = replace(old, name=walk.fresh(), renamed_from=old.name)
    if data.draw(st.booleans(), label="name taken again"):
        walk.columns.append(Column(old.name, "string"))
    return True


def reorder(walk: Walk, data: st.DataObject) -> bool:
    walk.columns = list(data.draw(st.permutations(walk.columns), label="order"))
    return True


def widen(walk: Walk, data: st.DataObject) -> bool:
    chosen = [c for c in walk.columns if str(c.type) in WIDER]
    if not chosen:
        return False
    column = data.draw(st.sampled_from(chosen), label="widened")
    walk.columns[walk.columns.index(column)] = replace(column, type=WIDER[str(column.type)])
    return True


def loosen(walk: Walk, data: st.DataObject) -> bool:
    return _change(walk, data, [c for c in walk.columns if c.required and c.name != "id"], required=False)


def describe(walk: Walk, data: st.DataObject) -> bool:
    return _change(walk, data, walk.columns, doc=data.draw(st.sampled_from([None, "a", "b"]), label="doc"))


def nest(walk: Walk, data: st.DataObject) -> bool:
    """Inside a struct: a field more, one renamed, widened or gone, or another order."""
    structs = [c for c in walk.columns if isinstance(c.type, Struct)]
    if not structs:
        return False
    column = data.draw(st.sampled_from(structs), label="struct")
    assert isinstance(column.type, Struct)
    fields = list(column.type.fields)
    what = data.draw(st.sampled_from(["add", "rename", "widen", "reorder", "drop"]), label="inside")
    if what == "rename":
        fields[0] = replace(fields[0], name=walk.fresh(), renamed_from=fields[0].name)
    elif what == "widen":
        fields[0] = replace(fields[0], type=WIDER.get(str(fields[0].type), fields[0].type))
    elif what == "drop" and len(fields) > 1:
        walk.dropped.append(f"{column.name}.{fields.pop(0).name}")
    elif what == "reorder":
        fields.reverse()
    else:
        fields.append(Column(walk.fresh(), TYPES[data.draw(st.sampled_from(KINDS), label="type")]))
    walk.columns[walk.columns.index(column)] = replace(column, type=Struct(tuple(fields)))
    return True


def partition(walk: Walk, data: st.DataObject) -> bool:
    if walk.partition_by and data.draw(st.booleans(), label="remove"):
        walk.partition_by.pop(0)
        return True
    # PyIceberg writes no table partitioned by a column twice
    taken = {parse_partition(text).term.source for text in walk.partition_by}
    plain = [
        (c.name, c.type)
        for c in walk.columns
        if isinstance(c.type, str) and c.type not in ("binary", "float", "double")
    ]
    terms = [
        Term(transform, name) for name, kind in plain for transform in TRANSFORMS if can_transform(transform, kind)
    ]
    free = [str(term) for term in terms if term.source not in taken]
    if not free or len(walk.partition_by) > 1:
        return False
    walk.partition_by.append(data.draw(st.sampled_from(free), label="partition"))
    return True


def sort(walk: Walk, data: st.DataObject) -> bool:
    plain = [c.name for c in walk.columns if isinstance(c.type, str)]
    walk.sort_by = [f"{data.draw(st.sampled_from(plain), label='sort')} desc"] if data.draw(st.booleans()) else []
    return True


MOVES = [add, drop, rename, reorder, widen, loosen, describe, nest, partition, sort]


# The first walk of hypothesis is the plainest, 20 times `add`; the others are random. Shrinking would take too long: it
# tells the moves.
@settings(max_examples=3, phases=[Phase.reuse, Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_after_twenty_evolutions_every_snapshot_still_shows_its_own_values(
    data: st.DataObject, walk_catalog: FrazilCatalog
) -> None:
    start = [
        Column("id", "int", required=True),
        Column("name", "string", required=True),
        Column("s", TYPES["struct<x: int>"]),
    ]
    walk = Walk(walk_catalog, [*start, Column("day", "date"), Column("amount", "decimal(9, 2)")])
    try:
        walk.step()
        for _ in range(STEPS):
            while not data.draw(st.sampled_from(MOVES), label="move")(walk, data):
                pass
            walk.step()
        live = walk_catalog.load_table("walk.t")
        assert len(walk.snapshots) == STEPS + 1
        for snapshot_id, rows in walk.snapshots.items():
            assert rows_of(live, snapshot_id) == rows
    finally:
        if walk_catalog.table_exists("walk.t"):
            walk_catalog.purge_table("walk.t")
