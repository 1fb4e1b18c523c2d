"""Wrong arguments of the Python API: each is an error of ours that names the argument and what is expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import frazil
import frazil.sinks
import frazil.sinks.spark
from frazil.errors import ArgumentError, FrazilError, HistoryError, NoSuchNamespace, ScanError, SinkError, Unavailable
from frazil.lake import Lake, LakeTable
from frazil.pipelines.upsert import UpsertFrames
from tests.contract.history_lake import Past
from tests.kit.raising import raises

Call = Callable[[Any, Any], Any]  # a lake and its table, untyped: the type checker would refuse these calls

WRONG: list[tuple[str, Call, type[FrazilError]]] = [
    ("name", lambda lake, _: lake.table(None), ArgumentError),
    ("name", lambda lake, _: lake.table(("a", 3)), ArgumentError),
    ("name", lambda lake, _: lake.table(("a.b", "c")), ArgumentError),
    ("name", lambda lake, _: lake.table("a..b"), ArgumentError),
    ("name", lambda lake, _: lake.table(".b"), ArgumentError),
    ("name", lambda lake, _: lake.table(""), ArgumentError),
    ("namespace", lambda lake, _: lake.tables(3), ArgumentError),
    ("namespace", lambda lake, _: lake.tables(""), ArgumentError),
    ("query", lambda lake, _: lake.sql(None), ArgumentError),
    ("declared", lambda lake, _: lake.apply("x"), ArgumentError),
    ("declared", lambda lake, _: lake.apply(None), ArgumentError),
    ("declared", lambda lake, _: lake.plan(["x"]), ArgumentError),
    ("pipeline", lambda lake, _: lake.run(3), ArgumentError),
    ("pipeline", lambda lake, _: lake.run(None), ArgumentError),
    ("uri", lambda *_: frazil.connect(3), ArgumentError),  # type: ignore[arg-type]
    ("table", lambda lake, _: lake.sink("nope", name="s"), SinkError),
    ("table", lambda lake, _: lake.sink("a..b", name="s"), SinkError),
    ("table", lambda lake, _: lake.sink(None, name="s"), SinkError),
    ("name", lambda _, table: table.sink(), SinkError),
    ("table", lambda *_: frazil.sinks.open(None), SinkError),  # type: ignore[call-overload]
    ("table", lambda *_: frazil.sinks.open("nope", host="bytewax"), SinkError),
    ("catalog", lambda *_: frazil.sinks.open("a.b", name="s", catalog=3), SinkError),
    ("table", lambda lake, _: frazil.sinks.spark.open("nope", name="s", catalog=lake), SinkError),
    ("table", lambda lake, _: UpsertFrames("nope", name="s", key="id", catalog=lake), SinkError),
    ("key", lambda _, table: table.upsert([{"id": 1}], key=3), ArgumentError),
    ("key", lambda _, table: table.sink(name="s", mode="upsert", key=3), ArgumentError),
    ("filter", lambda _, table: table.scan(3), ArgumentError),
    ("filter", lambda _, table: table.delete(3), ArgumentError),
    ("columns", lambda _, table: table.scan(columns=3), ArgumentError),
    ("columns", lambda _, table: table.scan(columns=[3]), ArgumentError),
    ("key", lambda _, table: table.diff_rows("main", key=3), ArgumentError),
    ("limit", lambda _, table: table.scan(limit="3"), ScanError),
    ("limit", lambda _, table: table.history(limit="3"), HistoryError),
    ("at", lambda _, table: table.rollback(None), ArgumentError),
    ("at", lambda _, table: table.scan(at=[]), ArgumentError),
    ("at", lambda _, table: table.diff(1.5), ArgumentError),
    ("branch", lambda _, table: table.append({"id": 2}, branch=None), ArgumentError),
    ("branch", lambda _, table: table.sink(name="s", branch=3), ArgumentError),
    ("ref", lambda _, table: table.history(ref=None), ArgumentError),
    ("ref", lambda _, table: table.publish(3), ArgumentError),
    ("ref", lambda _, table: table.drop_tag(None), ArgumentError),
    ("name", lambda _, table: table.create_branch(None), ArgumentError),
    ("name", lambda _, table: table.create_tag(3), ArgumentError),
    ("choice", lambda _, table: table.quarantine.drop("x"), ArgumentError),
    ("choice", lambda _, table: table.quarantine.drop(None), ArgumentError),
    ("choice", lambda _, table: table.quarantine.rows("x"), ArgumentError),
    ("rules", lambda _, table: table.quarantine.replay("x"), ArgumentError),
]


@pytest.mark.parametrize(("argument", "call", "error"), WRONG)
def test_a_wrong_argument_is_named_with_what_is_expected(
    past: Past, argument: str, call: Call, error: type[FrazilError]
) -> None:
    past.append(1)
    before = past.live.metadata
    with raises(error, option=argument) as refused:
        call(Lake(catalog=past.catalog), past.table)
    assert "expected" in refused.value.message
    assert past.live.metadata == before


def test_a_table_is_named_by_a_tuple_too(past: Past) -> None:
    namespace, _, name = past.name.rpartition(".")
    table = Lake(catalog=past.catalog).table((namespace, name))
    assert isinstance(table, LakeTable)
    assert (table.name, table.schema) == (past.name, past.live.schema())


def test_tables_of_a_namespace_that_does_not_exist_is_an_error(past: Past) -> None:
    lake = Lake(catalog=past.catalog)
    namespace = past.name.partition(".")[0]
    assert past.name in [table.name for table in lake.tables(namespace)]
    assert past.name in [table.name for table in lake.tables((namespace,))]
    with raises(NoSuchNamespace, name=f"{namespace}s") as refused:
        lake.tables(f"{namespace}s")
    assert namespace in (refused.value.hint or "")


def test_an_error_of_connect_says_that_the_value_is_its_argument() -> None:
    with pytest.raises(Unavailable) as refused:
        frazil.connect("http://127.0.0.1:1")
    assert "argument of connect()" in refused.value.message
