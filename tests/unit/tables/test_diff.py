"""Declared against live: what changes, under which ids; what is refused, and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from pyiceberg.table.metadata import TableMetadata

from frazil import Column, Table, column
from frazil.errors import ChangeRefused
from frazil.tables.diff import diff_table
from tests.kit.table_shapes import calmly, tables
from tests.unit.tables.conftest import create, evolve_to

BASE = (
    column("id", "int", required=True),
    column("name", "string", doc="who"),
    column("device", "struct<site: string, seen: list<float>, counts: map<string, int>>"),
    column("ts", "timestamp"),
)


def table(*columns: Column, **options: object) -> Table:
    return Table("l.t", *columns, **options)  # type: ignore[arg-type]


def live(**options: object) -> TableMetadata:
    return create(table(*BASE, **options))


def ids(metadata: TableMetadata) -> dict[str, int]:
    return {metadata.schema().find_column_name(i) or "": i for i in metadata.schema().field_ids}


@calmly
@given(tables())
def test_a_table_is_as_declared_right_after_it_was_created(declared: Table) -> None:
    assert diff_table(declared, create(declared)) is None


def test_columns_change_and_keep_their_ids() -> None:
    before = live()
    said, after = evolve_to(
        table(
            column("id", "long"),
            column(
                "device",
                "struct<seen: list<double>, site: string 'where', counts: map<string, long>, floor: int>",
                renamed_from="machine",
            ),
            column("label", "string", renamed_from="name"),
            column("ts", "timestamp"),
            column("country", "string"),
        ),
        before,
    )
    assert said == [
        "~ column id: int -> long",
        "~ column id: now optional",
        "~ column device.seen.element: float -> double",
        "~ column device.site: doc 'where'",
        "~ column device.counts.value: int -> long",
        "+ column device.floor int",
        "~ column label: renamed from name",
        "~ column label: no doc any more",
        "+ column country string",
        "~ order of columns: id, device, label, ts, country",
        "~ order of fields of device: seen, site, counts, floor",
    ]
    was, now = ids(before), ids(after)
    assert {now["id"], now["label"], now["device.site"], now["device.seen.element"]} == {
        was["id"],
        was["name"],
        was["device.site"],
        was["device.seen.element"],
    }
    assert sorted(now[new] for new in ("country", "device.floor")) == [
        before.last_column_id + 1,
        before.last_column_id + 2,
    ]


def test_a_rename_and_a_new_column_of_the_old_name_are_two_columns() -> None:
    declared = table(
        *BASE[:1], column("label", "string", doc="who", renamed_from="name"), column("name", "string"), *BASE[2:]
    )
    said, after = evolve_to(declared, live())
    assert said == ["~ column label: renamed from name", "+ column name string"]
    assert ids(after)["label"] == 2


def test_a_rename_that_was_done_says_nothing_when_the_former_name_is_taken_and_renamed_again() -> None:
    first = column("first", "string", renamed_from="name")
    _, metadata = evolve_to(table(BASE[0], first, *BASE[2:], column("name", "string")), live())
    said, after = evolve_to(table(BASE[0], first, *BASE[2:], column("second", "string", renamed_from="name")), metadata)
    assert said == ["~ column second: renamed from name"]
    assert ids(after)["first"] == 2


def test_partition_fields_are_added_and_removed_as_a_new_spec_and_come_back_under_their_id() -> None:
    first = live(partition_by=["day(ts)"])
    said, second = evolve_to(table(*BASE, partition_by=["day(ts)", "bucket(16, id)"]), first)
    assert said == ["+ partition bucket(16, id)"]
    said, third = evolve_to(table(*BASE, partition_by=["bucket(16, id)"]), second)
    assert said == ["- partition day(ts)"]
    said, fourth = evolve_to(table(*BASE, partition_by=["bucket(16, id) as shard", "day(ts)"]), third)
    assert said == ["~ partition bucket(16, id): named shard (was id_bucket)", "+ partition day(ts)"]
    assert [(f.field_id, f.name) for f in fourth.spec().fields] == [(1001, "shard"), (1000, "ts_day")]
    assert len(fourth.partition_specs) == 4


def test_the_first_format_keeps_the_place_of_a_partition_field_that_goes() -> None:
    said, after = evolve_to(
        table(*BASE, partition_by=["bucket(16, id)"]), live(partition_by=["day(ts)"], format_version=1)
    )
    assert said == ["+ partition bucket(16, id)", "- partition day(ts)"]
    assert [str(field) for field in after.spec().fields] == ["1000: ts_day: void(4)", "1001: id_bucket: bucket[16](1)"]


def test_the_sort_order_evolves() -> None:
    said, after = evolve_to(table(*BASE, sort_by=["ts desc", "bucket(4, id)"]), live(sort_by=["id"]))
    assert said == ["~ sort order: ts desc, bucket(4, id) (was: id)"]
    said, after = evolve_to(table(*BASE), after)
    assert (said, after.default_sort_order_id) == (["~ sort order: unsorted (was: ts desc, bucket(4, id))"], 0)


def test_only_properties_that_were_declared_are_ever_removed() -> None:
    before = live(properties={"a": "1", "b": "2"})
    by_others = before.model_copy(
        update={"properties": {**before.properties, "theirs": "x", "frazil.progress.main": "{}"}}
    )
    said, after = evolve_to(table(*BASE, properties={"b": "3", "c": "4"}), by_others)
    assert said == ["~ property b: 2 -> 3", "+ property c = 4", "- property a (was 1)"]
    kept = {
        key: value
        for key, value in after.properties.items()
        if key not in ("frazil.applied", "write.parquet.compression-codec")
    }
    assert kept == {"b": "3", "c": "4", "theirs": "x", "frazil.progress.main": "{}"}


def test_formats_and_codecs_are_the_same_in_capitals() -> None:
    before = live(properties={"write.format.default": "PARQUET", "owner": "Me"})  # as Trino writes it
    said, _ = evolve_to(table(*BASE, properties={"write.format.default": "parquet", "owner": "me"}), before)
    assert said == ["~ property owner: Me -> me"]


def test_the_key_and_the_format_version_follow() -> None:
    said, after = evolve_to(table(*BASE, key=["id"], format_version=3), live())
    assert said == ["~ format version: 2 -> 3", "+ key id"]
    said, _ = evolve_to(table(*BASE), after)
    assert said == ["- key id"]


def test_a_new_required_column_with_a_default_is_taken_in_the_third_format() -> None:
    said, after = evolve_to(table(*BASE, column("n", "int", required=True, default=7), format_version=3), live())
    assert said == ["~ format version: 2 -> 3", "+ column n int, required, default 7"]
    said, after = evolve_to(table(*BASE, column("n", "int", required=True, default=8), format_version=3), after)
    assert said == ["~ column n: default 8 for new rows"]
    assert after.schema().find_field("n").initial_default == 7


def test_the_name_mapping_of_files_without_ids_follows_the_names() -> None:
    before = live()
    mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["name"]}]'
    before = before.model_copy(update={"properties": {**before.properties, "schema.name-mapping.default": mapping}})
    declared = table(
        BASE[0], column("label", "string", doc="who", renamed_from="name"), *BASE[2:], column("new", "int")
    )
    _, after = evolve_to(declared, before)
    names = after.name_mapping()
    assert names is not None
    assert [(field.field_id, sorted(field.names)) for field in names] == [
        (1, ["id"]),
        (2, ["label", "name"]),
        (11, ["new"]),
    ]


REFUSED = [
    (
        table(column("id", "int", required=True), column("name", "binary", doc="who"), *BASE[2:]),
        "l.t: column 'name' is string and cannot become binary: old files would not read as that",
    ),
    (
        table(*BASE[:2], column("device", "struct<site: string, seen: list<float>, counts: map<int, int>>"), BASE[3]),
        "l.t: column 'device.counts.key' cannot become int: the keys of a map never change",
    ),
    (
        table(*BASE[:3], column("ts", "timestamp", required=True)),
        "l.t: column 'ts' is optional and cannot become required: NULLs may be there",
    ),
    (
        table(*BASE, column("n", "int", required=True)),
        "l.t: column 'n' is new and required, and rows that are there have no value for it",
    ),
    (table(*BASE[:1], *BASE[2:]), "l.t: column 'name' is not declared, and dropping it would hide its values"),
    (
        table(
            BASE[0], column("x", "string", renamed_from="name"), column("y", "string", renamed_from="name"), *BASE[2:]
        ),
        "l.t: column 'y' is renamed from 'name', and so is 'x'",
    ),
    (table(*BASE[:3]), "l.t: column 'ts' cannot be dropped: it is a source of a partition"),
    (table(*BASE[1:]), "l.t: column 'id' cannot be dropped: it is part of the key"),
    (
        table(*BASE[:2], column("device", "struct<seen: list<float>, counts: map<string, int>>"), BASE[3]),
        "l.t: column 'device.site' cannot be dropped: it is in the sort order",
    ),
    (
        table(*BASE[:2], column("device", "struct<site: string, counts: map<string, int>>"), BASE[3]),
        "l.t: column 'device.seen' is not declared, and dropping it would hide its values",
    ),
    (
        table(*BASE, column("ts_day", "date")),
        "l.t: column 'ts_day' cannot have this name: a partition field has it, also in older files",
    ),
    (
        table(*BASE, format_version=1),
        "l.t: format version 2 cannot become 1: a table is never brought back to an older format",
    ),
    (
        table(*BASE, location="memory:u"),
        "l.t: location memory:t cannot become memory:u: apply moves no files; declare where it is",
    ),
]


@pytest.mark.parametrize(("declared", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_would_break_readers_or_lose_data_is_refused_with_the_reason(declared: Table, message: str) -> None:
    before = live(partition_by=["day(ts)"], sort_by=["device.site"], key=["id"])
    with pytest.raises(ChangeRefused) as raised:
        diff_table(declared, before)
    assert [reason.splitlines()[0] for reason in raised.value.reasons] == [message]


@pytest.mark.parametrize(
    ("old", "new"),
    [("long", "int"), ("double", "float"), ("decimal(9, 2)", "decimal(8, 2)"), ("decimal(9, 2)", "decimal(9, 3)")],
)
def test_no_type_is_narrowed(old: str, new: str) -> None:
    with pytest.raises(ChangeRefused, match="cannot become"):
        diff_table(table(column("a", new)), create(table(column("a", old))))


def test_a_vanished_and_a_new_column_of_one_type_are_no_rename_but_a_hint() -> None:
    with pytest.raises(ChangeRefused) as raised:
        diff_table(table(BASE[0], column("label", "string"), *BASE[2:]), live())
    assert raised.value.reasons == (
        "l.t: column 'name' is not declared, and dropping it would hide its values\n"
        "    declare it, or allow that with dropped=[\"name\"]; if it is 'label' now, declare that with "
        'renamed_from="name"',
    )


def test_a_column_is_dropped_where_that_is_allowed() -> None:
    device = column("device", "struct<site: string, counts: map<string, int>>")
    said, after = evolve_to(table(BASE[0], device, BASE[3], dropped=["name", "device.seen"]), live())
    assert said == ["- column name string", "- column device.seen list<float>"]
    assert "name" not in after.schema().column_names
