"""The driver's side of the Spark host: what tasks report becomes one commit. The tasks run here, without Spark."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from pyiceberg.types import TimestampType as WithoutZone
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampType
from pyspark.sql.types import LongType as SparkLong

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog, connect
from frazil.config import load_settings
from frazil.errors import CommitUnknown, ProgressMismatch, RowRefused, SchemaMismatch, SinkError, WriterFenced
from frazil.sinks.iceberg import IcebergTarget
from frazil.sinks.spark import driver as lake
from frazil.sinks.spark.format import BatchWriter, Destination, FrazilDataSource, StreamWriter, TaskMessage
from frazil.sinks.spark.frame_rows import KAFKA
from frazil.sinks.spark.job import batch_position, make_plan, row_schema
from frazil.sinks.spark.task import TaskReport
from frazil.spark.messages import python_error
from frazil.write.commit.publish import RetryPolicy
from frazil.write.commit.snapshots import Move
from tests.kit.raising import raises

TABLE = "lake.t"
PART = "s/part-0"
ROWS = StructType(
    [
        StructField("id", SparkLong()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", SparkLong()),
    ]
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrazilCatalog]:
    folder = tmp_path_factory.mktemp("catalog")
    with running_catalog(folder) as running:
        catalog = connect(load_settings(flags={"catalog.uri": running.uri}, folder=folder, environ={}))
        catalog.create_namespace("lake")
        yield catalog


@pytest.fixture
def table_catalog(server: FrazilCatalog) -> Iterator[FrazilCatalog]:
    server.create_table(TABLE, Schema(NestedField(1, "id", LongType(), required=True)))
    yield server
    folder = location(server)
    for identifier in server.list_tables("lake"):
        server.drop_table(identifier)
    shutil.rmtree(folder)  # with the files that no commit refers to


def target(catalog: FrazilCatalog, **retry: Any) -> IcebergTarget:
    return IcebergTarget(catalog, ("lake", "t"), retry=RetryPolicy(**retry))


def batch(*ids: int | None, partition: int = 0) -> pa.RecordBatch:
    """Rows whose offset is their place."""
    columns: dict[str, Any] = {
        "id": pa.array(ids, pa.int64()),
        "topic": ["t"] * len(ids),
        "partition": pa.array([partition] * len(ids), pa.int32()),
        "offset": pa.array(range(len(ids)), pa.int64()),
    }
    return pa.record_batch(columns)


def run_tasks(sink: lake.FrameSink, table: IcebergTarget, *batches: pa.RecordBatch, **options: Any) -> list[TaskReport]:
    """What the tasks of a frame report, each with a batch of its own; as text, as they travel."""
    plan = make_plan(
        table, PART, ROWS, options=lake.frame_options(**options), tasks=2, reached=sink.position, offsets=KAFKA
    )
    return [TaskReport.from_json(plan.run([item], task=number).to_json()) for number, item in enumerate(batches)]


def ids(catalog: FrazilCatalog) -> list[int]:
    return sorted(catalog.load_table(TABLE).scan().to_arrow()["id"].to_pylist())


def files(catalog: FrazilCatalog) -> list[Path]:
    return list(location(catalog).rglob("*.parquet"))


def location(catalog: FrazilCatalog) -> Path:
    return Path(catalog.load_table(TABLE).location().removeprefix("file://"))


def test_reports_of_several_tasks_become_one_commit(table_catalog: FrazilCatalog) -> None:
    table = target(table_catalog)
    sink = lake.FrameSink(table, PART)
    result = sink.publish(sink.join(run_tasks(sink, table, batch(1, 2), batch(3, partition=1), batch())))
    assert (result.counts, dict(result.position)) == (lake.Counts(rows=3), {"t/0": 2, "t/1": 1})
    assert (ids(table_catalog), len(table_catalog.load_table(TABLE).snapshots())) == ([1, 2, 3], 2)


def test_one_bad_row_without_quarantine_stops_all_and_leaves_no_file(table_catalog: FrazilCatalog) -> None:
    table = target(table_catalog)
    sink = lake.FrameSink(table, PART)
    reports = run_tasks(sink, table, batch(1, 2), batch(None, partition=1))
    with raises(RowRefused, position=re.compile('"source":"t/1","offset":0')):
        sink.join(reports)
    assert (ids(table_catalog), files(table_catalog)) == ([], [])


def test_after_a_commit_of_which_the_end_is_not_known_the_sink_is_closed_and_the_next_one_knows(
    table_catalog: FrazilCatalog,
) -> None:
    def lose_reply(step: str) -> None:
        if step == "after commit" and ids(table_catalog):
            raise CommitUnknown("no answer")

    table = target(table_catalog, give_up_seconds=-1.0, on_step=lose_reply)
    sink = lake.FrameSink(table, PART)
    staged = sink.join(run_tasks(sink, table, batch(1, 2)))
    with pytest.raises(CommitUnknown):
        sink.publish(staged)
    with raises(SinkError, problem="closed"):
        sink.publish(staged)
    fresh = target(table_catalog)
    again = lake.FrameSink(fresh, PART)
    assert again.publish(again.join(run_tasks(again, fresh, batch(1, 2)))).counts == lake.Counts(repeated=2)
    assert ids(table_catalog) == [1, 2]


def test_a_staged_snapshot_of_an_engine_is_published_under_the_same_claim(table_catalog: FrazilCatalog) -> None:
    sink = lake.FrameSink(target(table_catalog), PART)
    live = table_catalog.load_table(TABLE)
    base = live.current_snapshot()
    assert base is not None
    live.manage_snapshots().create_branch(base.snapshot_id, "stage").commit()
    live.append(pa.table({"id": [7]}, schema=live.schema().as_arrow()), branch="stage")
    staged = table_catalog.load_table(TABLE).snapshot_by_name("stage")
    assert staged is not None
    move = Move(("lake", "t"), staged.snapshot_id, base.snapshot_id, "stage")
    sink.publish(lake.Staged(end={"day": 3}), change=move)
    assert (ids(table_catalog), dict(sink.position)) == ([7], {"day": 3})


def test_files_are_published_once(table_catalog: FrazilCatalog) -> None:
    table = target(table_catalog)
    sink = lake.FrameSink(table, PART)
    staged = replace(sink.join(run_tasks(sink, table, batch(1))), start={}, end={})  # as of a frame without a position
    sink.publish(staged)
    with raises(SinkError, problem="already-published"):
        sink.publish(staged)
    assert ids(table_catalog) == [1]


def test_a_finished_source_partition_leaves_no_entry(table_catalog: FrazilCatalog) -> None:
    table = target(table_catalog)
    sink = lake.FrameSink(table, PART)
    sink.publish(sink.join(run_tasks(sink, table, batch(1), batch(2, partition=1))), done=["t/0"])
    assert dict(sink.position) == {"t/1": 1}


def messages(
    writer: BatchWriter | StreamWriter, *batches: pa.RecordBatch, query: str | None = None
) -> list[TaskMessage]:
    return [
        TaskMessage(writer._plan.run([item], task=n).to_json(), writer._plan.quarantined, query)
        for n, item in enumerate(batches)
    ]


def destination(catalog: FrazilCatalog, **more: str) -> Destination:
    return Destination.parse(
        {"table": TABLE, "name": "s", "uri": catalog.uri, "source": "topic,partition", "offset": "offset", **more}
    )


def test_the_format_deletes_files_when_a_task_failed_and_never_after_a_commit_was_tried(
    table_catalog: FrazilCatalog,
) -> None:
    writer = BatchWriter(ROWS, destination(table_catalog))
    sent = messages(writer, batch(1), batch(2, partition=1))
    writer.abort(sent)  # as Spark calls it when the commit failed: it may have happened all the same
    assert len(files(table_catalog)) == 2
    writer.abort([sent[0], None])
    assert len(files(table_catalog)) == 1


def test_of_two_jobs_of_the_format_with_the_same_rows_the_second_is_refused(table_catalog: FrazilCatalog) -> None:
    first, second = (BatchWriter(ROWS, destination(table_catalog)) for _ in range(2))
    sent, also_sent = messages(first, batch(1, 2)), messages(second, batch(1, 2))
    first.commit(sent)
    with raises(ProgressMismatch, source="t/0"):
        second.commit(also_sent)
    assert (ids(table_catalog), len(files(table_catalog))) == ([1, 2], 1)


def test_a_zombie_driver_of_the_same_checkpoint_repeats_no_batch(table_catalog: FrazilCatalog) -> None:
    where = Destination.parse({"table": TABLE, "name": "s", "uri": table_catalog.uri, "extra_fields": "ignore"})
    old, new = StreamWriter(ROWS, where), StreamWriter(ROWS, where)
    sent, sent_again = messages(old, batch(1, 2), query="q"), messages(new, batch(1, 2), query="q")
    new.commit(sent_again, 0)
    new.commit(messages(new, batch(3), query="q"), 1)
    old.commit(sent, 0)
    assert (ids(table_catalog), len(files(table_catalog))) == ([1, 2, 3], 2)


def test_a_column_of_the_frame_that_does_not_fit_is_named_with_what_to_do(table_catalog: FrazilCatalog) -> None:
    table_catalog.load_table(TABLE).update_schema().add_column("ts", WithoutZone()).commit()
    zoned = StructType([StructField("id", SparkLong()), StructField("ts", TimestampType())])
    with raises(SchemaMismatch, column="ts", hint=re.compile(r"cast\('timestamp_ntz'\)")):
        make_plan(target(table_catalog), PART, zoned, options=lake.frame_options(), tasks=1, reached={})
    with raises(SchemaMismatch, column="topic"):
        row_schema(zoned, KAFKA, table="t")


def test_a_writer_of_the_same_name_is_fenced(table_catalog: FrazilCatalog) -> None:
    table = target(table_catalog)
    sink = lake.FrameSink(table, PART)
    staged = sink.join(run_tasks(sink, table, batch(1)))
    lake.open(TABLE, name="s", catalog=table_catalog)
    with pytest.raises(WriterFenced):
        sink.publish(staged)


def test_another_checkpoint_is_refused_and_the_same_one_goes_on() -> None:
    assert batch_position({}, "q1", 0, table="t") == {"checkpoint/q1": 1}
    with raises(ProgressMismatch, table="t"):
        batch_position({"checkpoint/q1": 4, "t/0": 3}, "q2", 0, table="t")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "Job aborted\nTraceback:\n  File\nfrazil.errors.WriteFailed: cannot write f: full\n\n\tat x.Y(Z)",
            "cannot write f: full",
        ),
        ("Traceback:\nValueError: no\n", "ValueError: no"),
        (
            "org.apache.X: [USER_RAISED_EXCEPTION] mine SQLSTATE: P0001",
            "org.apache.X: [USER_RAISED_EXCEPTION] mine SQLSTATE: P0001",
        ),
        ("", "no reason was given"),
    ],
)
def test_the_python_error_of_a_spark_message(text: str, line: str) -> None:
    assert python_error(text) == line


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({"name": ""}, {"option": "name"}),
        ({"path": "/x"}, {"option": "table"}),
        ({"bad_rows": "drop"}, {"option": "bad_rows", "got": "drop"}),
        ({"source": "topic"}, {"option": "offset"}),
        ({"budget_bytes": "lots"}, {"option": "budget_bytes", "got": "lots"}),
        ({"checks": "[1]"}, {"option": "checks", "got": "[1]"}),
        ({"Table2": "x"}, {"option": "table2"}),
    ],
)
def test_an_option_of_the_format_that_is_wrong_is_named(changed: dict[str, str], facts: dict[str, object]) -> None:
    with raises(SinkError, **facts):
        Destination.parse({"table": TABLE, "name": "s", **changed})


def test_the_format_only_appends_and_only_writes() -> None:
    source = FrazilDataSource({"table": TABLE, "name": "s"})
    with raises(SinkError, option="mode"):
        source.writer(ROWS, overwrite=True)
    with raises(SinkError, option="outputMode"):
        source.streamWriter(ROWS, overwrite=True)
    with raises(SinkError, problem="write-only"):
        source.schema()
