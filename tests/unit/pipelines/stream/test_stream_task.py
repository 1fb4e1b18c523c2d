"""What a task of a stream does with messages, without Spark and Kafka: files, quarantine with the place, and the
offsets seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from frazil import sources
from frazil.pipelines.files.reading import POSITION
from frazil.pipelines.files.text import TextContract
from frazil.pipelines.sources import OWN_OP
from frazil.pipelines.stream.decode import Decoder, JsonDecoder, Tombstones
from frazil.pipelines.stream.task import MessageRows, decode_messages
from frazil.pipelines.upsert.task import REPORT, ChangePlan
from frazil.sinks.spark.task import TaskPlan, TaskReport
from frazil.write.commit.quarantine_table import SCHEMA as QUARANTINE
from frazil.write.files.buffer import BufferLimits
from frazil.write.files.layout import TableLayout
from frazil.write.files.partitioning import partition_spec
from frazil.write.upsert.keys import ARRIVAL
from frazil.write.upsert.rules import DELETED, UpsertRules
from tests.kit.layouts import LayoutOf
from tests.unit.pipelines.test_file_task import SCHEMA, written

JSON = JsonDecoder(("id", "note"))


def plan_of(layout: TableLayout, decoder: Decoder | None = JSON) -> TaskPlan:
    quarantine = TableLayout(
        "lake.q", QUARANTINE, partition_spec(QUARANTINE, []), layout.order, f"{layout.location}__q", {}, {}
    )
    return TaskPlan(
        layout, "p", BufferLimits(threads=1), MessageRows(decoder), quarantine, ("id >= 0",), kind=TextContract
    )


def batch(*values: bytes | None, partition: int = 0, first: int = 10) -> pa.RecordBatch:
    count = len(values)
    return pa.record_batch(
        {
            "value": pa.array(values, pa.binary()),
            "topic": pa.array(["events"] * count),
            "partition": pa.array([partition] * count, pa.int32()),
            "offset": pa.array(range(first, first + count), pa.int64()),
        }
    )


BATCHES = [batch(b'{"id": 1}', b"?", b'{"id": "y"}', b'{"id": 2}'), batch(b'{"id": -1, "note": "n"}', partition=1)]
PLACES = [
    {"topic": "events", "partition": 0, "offset": 11},
    {"topic": "events", "partition": 0, "offset": 12},
    {"topic": "events", "partition": 1, "offset": 10},
]


def test_messages_are_rows_and_bad_ones_are_quarantined_with_topic_partition_and_offset(layout_of: LayoutOf) -> None:
    report = plan_of(layout_of(SCHEMA)).run(BATCHES, task=0)
    assert written(report.files) == [{"id": 1, "note": None}, {"id": 2, "note": None}]
    result = written(report.quarantine_files)
    assert [json.loads(str(row["position"])) for row in result] == PLACES
    assert [json.loads(str(row["raw"])) for row in result] == [
        {"message": "?"},
        {"id": "y", "note": None},
        {"id": "-1", "note": "n"},
    ]
    assert report.seen == {"events/0": (10, 13), "events/1": (10, 10)}


def test_decoded_by_one_task_and_written_by_another_it_is_the_same(layout_of: LayoutOf) -> None:
    plan, reports = plan_of(layout_of(SCHEMA)), list[TaskReport]()
    rows = list(decode_messages(plan, BATCHES, task=0, on_end=reports.append))
    assert [value for row in rows for value in row.column(POSITION).to_pylist()] == [
        "events/0/10",
        "events/0/12",
        "events/0/13",
        "events/1/10",
    ]
    (decoded,), wrote = reports, plan_of(layout_of(SCHEMA), None).run(rows, task=0)
    joined = TaskReport.from_json(decoded.to_json()) + TaskReport.from_json(wrote.to_json())
    assert (joined.counts.rows, joined.counts.refused, joined.seen) == (
        2,
        3,
        {"events/0": (10, 13), "events/1": (10, 10)},
    )
    places = [json.loads(str(row["position"])) for row in written(joined.quarantine_files)]
    assert sorted(places, key=str) == sorted(PLACES, key=str)


def test_a_task_that_fails_leaves_no_file(layout_of: LayoutOf, tmp_path: Path) -> None:
    layout = layout_of(SCHEMA)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from BATCHES
        raise RuntimeError("away")

    with pytest.raises(RuntimeError):
        plan_of(layout).run(failing(), task=0)
    assert list(tmp_path.rglob("*.parquet")) == []


def test_messages_are_changes_with_their_offsets_and_bad_ones_are_quarantined(layout_of: LayoutOf) -> None:
    decoder = JsonDecoder(("id", "note", "op"))
    plan = ChangePlan(plan_of(layout_of(SCHEMA), decoder), UpsertRules.of("id", op="op"))
    messages = [
        b'{"id": 1, "op": "u"}',
        b"?",
        b'{"id": 2, "op": "d"}',
        b'{"id": 3, "op": "x"}',
        b'{"op": "d"}',
        b'{"id": -1, "op": "d"}',
    ]
    *changes, last = (row for item in plan.run([batch(*messages)], task=0) for row in item.to_pylist())
    assert [(row["id"], row[DELETED], row[ARRIVAL]) for row in changes] == [
        (1, False, 10),
        (2, True, 12),
        (-1, True, 15),
    ]
    report = TaskReport.from_json(last[REPORT])
    places = sorted(json.loads(str(row["position"]))["offset"] for row in written(report.quarantine_files))
    assert (report.counts.rows, places, report.seen) == (3, [11, 13, 14], {"events/0": (10, 15)})


def test_a_tombstone_is_a_delete_with_its_offset_and_one_that_names_no_row_is_quarantined_with_its_key(
    layout_of: LayoutOf,
) -> None:
    source, rules = sources.kafka("events", servers="-", message_key="json"), UpsertRules.of("id", op=OWN_OP)
    decoder = JsonDecoder(("id", "note", OWN_OP), tombstones=Tombstones.of(source, rules))
    plan = ChangePlan(plan_of(layout_of(SCHEMA), decoder), rules)
    keys = pa.array([None, b'{"id": 1}', b"many", b'{"site": 1}', None], pa.binary())
    messages = batch(b'{"id": 1}', None, None, None, None).append_column("key", keys)
    *changes, last = (row for item in plan.run([messages], task=0) for row in item.to_pylist())
    assert [(row["id"], row[DELETED], row[ARRIVAL]) for row in changes] == [(1, False, 10), (1, True, 11)]
    result = written(TaskReport.from_json(last[REPORT]).quarantine_files)
    assert sorted(
        (json.loads(str(row["position"]))["offset"], str(row["reason"]).partition(": unexpected")[0]) for row in result
    ) == [
        (12, "expected a JSON object, got a tombstone whose key does not match the key columns"),
        (13, "field 'id': expected a value, got NULL"),
        (14, "expected a JSON object, got a tombstone without a key"),
    ]
    assert [json.loads(str(row["raw"])) for row in result if "message" in str(row["raw"])] == [
        {"message": "", "key": "many"},
        {"message": ""},
    ]
