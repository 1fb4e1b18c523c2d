"""Every edge of the uplink transformation: what becomes of a message, whatever it looks like."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.uplink.events import EARLIEST_MS, LATEST_MS, SCHEMA, flatten, parse
from examples.uplink.messages import START_MS, make_messages, message_id, message_name
from frazil.project import load_project
from frazil.write.files.schema import arrow_schema

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/uplink"


def message(**event: Any) -> bytes:
    """A good message, with fields of its event put in."""
    whole = {"type": "telemetry", "timestamp": 1_713_139_200_123, "payload": {"n": 1}} | event
    return json.dumps({"device": {"id": "d-1", "organization_id": "o-1"}, "event": whole}).encode()


def row(text: bytes | None) -> dict[str, Any]:
    """The one row of one message."""
    (only,) = flatten([text]).to_pylist()
    return dict(only)


def fault(text: bytes) -> str:
    """What is wrong with a message; its raw text must be kept."""
    result = row(text)
    assert result["raw"] == text.decode(errors="backslashreplace")
    assert isinstance(result["error"], str)
    return result["error"]


def test_a_message_is_flattened() -> None:
    assert row(message()) == {
        "device_id": "d-1",
        "organization_id": "o-1",
        "event_timestamp": dt.datetime(2024, 4, 15, 0, 0, 0, 123_000),
        "event_type": "telemetry",
        "payload": '{"n":1}',
        "error": None,
        "raw": None,
    }


def test_rows_have_the_types_of_the_declared_table() -> None:
    (declared,) = load_project(EXAMPLE).tables
    assert arrow_schema(declared.schema()).remove_metadata() == SCHEMA
    assert [field.type for field in arrow_schema(declared.schema())] == SCHEMA.types
    assert str(declared.partition_spec().fields[0].transform) == "day"


def test_no_messages_are_no_rows() -> None:
    assert flatten([]) == pa.RecordBatch.from_pylist([], schema=SCHEMA)


def test_a_bad_message_between_good_ones_keeps_its_place() -> None:
    assert flatten([message(), b"?", message()])["raw"].to_pylist() == [None, "?", None]


@pytest.mark.parametrize(("text", "error"), [(b"", "the message is empty"), (None, "the message has no value")])
def test_an_empty_message_and_a_tombstone_are_rows(text: bytes | None, error: str) -> None:
    assert row(text) == dict.fromkeys(SCHEMA.names) | {"error": error, "raw": ""}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"hello", "not JSON: unexpected character, expected a JSON value: line 1 column 1 (char 0)"),
        (b" ", "not JSON: "),
        (b"\xef\xbb\xbf{}", "not JSON: UTF-8 byte order mark"),
        (message()[:-1], "not JSON: "),
        (message() + b"{}", "not JSON: unexpected content after document"),
        (message() + b"\0", "not JSON: unexpected content after document"),
        (b"\0" + message(), "not JSON: "),
        (message(type="\x00").replace(b"\\u0000", b"\0"), "not JSON: unexpected control character in string"),
        (message(type="é").replace(b"\\u00e9", b"\xe9"), "not JSON: str is not valid UTF-8"),
        (message(type="\ud800"), "not JSON: no low surrogate in string"),
        (
            message(type="é").replace(b"\\u00e9", b"\xed\xa0\x80"),
            "not JSON: str is not valid UTF-8: surrogates not allowed",
        ),
        (message(timestamp=float("nan")), "not JSON: "),
        (b"[" * 2000 + b"]" * 2000, "not JSON: depth limit exceeded"),
        (b"null", "expected an object, got null"),
        (b'[{"device": 1}]', 'expected an object, got [{"device": 1}]'),
        (b'"' + b"x" * 200 + b'"', 'expected an object, got "' + "x" * 56 + "..."),
        (b"[" * 1000 + b"]" * 1000, "expected an object, got "),
    ],
)
def test_what_is_no_json_object_is_a_row_of_error_and_raw(text: bytes, error: str) -> None:
    result = row(text)
    assert result["error"].startswith(error)
    assert {name for name, value in result.items() if value is not None} == {"error", "raw"}
    assert result["raw"] == text.decode(errors="backslashreplace")


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({}, "device: missing; event: missing"),
        ({"device": None, "event": []}, "device: expected an object, got null; event: expected an object, got []"),
        ({"device": {}, "event": {}}, "device.id: missing; event.timestamp: missing; event.type: missing"),
        ({"device": {"id": None}, "event": {"type": "t", "timestamp": 1}}, "device.id: missing"),
        ({"device": {"id": 17}, "event": {"type": "t", "timestamp": 1}}, "device.id: expected text, got 17"),
        (
            {"device": {"id": "d", "organization_id": {"a": 1}}, "event": {"type": "t", "timestamp": 1}},
            'device.organization_id: expected text, got {"a": 1}',
        ),
        ({"device": {"id": "d"}, "event": {"type": ["t"], "timestamp": 1}}, 'event.type: expected text, got ["t"]'),
    ],
)
def test_fields_that_are_missing_or_of_another_type_are_named(value: dict[str, Any], error: str) -> None:
    assert fault(json.dumps(value).encode()) == error


def test_what_could_be_read_of_a_faulty_message_is_kept() -> None:
    result = row(message(timestamp="now"))
    assert result | {"raw": None} == {
        "device_id": "d-1",
        "organization_id": "o-1",
        "event_timestamp": None,
        "event_type": "telemetry",
        "payload": '{"n":1}',
        "error": 'event.timestamp: expected whole milliseconds since 1970, got "now"',
        "raw": None,
    }


def test_organization_and_payload_may_be_missing() -> None:
    result = row(b'{"device": {"id": "d"}, "event": {"type": "t", "timestamp": 0}}')
    assert (result["organization_id"], result["payload"], result["error"], result["raw"]) == (None, None, None, None)


def test_fields_that_are_not_known_do_no_harm() -> None:
    assert row(message(more=1))["error"] is None


@pytest.mark.parametrize(
    ("value", "time"),
    [
        (0, dt.datetime(1970, 1, 1)),
        (-1, dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)),
        (-86_400_000, dt.datetime(1969, 12, 31)),
        (1_713_139_200_123.0, dt.datetime(2024, 4, 15, 0, 0, 0, 123_000)),
        (1.7e12, dt.datetime(2023, 11, 14, 22, 13, 20)),
        (EARLIEST_MS, dt.datetime(1, 1, 1)),
        (LATEST_MS, dt.datetime(9999, 12, 31, 23, 59, 59, 999_000)),
    ],
)
def test_milliseconds_become_a_time_in_utc_without_a_zone(value: float, time: dt.datetime) -> None:
    assert row(message(timestamp=value))["event_timestamp"] == time
    assert flatten([message(timestamp=value)]).schema.field("event_timestamp").type == pa.timestamp("us")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, "true"), (False, "false"), ("1713139200123", '"1713139200123"'), (1.5, "1.5"), ([], "[]"), ({}, "{}")],
)
def test_what_is_no_whole_number_is_no_time(value: Any, shown: str) -> None:
    assert fault(message(timestamp=value)) == f"event.timestamp: expected whole milliseconds since 1970, got {shown}"


@pytest.mark.parametrize("value", [EARLIEST_MS - 1, LATEST_MS + 1, -(2**63), 2**63, 10**30, -1e300])
def test_a_time_that_no_engine_can_show_is_a_fault(value: float) -> None:
    assert fault(message(timestamp=value)).endswith("is outside the years 1 to 9999")


def test_of_a_key_that_comes_twice_the_last_counts() -> None:
    text = message().replace(b'"id": "d-1"', b'"id": "d-0", "id": "d-1"').replace(b'{"n": 1}', b'{"n": 0, "n": 1}')
    assert (row(text)["device_id"], row(text)["payload"], row(text)["error"]) == ("d-1", '{"n":1}', None)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"b": {"c": [1, {"d": None}]}, "a": "é"}, '{"b":{"c":[1,{"d":null}]},"a":"é"}'),
        ([1, 2.5], "[1,2.5]"),
        ("text", '"text"'),
        (0, "0"),
        (False, "false"),
        ({}, "{}"),
        (None, None),
        ({"nul": "a\x00b", "pair": "\U0001f600"}, '{"nul":"a\\u0000b","pair":"\U0001f600"}'),
        ({"n": 2**64, "m": -(2**63) - 1, "k": 10**40}, f'{{"n":{2**64},"m":{-(2**63) - 1},"k":{10**40}}}'),
    ],
)
def test_the_payload_of_whatever_kind_is_a_json_string(payload: Any, text: str | None) -> None:
    result = row(message(payload=payload))
    assert (result["payload"], result["error"]) == (text, None)


def nested(levels: int) -> bytes:
    return message(payload=0).replace(b'"payload": 0', b'"payload": ' + b"[" * levels + b"]" * levels)


def test_a_payload_that_is_nested_too_deeply_is_a_fault_and_one_that_is_just_deep_is_not() -> None:
    assert row(nested(254))["payload"] == "[" * 254 + "]" * 254
    assert fault(nested(255)) == "event.payload: nested more than 254 levels deep"
    assert fault(nested(900)) == "event.payload: nested more than 254 levels deep"


def test_a_number_of_any_length_is_kept_or_a_fault() -> None:
    def number(digits: bytes) -> bytes:
        return message(payload=0).replace(b'"payload": 0', b'"payload": ' + digits)

    assert row(number(b"9" * 300))["payload"] == "9" * 300
    assert row(number(b"[0." + b"9" * 5000 + b"]"))["payload"] == "[1.0]"
    assert fault(number(b"9" * 5000)).startswith("not JSON: number is infinity when parsed as double")


@pytest.mark.usefixtures("uncollected")
def test_large_numbers_in_a_message_that_is_nested_too_deeply_for_python_are_a_fault() -> None:
    text = message(payload=10**30, more=0).replace(b'"more": 0', b'"more": ' + b"[" * 1000 + b"]" * 1000)
    assert fault(text) == "the message is nested too deeply"


def test_nul_and_pairs_of_surrogates_in_names_are_kept() -> None:
    assert row(message(type="a\x00b \U0001f600"))["event_type"] == "a\x00b \U0001f600"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["device", "event", "id", "type", "timestamp", "payload"]), inner)
    ),
)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_every_message_is_one_row_and_faults_always_keep_the_raw_text(text: bytes) -> None:
    result = row(text)
    assert (result["error"] is None) == (result["raw"] is None)
    assert result["error"] is None or result["raw"] == text.decode(errors="backslashreplace")


@given(JSON)
def test_a_payload_reads_back_as_what_was_sent(value: Any) -> None:
    text = parse(message(payload=value)).payload
    assert (None if text is None else json.loads(text)) == value


def test_made_messages_repeat_and_carry_every_id_once() -> None:
    messages = list(make_messages(3000, seed=4))
    assert messages[1000:1010] == list(make_messages(10, first=1000, seed=4))
    assert messages[:10] != list(make_messages(10, seed=5))
    rows = flatten(messages).to_pylist()
    assert [message_id(item["payload"] or item["raw"]) for item in rows] == [message_name(n) for n in range(3000)]


def test_made_messages_are_of_every_kind() -> None:
    rows = flatten(make_messages(5000, seed=1, days=7))
    errors = {text.partition(":")[0] for text in rows["error"].drop_null().to_pylist()}
    assert errors == {"not JSON", "device.id", "event.timestamp"}
    assert 40 < len(rows) - rows["error"].null_count < 200
    days = {time.date() for time in rows["event_timestamp"].drop_null().to_pylist()}
    assert days == {dt.datetime.fromtimestamp(START_MS / 1000, dt.UTC).date() + dt.timedelta(days=n) for n in range(7)}


def test_the_payload_of_made_messages_is_what_was_sent() -> None:
    (text,) = make_messages(1, bad_share=0)
    assert orjson.loads(row(text)["payload"]) == orjson.loads(text)["event"]["payload"]
