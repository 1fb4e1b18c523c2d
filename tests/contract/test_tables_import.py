"""`frazil import`: the code that it writes declares what is live, so that a plan from it is empty."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil import Table, column, struct
from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.tables.apply import apply_steps, plan, plan_all
from frazil.tables.codegen import write_module
from tests.kit.table_shapes import calmly, tables


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrazilCatalog]:
    with running_catalog(tmp_path_factory.mktemp("catalog")) as server:
        client = FrazilCatalog("lake", uri=server.uri)
        yield client
        client.close()


def declared_in(code: str) -> list[Table]:
    names: dict[str, object] = {}
    exec(compile(code, "lakehouse.py", "exec"), names)
    return [value for value in names.values() if isinstance(value, Table)]


@settings(calmly, max_examples=30)
@given(declared=st.lists(tables(), min_size=1, max_size=3))
def test_a_plan_from_imported_code_is_empty(declared: list[Table], catalog: FrazilCatalog) -> None:
    named = [Table(f"l.t{n}", *t.columns, **_options(t)) for n, t in enumerate(declared)]  # type: ignore[arg-type]
    list(apply_steps(plan_all(named, catalog), catalog))
    try:
        imported = declared_in(write_module([catalog.load_table(table.identifier) for table in named]))
        assert [table.name for table in imported] == [table.name for table in named]
        assert plan_all(imported, catalog) == []
    finally:
        for table in named:
            catalog.purge_table(table.identifier)


def _options(table: Table) -> dict[str, object]:
    return {name: getattr(table, name) for name in ("partition_by", "sort_by", "properties", "key", "format_version")}


def test_the_code_is_what_a_person_would_write(catalog: FrazilCatalog) -> None:
    declared = Table(
        "shop.order lines",
        column("id", "long", required=True, doc="who"),
        column("device", "struct<site: required string 'where it stands', tags: list<required string>>"),
        column("seen", "timestamptz"),
        column("prices", "map<string, decimal(9, 2)>"),
        partition_by=["day(seen)", "bucket(16, id) as shard"],
        sort_by=["seen desc", "id nulls last"],
        key=["id"],
        properties={"comment": 'say "x"'},
    )
    list(apply_steps(plan(declared, catalog), catalog))
    assert (
        write_module([catalog.load_table(declared.identifier)])
        == '''"""The tables of this lakehouse."""

from frazil import Table, column, struct

order_lines = Table(
    "shop.order lines",
    column("id", "long", required=True, doc="who"),
    column(
        "device",
        struct(column("site", "string", required=True, doc="where it stands"), column("tags", "list<required string>")),
    ),
    column("seen", "timestamptz"),
    column("prices", "map<string, decimal(9, 2)>"),
    partition_by=["day(seen)", "bucket(16, id) as shard"],
    sort_by=["seen desc", "id nulls last"],
    key=["id"],
    properties={
        "comment": 'say "x"',
        "write.parquet.compression-codec": "zstd",
    },
    format_version=2,
)
'''
    )


def test_a_table_of_the_third_format_is_imported_with_its_types_and_defaults(catalog: FrazilCatalog) -> None:
    defaults: list[tuple[str, object]] = [
        ("boolean", True), ("int", -7), ("long", 2**40), ("float", 1.5), ("double", 0.1),
        ("decimal(9, 2)", Decimal("1.50")),
        ("date", dt.date(2024, 1, 15)), ("time", dt.time(1, 2, 3, 4)),
        ("timestamp", dt.datetime(2024, 1, 15, 1, 2, 3, 4)),
        ("timestamptz", dt.datetime(2024, 1, 15, tzinfo=dt.UTC)), ("string", 'it\'s "x"'), ("fixed[2]", b"\x01\xff"),
        ("binary", b"\x00"),
        ("uuid", UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")),
    ]  # fmt: skip
    only_types = [
        "timestamp_ns",
        "timestamptz_ns",
        "unknown",
        "geometry",
        "geometry('srid:3857')",
        "geography('srid:4326', 'spherical')",
    ]
    declared = Table(
        "third.t",
        *(column(f"d{n}", kind, default=value) for n, (kind, value) in enumerate(defaults)),
        *(column(f"t{n}", kind) for n, kind in enumerate(only_types)),
        column("s", struct(column("x", "int", default=3, doc="inside"))),
        format_version=3,
    )
    list(apply_steps(plan(declared, catalog), catalog))
    assert plan(declared, catalog) == []
    (imported,) = declared_in(write_module([catalog.load_table("third.t")]))
    assert (plan(imported, catalog), imported.schema()) == ([], declared.schema())


def test_tables_of_one_name_in_two_namespaces_get_two_variables(catalog: FrazilCatalog) -> None:
    both = [
        Table("one.t", column("a", "int")),
        Table("two.t", column("a", "int")),
        Table("one.class", column("a", "int")),
    ]
    list(apply_steps(plan_all(both, catalog), catalog))
    code = write_module([catalog.load_table(table.identifier) for table in both])
    assert [line.partition(" = ")[0] for line in code.splitlines() if " = Table(" in line] == ["t", "two_t", "t_class"]
    assert [table.name for table in declared_in(code)] == ["one.t", "two.t", "one.class"]


def test_names_that_are_no_identifiers_get_variables_of_their_own(catalog: FrazilCatalog) -> None:
    names = ("odd.x²", "odd.x2", "odd.ﬁ", "odd.fi", "odd.日本", "odd.a b", "odd.½", "odd.1")
    tables = [Table(name, column("a", "int")) for name in names]
    list(apply_steps(plan_all(tables, catalog), catalog))
    declared = declared_in(write_module([catalog.load_table(table.identifier) for table in tables]))
    assert [table.name for table in declared] == list(names)


def test_a_table_that_evolved_is_imported_as_it_is_now(catalog: FrazilCatalog, tmp_path: Path) -> None:
    first = Table(
        "evolved.t",
        column("a", "int"),
        column("b", "string"),
        column("d", "date"),
        partition_by=["d"],
        format_version=1,
    )
    second = Table(
        "evolved.t",
        column("x", "long", renamed_from="a"),
        column("d", "date"),
        partition_by=["month(d)"],
        dropped=["b"],
    )
    for declared in (first, second):
        list(apply_steps(plan(declared, catalog), catalog))
    (imported,) = declared_in(write_module([catalog.load_table("evolved.t")]))
    assert (imported.columns, imported.partition_by) == ((column("x", "long"), column("d", "date")), ("month(d)",))
    assert plan(imported, catalog) == []
