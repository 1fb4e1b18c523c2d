"""A pipeline that is declared wrongly is refused where it is declared."""

from __future__ import annotations

from typing import Any

import pytest

from frazil import Table, column, pipeline, sources
from frazil.errors import DeclarationError
from frazil.pipelines.sources import OWN_OP

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
    ("options", "message"),
    [
        ({"key": ["x"]}, r"key names column 'x', which l.t does not have; it has id, day"),
        ({"order_by": "day"}, r"no key is given"),
        ({"mode": "merge"}, r"mode is 'merge', expected one of append, replace-partition"),
        ({"drift": "ignore"}, r"drift is 'ignore', expected one of evolve, freeze, quarantine"),
        ({"mode": "replace-partition", "target": FLAT}, r"l.flat has no partitions"),
        ({"max_bad_share": 5}, r"max_bad_share is 5, expected a share from 0 to 1"),
        ({"source": TOPIC, "key": ["id"]}, r"key compares the rows of one load, and a topic has no loads"),
        (
            {"source": TOPIC, "mode": "replace-partition"},
            r"'replace-partition' replaces what the load before has brought",
        ),
        ({"source": TOPIC, "drift": "evolve"}, r"drift 'evolve' is for files"),
        ({"source": TOPIC, "mode": "upsert"}, r"mode 'upsert' needs a key"),
        (
            {"source": TOPIC, "mode": "upsert", "key": ["id"], "sequence": "x"},
            r"sequence names column 'x', which l.t does not have",
        ),
        ({"source": TOPIC, "op": "op"}, r"sequence and op are for mode='upsert'"),
        ({"source": KEYED}, r"only mode 'upsert' deletes rows"),
        ({"source": KEYED, "mode": "upsert", "key": ["id"], "sequence": "day"}, r"a tombstone has no 'day'"),
        (
            {"source": KEYED, "mode": "upsert", "key": ["id", "day"]},
            r"message_key is 'text', .* and the key has 2 columns",
        ),
        ({"on_change": "ignore"}, r"on_change is 'ignore', expected one of error, append, replace"),
        ({"on_change": "replace"}, r"mode 'append' cannot find the rows that a file brought before"),
        (
            {"on_change": "append", "mode": "replace-partition"},
            r"on_change is 'append', but mode 'replace-partition' replaces rows",
        ),
        ({"source": TOPIC, "on_change": "append"}, r"on_change is for files, and the source is Kafka"),
        ({"branch": "main"}, r"'main' cannot name the branch of an audit"),
        ({"audit": ["SELECT id FROM l.t"]}, r"the audit query 'SELECT id FROM l.t' does not say {table}"),
    ],
)
def test_a_rule_that_cannot_hold_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=rf"pipeline 'load': .*{message}"):
        declare(**options)


def test_tombstones_are_marked_by_a_column_of_their_own_unless_one_is_named() -> None:
    result = [declare(source=KEYED, mode="upsert", key=["id"], op=op) for op in (None, "kind")]
    assert [item.deciding_columns for item in result] == [(OWN_OP,), ("kind",)]


@pytest.mark.parametrize(
    ("topics", "options", "message"),
    [
        ((), {}, "needs topics, or a pattern of topics"),
        (("a",), {"pattern": "a.*"}, "and not both"),
        (("a b",), {}, "'a b' cannot name a topic"),
        (("a",), {"decode": "avro"}, "decode is 'avro', expected 'json', 'none', or a function"),
        (("a",), {"data_loss": "ignore"}, "data_loss is 'ignore', expected one of stop, accept"),
        (("a",), {"max_messages": 0}, "max_messages is 0, expected 1 or more"),
        (("a",), {"message_key": "avro"}, "message_key is 'avro', expected one of json, text"),
        (("a",), {"message_key": "text", "decode": "none"}, "message_key is for decode='json'"),
    ],
)
def test_a_kafka_source_that_cannot_work_is_refused_by_name(
    topics: tuple[str, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DeclarationError, match=message):
        sources.kafka(*topics, servers="127.0.0.1:9092", **options)


def test_an_audit_is_one_check_or_several_on_a_branch_of_the_pipelines_own() -> None:
    assert (declare(audit="id > 0").audit, declare().branch) == (("id > 0",), "audit-load")
