"""A pipeline that is declared wrongly is refused where it is declared."""

from __future__ import annotations

from typing import Any

import pytest

from frazil import Table, column, pipeline, sources
from frazil.errors import DeclarationError
from frazil.pipelines.sources import OWN_OP
from tests.kit.raising import raises

TARGET = Table("l.t", column("id", "long"), column("day", "date"), partition_by=["day"])
FLAT = Table("l.flat", column("id", "long"))
TOPIC = sources.kafka("events", servers="127.0.0.1:9092")
KEYED = sources.kafka("events", servers="127.0.0.1:9092", message_key="text")


def declare(**options: Any) -> Any:
    @pipeline(**{"source": sources.csv("*.csv"), "target": TARGET, **options})
    def load(frame: Any) -> Any:
        return frame

    return load


def test_rules_are_kept_as_declared() -> None:
    result = declare(
        key=["id"], order_by="day", mode="replace-partition", max_bad_share=0.01, drift="evolve", name="daily"
    )
    assert (result.name, result.key, result.order_by, result.mode, result.max_bad_share, result.drift) == (
        "daily",
        ("id",),
        ("day",),
        "replace-partition",
        0.01,
        "evolve",
    )
    assert result("frame") == "frame"


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"key": ["x"]}, {"option": "key", "column": "x"}),
        ({"order_by": "day"}, {"option": "order_by", "problem": "no-key"}),
        ({"mode": "merge"}, {"option": "mode", "got": "merge"}),
        ({"drift": "ignore"}, {"option": "drift", "got": "ignore"}),
        ({"mode": "replace-partition", "target": FLAT}, {"option": "mode", "problem": "no-partitions"}),
        ({"max_bad_share": 5}, {"option": "max_bad_share", "got": 5}),
        ({"source": TOPIC, "key": ["id"]}, {"option": "key", "problem": "kafka"}),
        (
            {"source": TOPIC, "mode": "replace-partition"},
            {"option": "mode", "problem": "kafka"},
        ),
        ({"source": TOPIC, "drift": "evolve"}, {"option": "drift", "problem": "kafka"}),
        ({"source": TOPIC, "mode": "upsert"}, {"option": "key", "problem": "missing"}),
        (
            {"source": TOPIC, "mode": "upsert", "key": ["id"], "sequence": "x"},
            {"option": "sequence", "column": "x"},
        ),
        ({"source": TOPIC, "op": "op"}, {"option": "sequence", "problem": "not-applicable"}),
        ({"source": KEYED}, {"option": "message_key", "problem": "mode"}),
        (
            {"source": KEYED, "mode": "upsert", "key": ["id"], "sequence": "day"},
            {"option": "sequence", "got": "day", "problem": "message-key"},
        ),
        (
            {"source": KEYED, "mode": "upsert", "key": ["id", "day"]},
            {"option": "message_key", "got": "text", "problem": "key"},
        ),
        ({"on_change": "ignore"}, {"option": "on_change", "got": "ignore", "problem": None}),
        ({"on_change": "replace"}, {"option": "on_change", "got": "replace", "problem": "mode"}),
        (
            {"on_change": "append", "mode": "replace-partition"},
            {"option": "on_change", "got": "append", "problem": "mode"},
        ),
        ({"source": TOPIC, "on_change": "append"}, {"option": "on_change", "problem": "kafka"}),
        ({"branch": "main"}, {"option": "branch", "got": "main"}),
        ({"audit": ["SELECT id FROM l.t"]}, {"option": "audit", "check": "SELECT id FROM l.t"}),
    ],
)
def test_a_rule_that_cannot_hold_is_refused_by_name(options: dict[str, Any], facts: dict[str, Any]) -> None:
    with raises(DeclarationError, pipeline="load", **facts):
        declare(**options)


def test_tombstones_are_marked_by_a_column_of_their_own_unless_one_is_named() -> None:
    result = [declare(source=KEYED, mode="upsert", key=["id"], op=op) for op in (None, "kind")]
    assert [item.deciding_columns for item in result] == [(OWN_OP,), ("kind",)]


@pytest.mark.parametrize(
    ("topics", "options", "facts"),
    [
        ((), {}, {"option": "topics", "problem": "missing"}),
        (("a",), {"pattern": "a.*"}, {"option": "topics", "problem": "exclusive"}),
        (("a b",), {}, {"option": "topics", "got": "a b"}),
        (("a",), {"decode": "avro"}, {"option": "decode", "got": "avro"}),
        (("a",), {"data_loss": "ignore"}, {"option": "data_loss", "got": "ignore"}),
        (("a",), {"max_messages": 0}, {"option": "max_messages", "got": 0}),
        (("a",), {"message_key": "avro"}, {"option": "message_key", "got": "avro", "problem": None}),
        (("a",), {"message_key": "text", "decode": "none"}, {"option": "message_key", "problem": "not-applicable"}),
    ],
)
def test_a_kafka_source_that_cannot_work_is_refused_by_name(
    topics: tuple[str, ...], options: dict[str, Any], facts: dict[str, Any]
) -> None:
    with raises(DeclarationError, **facts):
        sources.kafka(*topics, servers="127.0.0.1:9092", **options)


def test_an_audit_is_one_check_or_several_on_a_branch_of_the_pipelines_own() -> None:
    assert (declare(audit="id > 0").audit, declare().branch) == (("id > 0",), "audit-load")


# --- over tables -----------------------------------------------------------------------------------------------------

ORDERS = sources.table("s.orders")
CUSTOMERS = sources.table("s.customers", full=True)
JDBC = sources.spark("jdbc", url="jdbc:...", dbtable="orders")


def join(**options: Any) -> Any:
    @pipeline(**{"source": {"orders": ORDERS, "customers": CUSTOMERS}, "target": TARGET, **options})
    def joined(orders: Any, customers: Any) -> Any:
        return (orders, customers)

    return joined


def test_a_pipeline_over_several_tables_gets_a_frame_by_name() -> None:
    declared = join(tags="daily", group="gold")
    assert (declared.inputs, declared.driving) == ({"orders": ORDERS, "customers": CUSTOMERS}, ("orders",))
    assert (declared.tags, declared.group, declared.is_over_tables) == (("daily",), "gold", True)
    assert declared(customers=1, orders=2) == (2, 1)


def test_changes_of_a_table_say_themselves_what_is_deleted() -> None:
    changes = {"orders": sources.table("s.o", changes=True), "customers": CUSTOMERS}
    declared = [join(source=changes, mode="upsert", key=["id"], **options) for options in ({}, {"op": "kind"})]
    assert [each.op for each in [*declared, join(source=changes)]] == ["_change_type", "kind", None]


def test_a_single_table_is_named_as_the_parameter() -> None:
    declared = declare(source=ORDERS)
    assert (declared.inputs, declared.driving) == ({"frame": ORDERS}, ("frame",))


def test_a_pipeline_of_files_has_no_inputs_among_tables() -> None:
    declared = declare()
    assert (declared.inputs, declared.driving, declared.is_over_tables) == ({}, (), False)


def test_a_rebuild_reads_all_inputs_in_full() -> None:
    both = {"orders": ORDERS, "customers": sources.table("s.customers")}
    declared = join(source=both, mode="rebuild")
    assert (list(declared.inputs), declared.driving) == (["orders", "customers"], ())


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"source": "landing/*.csv"}, {"option": "source", "got": "str"}),
        ({"source": {}}, {"option": "source", "got": {}}),
        ({"source": {"orders": ORDERS, "customers": sources.csv("*.csv")}}, {"name": "customers", "got": "FileSource"}),
        ({"source": {"orders": ORDERS}}, {"option": "source", "name": "customers", "problem": "parameters"}),
        ({"source": {"orders": ORDERS, "clients": CUSTOMERS}}, {"name": "clients", "problem": "parameters"}),
        ({"source": {"orders": ORDERS, "customers": ORDERS}}, {"got": ["orders", "customers"], "problem": "driving"}),
        ({"source": {"orders": JDBC, "customers": CUSTOMERS}}, {"got": "append", "problem": "full"}),
        (
            {"source": {"orders": sources.table("l.t"), "customers": CUSTOMERS}},
            {"name": "orders", "problem": "cycle"},
        ),
        (
            {"source": {"orders": sources.table("s.o", changes=True), "customers": CUSTOMERS}, "mode": "rebuild"},
            {"name": "orders", "problem": "changes"},
        ),
        ({"drift": "evolve"}, {"option": "drift", "problem": "not-applicable"}),
        ({"on_change": "append"}, {"option": "on_change", "problem": "not-applicable"}),
        ({"tags": ["tag:x"]}, {"option": "tags", "got": "tag:x"}),
    ],
)
def test_wrong_inputs_are_refused(options: dict[str, Any], facts: dict[str, Any]) -> None:
    with raises(DeclarationError, **facts):
        join(**options)


@pytest.mark.parametrize("source", [sources.csv("*.csv"), TOPIC])
def test_files_and_topics_are_not_rebuilt(source: Any) -> None:
    with raises(DeclarationError, option="mode", got="rebuild"):
        declare(source=source, mode="rebuild")
