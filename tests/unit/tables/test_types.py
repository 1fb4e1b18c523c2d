"""Types are text or calls, and both mean the same."""

from __future__ import annotations

import pytest
from hypothesis import given

from frazil import column, list_of, map_of, struct
from frazil.tables.types import HINT, PLAIN, NotAType, Type, normalise
from tests.kit.table_shapes import calmly, types


@calmly
@given(types)
def test_the_text_of_a_type_is_read_back_as_the_same_type(kind: Type) -> None:
    assert normalise(str(kind)) == kind


def test_calls_and_text_mean_the_same() -> None:
    called = struct(
        column("site", "STRING", required=True, doc="it's where"),
        column("seen", list_of("timestamptz", required=True)),
        column("counts", map_of("string", "bigint", required=True)),
    )
    text = (
        "struct<site: required string 'it''s where', seen: array<required timestamptz>, counts: map<string, "
        "required long>>"
    )
    assert normalise(called) == normalise(text)


@pytest.mark.parametrize(
    "text", [*PLAIN, "decimal(9, 2)", "fixed[16]", "geometry('srid:4326')", "geography('OGC:CRS84', 'spherical')"]
)
def test_every_plain_type_of_iceberg_is_a_type(text: str) -> None:
    assert normalise(f"list<{text}>") == list_of(text)
    assert text.partition("(")[0].partition("[")[0] in HINT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("strin", "'strin' is not an Iceberg type"),
        ("list<strin>", "'list<strin>' is not an Iceberg type: there is no type 'strin'"),
        ("struct<a int>", "'struct<a int>' is not an Iceberg type: expected ':' before 'int>'"),
        ("list<int", "'list<int' is not an Iceberg type: expected '>' at the end"),
        ("list<int>>", "'list<int>>' is not an Iceberg type: expected the end before '>'"),
        ("struct<>", "'struct<>' is not an Iceberg type: expected the name of a field before '>'"),
        ("struct<a: int, a: int>", "a struct has field 'a' twice"),
        ("decimal(40,2)", "'decimal(40,2)': a decimal has a precision from 1 to 38, and a scale that is not above it"),
        ("decimal", "'decimal' is not an Iceberg type: expected decimal(precision, scale) at the end"),
    ],
)
def test_what_is_no_type_is_said_with_the_place(text: str, message: str) -> None:
    with pytest.raises(NotAType) as raised:
        normalise(text)
    assert str(raised.value) == message
