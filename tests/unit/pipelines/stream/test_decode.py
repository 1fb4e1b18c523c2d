"""Messages as rows: what is read, and what is quarantined."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import PipelineError
from frazil.pipelines.files.read_json import parse_line
from frazil.pipelines.sources import OWN_OP
from frazil.pipelines.stream.decode import JsonDecoder, OwnDecoder, Tombstones, parse_message
from tests.kit.raising import raises


def messages(*values: bytes | None) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values, pa.binary())})


def test_fields_are_columns_and_what_is_no_object_is_named() -> None:
    result = JsonDecoder(("id", "note")).decode(
        messages(b'{"id": 1}', b"?", None, b"[1]", b'{"id": 2, "note": "x"}', b"")
    )
    assert result.rows.to_pylist() == [{"id": "1", "note": None}, {"id": "2", "note": "x"}]
    assert result.numbers.to_pylist() == [0, 4]
    assert [(number, reason.split(":")[0]) for number, reason in result.bad] == [
        (1, "expected a JSON object, got other text"),
        (2, "expected a JSON object, got a message without a value (a tombstone"),
        (3, "expected a JSON object, got other text"),
        (5, "expected a JSON object, got an empty message"),
    ]


def test_a_field_that_the_table_does_not_have_is_reported_or_quarantines_its_message() -> None:
    batch = messages(b'{"id": 1, "extra": 2}', b'{"id": 3}')
    result, strict = JsonDecoder(("id",)).decode(batch), JsonDecoder(("id",), quarantine_unknown=True).decode(batch)
    assert (result.rows.to_pylist(), result.unknown) == ([{"id": "1"}, {"id": "3"}], ["extra"])
    assert strict.bad == [(0, "the message has field 'extra', which the table does not have")]
    assert (strict.rows.to_pylist(), strict.numbers.to_pylist()) == ([{"id": "3"}], [1])


def tombstones(*keys: bytes | None) -> pa.RecordBatch:
    return pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.nulls(len(keys), pa.binary())})


def test_a_message_without_a_value_deletes_the_row_of_its_key_and_others_are_what_they_say() -> None:
    decoder = JsonDecoder(("id", "note", OWN_OP), tombstones=Tombstones("json", ("id",), OWN_OP, "d", "u"))
    batch = pa.record_batch(
        {
            "key": pa.array([b"1", b'{"id": 2}'], pa.binary()),
            "value": pa.array([b'{"id": 1, "note": "x"}', None], pa.binary()),
        }
    )
    result = decoder.decode(batch)
    assert (result.rows.to_pylist(), result.bad) == (
        [{"id": "1", "note": "x", OWN_OP: "u"}, {"id": "2", "note": None, OWN_OP: "d"}],
        [],
    )
    assert decoder.columns == ("key", "value")


@pytest.mark.parametrize(
    ("how", "columns", "key", "row"),
    [
        ("json", ("id",), b'{"id": 12345678901234567890}', {"id": "12345678901234567890"}),
        ("json", ("id",), b' "a b"', {"id": "a b"}),
        ("json", ("id", "site"), b'{"site": "x", "id": 7, "more": 1}', {"id": "7", "site": "x"}),
        ("json", ("id", "site"), b'{"id": 7}', {"id": "7", "site": None}),
        ("text", ("id",), b'{"id": 7}', {"id": '{"id": 7}'}),
        ("json", ("id",), b"a b", "unexpected character"),
        ("json", ("id",), b"1.5", "a whole number, got float"),
        ("json", ("id",), b"null", "a whole number, got NoneType"),
        ("json", ("id", "site"), b"7", "no object"),
        ("text", ("id",), b"\xff", "utf-8"),
        ("text", ("id",), None, "a tombstone without a key"),
    ],
)
def test_the_key_of_a_tombstone_is_the_key_of_a_row_or_the_message_is_bad(
    how: Any, columns: tuple[str, ...], key: bytes | None, row: Any
) -> None:
    decoder = JsonDecoder((*columns, "op"), tombstones=Tombstones(how, columns, "op", "delete"))
    result = decoder.decode(tombstones(key))
    if isinstance(row, dict):
        assert (result.rows.to_pylist(), result.bad) == ([{**row, "op": "delete"}], [])
    else:
        assert result.rows.num_rows == 0
        assert "a tombstone" in result.bad[0][1]
        assert row in result.bad[0][1]


NUMBERS = st.one_of(
    st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none(), st.text()
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), NUMBERS))
def test_the_fast_parser_says_the_same_as_the_exact_one(row: dict[str, Any]) -> None:
    line = json.dumps(row).encode()
    exact, fast = parse_line(line), parse_message(line, frozenset({"c"}))
    for name, value in row.items():
        if isinstance(value, float):
            assert float(fast[name]) == float(exact[name])  # type: ignore[arg-type]
        else:
            assert fast[name] == exact[name]
    assert fast.get("c") == exact.get("c")  # a column of text: its very digits


def test_a_decoder_of_the_users_own_names_bad_messages_in_its_error_column() -> None:
    def decode(batch: pa.RecordBatch) -> pa.Table:
        values = batch.column("value").to_pylist()
        return pa.table(
            {
                "n": [len(value) for value in values],
                "_error": ["too long" if len(value) > 1 else None for value in values],
            }
        )

    result = OwnDecoder(decode, None, ".").decode(messages(b"a", b"bb", b"c"))
    assert (result.rows.to_pylist(), result.numbers.to_pylist(), result.bad) == (
        [{"n": 1}, {"n": 1}],
        [0, 2],
        [(1, "too long")],
    )


@pytest.mark.parametrize("given_rows", [pa.table({"n": [1]}), [1, 2]])
def test_a_decoder_that_gives_something_else_than_a_row_for_each_message_is_refused(given_rows: Any) -> None:
    with raises(PipelineError, problem="decoder"):
        OwnDecoder(lambda _: given_rows, None, ".").decode(messages(b"a", b"b"))
