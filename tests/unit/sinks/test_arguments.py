"""Wrong options are errors when the sink is opened, on every host."""

from __future__ import annotations

from typing import Any

import pytest

import frazil.sinks
from frazil.errors import SinkError
from frazil.sinks import SinkOptions
from frazil.sinks.bytewax import IcebergSinkConfig
from frazil.sinks.python import sink_options
from frazil.sinks.spark.driver import foreach_batch, frame_options
from tests.kit.raising import raises

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"bad_rows": "error"}, "option 'bad_rows' is 'error': expected one of quarantine, stop"),
    ({"bad_rows": None}, "option 'bad_rows' is None: expected one of quarantine, stop"),
    ({"extra_fields": "drop"}, "option 'extra_fields' is 'drop': expected one of error, ignore, evolve"),
    ({"extra_fields": ["error"]}, r"option 'extra_fields' is \['error'\]: expected one of error, ignore, evolve"),
    ({"check": ["id > 0"]}, "(?s)no option 'check'.*did you mean 'checks'"),
    ({"budget_byte": 5}, "(?s)no option 'budget_byte'.*did you mean 'budget_bytes'"),
    ({"nonsense": 3}, "(?s)no option 'nonsense'.*the options are "),
    ({"budget_bytes": 0}, "option 'budget_bytes' is 0: expected a whole number from 1"),
    ({"budget_bytes": "64"}, "option 'budget_bytes' is '64': expected a whole number from 1"),
    ({"checks": None}, "option 'checks' is None: expected an SQL condition, or a list of them"),
    ({"checks": ["id > 0", 5]}, "option 'checks' is .*: expected an SQL condition, or a list of them"),
    ({"spool_folder": 5}, "option 'spool_folder' is 5: expected a folder, or None"),
]
WRONG_FLUSH: list[tuple[dict[str, Any], str]] = [
    ({"flush_rows": 0}, "option 'flush_rows' is 0: expected a whole number from 1, or None"),
    ({"flush_rows": True}, "option 'flush_rows' is True"),
    ({"flush_rows": 1.5}, "option 'flush_rows' is 1.5"),
    ({"flush_bytes": -1}, "option 'flush_bytes' is -1"),
    ({"flush_seconds": -1}, "option 'flush_seconds' is -1: expected a number of seconds from 0, or None"),
    ({"flush_seconds": float("nan")}, "option 'flush_seconds' is nan"),
    ({"threads": 0}, "option 'threads' is 0"),
]
WRONG_CALL: list[tuple[dict[str, Any], str]] = [
    ({"mode": "merge"}, "option 'mode' is 'merge': expected one of append, upsert"),
    ({"mode": None}, "option 'mode' is None: expected one of append, upsert"),
    ({"part": -1}, "option 'part' is -1: expected a whole number from 0"),
    ({"part": "0"}, "option 'part' is '0': expected a whole number from 0"),
    ({"part": True}, "option 'part' is True: expected a whole number from 0"),
    ({"name": ""}, "option 'name' is '': expected the name of the stream"),
    ({"name": None}, "option 'name' is None: expected the name of the stream"),
    ({"uri": "http://127.0.0.1:1"}, "no option 'uri'"),
    ({"branches": "b"}, "(?s)no option 'branches'.*did you mean 'branch'"),
]


WRONG_FOR_DELTA: list[tuple[dict[str, Any], str]] = [
    ({"key": "id"}, "key, sequence and op are for mode='upsert'"),
    ({"mode": "upsert", "key": "id"}, "mode 'upsert' is for Iceberg tables"),
    ({"branch": "dev"}, "a Delta table has no branches"),
]


class Unreachable:
    """A catalog that must not be asked for anything."""

    def load_table(self, identifier: Any) -> Any:
        raise AssertionError(f"table {identifier} was loaded before the options were checked")


@pytest.mark.parametrize(("options", "problem"), [*WRONG, *WRONG_FLUSH, *WRONG_CALL])
def test_a_wrong_option_is_an_error_before_the_table_is_loaded(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(SinkError, match=problem):
        frazil.sinks.open("lake.t", **{"name": "s", "catalog": Unreachable(), **options})


@pytest.mark.parametrize(("options", "problem"), [*WRONG, *WRONG_FLUSH, *WRONG_CALL, *WRONG_FOR_DELTA])
def test_the_same_for_delta(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(SinkError, match=problem):
        frazil.sinks.open("/nowhere/t", **{"name": "s", **options})


WRONG_STREAM: list[tuple[dict[str, Any], str]] = [
    *(case for case in WRONG if "check" not in case[0]),  # `check` is a parameter of its own there
    ({"flush_rows": 5}, "no option 'flush_rows'"),
    ({"name": ""}, "option 'name' is ''"),
]


@pytest.mark.parametrize(("options", "problem"), WRONG_STREAM)
def test_the_same_for_a_stream_of_spark_before_its_first_batch(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(SinkError, match=problem):
        foreach_batch("lake.t", **{"name": "s", "catalog": Unreachable(), **options})


@pytest.mark.parametrize(("options", "problem"), [*WRONG, *WRONG_FLUSH])
def test_the_same_for_bytewax_when_it_is_configured(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(SinkError, match=problem):
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
