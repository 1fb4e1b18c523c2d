"""Wrong options are errors when the sink is opened, on every host."""

from __future__ import annotations

import re
from typing import Any

import pytest

import frazil.sinks
from frazil.errors import SinkError
from frazil.sinks import SinkOptions
from frazil.sinks.bytewax import IcebergSinkConfig
from frazil.sinks.python import sink_options
from frazil.sinks.spark.driver import foreach_batch, frame_options
from tests.kit.raising import raises

WRONG: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"bad_rows": "error"}, {"option": "bad_rows", "expected": re.compile("^one of quarantine, stop")}),
    ({"bad_rows": None}, {"option": "bad_rows", "expected": re.compile("^one of quarantine, stop")}),
    ({"extra_fields": "drop"}, {"option": "extra_fields", "expected": re.compile("^one of error, ignore, evolve")}),
    ({"extra_fields": ["error"]}, {"option": "extra_fields", "expected": re.compile("^one of error, ignore, evolve")}),
    ({"check": ["id > 0"]}, {"option": "check", "hint": re.compile("did you mean 'checks'")}),
    ({"budget_byte": 5}, {"option": "budget_byte", "hint": re.compile("did you mean 'budget_bytes'")}),
    ({"nonsense": 3}, {"option": "nonsense", "hint": re.compile("^the options are ")}),
    ({"budget_bytes": 0}, {"option": "budget_bytes", "expected": re.compile("^a whole number from 1")}),
    ({"budget_bytes": "64"}, {"option": "budget_bytes", "expected": re.compile("^a whole number from 1")}),
    ({"checks": None}, {"option": "checks", "expected": re.compile("^an SQL condition, or a list of them")}),
    ({"checks": ["id > 0", 5]}, {"option": "checks", "expected": re.compile("^an SQL condition, or a list of them")}),
    ({"spool_folder": 5}, {"option": "spool_folder", "expected": re.compile("^a folder, or None")}),
]
WRONG_FLUSH: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"flush_rows": 0}, {"option": "flush_rows", "expected": re.compile("^a whole number from 1, or None")}),
    ({"flush_rows": True}, {"option": "flush_rows"}),
    ({"flush_rows": 1.5}, {"option": "flush_rows"}),
    ({"flush_bytes": -1}, {"option": "flush_bytes"}),
    (
        {"flush_seconds": -1},
        {"option": "flush_seconds", "expected": re.compile("seconds from 0, or None")},
    ),
    ({"flush_seconds": float("nan")}, {"option": "flush_seconds"}),
    ({"threads": 0}, {"option": "threads"}),
]
WRONG_CALL: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"mode": "merge"}, {"option": "mode", "expected": re.compile("^one of append, upsert")}),
    ({"mode": None}, {"option": "mode", "expected": re.compile("^one of append, upsert")}),
    ({"part": -1}, {"option": "part", "expected": re.compile("^a whole number from 0")}),
    ({"part": "0"}, {"option": "part", "expected": re.compile("^a whole number from 0")}),
    ({"part": True}, {"option": "part", "expected": re.compile("^a whole number from 0")}),
    ({"name": ""}, {"option": "name", "expected": re.compile("^the name of the stream")}),
    ({"name": None}, {"option": "name", "expected": re.compile("^the name of the stream")}),
    ({"uri": "http://127.0.0.1:1"}, {"option": "uri"}),
    ({"branches": "b"}, {"option": "branches", "hint": re.compile("did you mean 'branch'")}),
]


WRONG_FOR_DELTA: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"key": "id"}, {"option": "mode"}),
    ({"mode": "upsert", "key": "id"}, {"option": "mode"}),
    ({"branch": "dev"}, {"option": "branch"}),
]


class Unreachable:
    """A catalog that must not be asked for anything."""

    def load_table(self, identifier: Any) -> Any:
        raise AssertionError(f"table {identifier} was loaded before the options were checked")


@pytest.mark.parametrize(("options", "facts"), [*WRONG, *WRONG_FLUSH, *WRONG_CALL])
def test_a_wrong_option_is_an_error_before_the_table_is_loaded(options: dict[str, Any], facts: dict[str, Any]) -> None:
    with raises(SinkError, **facts):
        frazil.sinks.open("lake.t", **{"name": "s", "catalog": Unreachable(), **options})


@pytest.mark.parametrize(("options", "facts"), [*WRONG, *WRONG_FLUSH, *WRONG_CALL, *WRONG_FOR_DELTA])
def test_the_same_for_delta(options: dict[str, Any], facts: dict[str, Any]) -> None:
    with raises(SinkError, **facts):
        frazil.sinks.open("/nowhere/t", **{"name": "s", **options})


WRONG_STREAM: list[tuple[dict[str, Any], dict[str, Any]]] = [
    *(case for case in WRONG if "check" not in case[0]),  # `check` is a parameter of its own there
    ({"flush_rows": 5}, {"option": "flush_rows"}),
    ({"name": ""}, {"option": "name"}),
]


@pytest.mark.parametrize(("options", "facts"), WRONG_STREAM)
def test_the_same_for_a_stream_of_spark_before_its_first_batch(options: dict[str, Any], facts: dict[str, Any]) -> None:
    with raises(SinkError, **facts):
        foreach_batch("lake.t", **{"name": "s", "catalog": Unreachable(), **options})


@pytest.mark.parametrize(("options", "facts"), [*WRONG, *WRONG_FLUSH])
def test_the_same_for_bytewax_when_it_is_configured(options: dict[str, Any], facts: dict[str, Any]) -> None:
    with raises(SinkError, **facts):
        IcebergSinkConfig("http://127.0.0.1:1", "rest", None, "lake.t", options=options)  # type: ignore[arg-type]


def test_options_made_by_hand_are_checked_too() -> None:
    with raises(SinkError, option="bad_rows"):
        SinkOptions(bad_rows="error")  # type: ignore[arg-type]


def test_a_single_text_is_one_check() -> None:
    assert sink_options(checks="id > 0").checks == frame_options(checks="id > 0").checks == ("id > 0",)
    assert sink_options(checks=["id > 0", "id < 9"]).checks == ("id > 0", "id < 9")


def test_what_may_be_left_open_is_none() -> None:
    chosen = sink_options(
        flush_rows=None, flush_bytes=None, flush_seconds=None, spool_folder=None, budget_bytes=1, threads=1
    )
    assert (chosen.flush.rows, chosen.flush.bytes, chosen.flush.seconds) == (None, None, None)
