"""Frames into tables on real Spark: one commit a frame, and no row twice."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, TimestampType
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.streaming import DataStreamWriter

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog, connect
from frazil.config import Settings, load_settings
from frazil.errors import CheckError, ProgressMismatch, RowRefused, SchemaMismatch, SinkError, WriterFenced
from frazil.sinks.audit import audit
from frazil.sinks.delta.target import create_delta_table
from frazil.sinks.spark import driver as lake
from frazil.sinks.spark.format import register
from frazil.sinks.spark.frame_rows import FrameRows
from frazil.sinks.spark.job import frame_of_reports
from frazil.sinks.spark.task import TaskPlan, TaskReport
from frazil.spark.session import spark_session
from frazil.write.commit.publish import RetryPolicy
from frazil.write.files.buffer import BufferLimits
from frazil.write.files.layout import TableLayout
from frazil.write.files.partitioning import partition_spec
from tests.kit.raising import raises

# PySpark's collect() leaves the socket to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "ts", TimestampType()),
)
TABLE = "lakehouse.events"
ROWS = "id long, name string, ts timestamp_ntz"
START = dt.datetime(2024, 2, 28)
KAFKA = lake.OffsetColumns(("topic", "partition"), "offset")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    folder = tmp_path_factory.mktemp("catalog")
    with running_catalog(folder) as server:
        conf = {"spark.conf.spark.sql.shuffle.partitions": "2", "spark.master": "local[2]"}
        yield load_settings(flags={"catalog.uri": server.uri, **conf}, folder=folder, environ={})


@pytest.fixture(scope="module")
def spark(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(settings, app_name="tests", log=tmp_path_factory.mktemp("spark") / "spark.log") as session:
        yield session


@pytest.fixture
def table_catalog(settings: Settings) -> Iterator[FrazilCatalog]:
    """The catalog with an empty table, partitioned by day and bucket."""
    result = connect(settings)
    result.create_namespace_if_not_exists("lakehouse")
    result.create_table(TABLE, SCHEMA, partition_spec=partition_spec(SCHEMA, ["day(ts)", "bucket(2, id)"]))
    yield result
    for identifier in result.list_tables("lakehouse"):
        folder = location(result.load_table(identifier))
        result.drop_table(identifier)
        shutil.rmtree(folder)  # with the files of fenced writers, which no purge finds


def row(number: int | None, *more: Any) -> tuple[Any, ...]:
    return (number, f"n-{number}", START + dt.timedelta(hours=6 * (number or 0)), *more)


def frame(spark: SparkSession, *numbers: int | None) -> DataFrame:
    return spark.createDataFrame([row(number) for number in numbers], ROWS).repartition(2)


def positioned(spark: SparkSession, *numbers: int | None) -> DataFrame:
    """Rows as from two Kafka partitions, in which row `n` has offset `n // 2`."""
    rows = [row(number, "events", place % 2, place // 2) for place, number in enumerate(numbers)]
    return spark.createDataFrame(rows, ROWS + ", topic string, partition int, offset long").repartition(2)


def ids(catalog: FrazilCatalog, table: str = TABLE) -> list[int]:
    return sorted(catalog.load_table(table).scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())


def snapshots(catalog: FrazilCatalog, table: str = TABLE) -> int:
    return len(catalog.load_table(table).snapshots())


def data_files(catalog: FrazilCatalog, table: str = TABLE) -> list[Path]:
    return sorted(location(catalog.load_table(table)).rglob("*.parquet"))


def location(table: Table) -> Path:
    return Path(table.location().removeprefix("file://"))


def test_a_frame_is_one_commit_that_spark_and_pyiceberg_read_alike(
    spark: SparkSession, table_catalog: FrazilCatalog
) -> None:
    result = lake.write_frame(frame(spark, *range(20)), TABLE, name="batch", catalog=table_catalog)
    # the takeover is in it
    assert (result.counts, result.position, snapshots(table_catalog)) == (lake.Counts(rows=20), {}, 1)
    table = table_catalog.load_table(TABLE)
    assert table.current_snapshot().snapshot_id == result.snapshot_id
    wanted = [row(number) for number in range(20)]
    assert [tuple(item.values()) for item in table.scan().to_arrow().sort_by("id").to_pylist()] == wanted
    assert [tuple(item) for item in spark.table(f"lake.{TABLE}").orderBy("id").collect()] == wanted
    assert len({(file.file.partition[0], file.file.partition[1]) for file in table.scan().plan_files()}) == 10


def test_columns_may_have_names_that_spark_reads_otherwise(spark: SparkSession, table_catalog: FrazilCatalog) -> None:
    table_catalog.create_table("lakehouse.names", pa.schema([("a.b", pa.int64()), ("c `d`", pa.string())]))
    lake.write_frame(
        spark.createDataFrame([(1, "x")], "`a.b` long, `c ``d``` string"),
        "lakehouse.names",
        name="batch",
        catalog=table_catalog,
    )
    assert table_catalog.load_table("lakehouse.names").scan().to_arrow().to_pylist() == [{"a.b": 1, "c `d`": "x"}]


def test_bad_rows_are_in_the_quarantine_by_the_same_commit(spark: SparkSession, table_catalog: FrazilCatalog) -> None:
    sink = lake.open(TABLE, name="s", catalog=table_catalog, bad_rows="quarantine", checks=["id < 100"])
    result = sink.write(positioned(spark, 0, None, 2, 300), offsets=KAFKA)
    assert (result.counts.rows, result.counts.refused, result.counts.bad_share) == (2, 2, 0.5)
    assert (ids(table_catalog), dict(result.position)) == ([0, 2], {"events/0": 2, "events/1": 2})
    table = table_catalog.load_table(f"{TABLE}__quarantine")
    reasons = sorted((item["reason"], item["position"]) for item in table.scan().to_arrow().to_pylist())
    assert reasons == [
        ("check 'id < 100' failed", '{"source":"events/1","offset":1}'),
        ("field 'id': expected a value, got NULL", '{"source":"events/1","offset":0}'),
    ]
    assert len(table.snapshots()) == 1


def test_a_batch_that_comes_again_changes_nothing_and_new_rows_in_it_come_in(
    spark: SparkSession, table_catalog: FrazilCatalog
) -> None:
    sink = lake.open(TABLE, name="s", catalog=table_catalog)
    sink.write(positioned(spark, 0, 1, 2, 3), offsets=KAFKA)
    before = snapshots(table_catalog)
    again = sink.write(positioned(spark, 0, 1, 2, 3), offsets=KAFKA)
    assert (again.counts, again.snapshot_id, snapshots(table_catalog)) == (lake.Counts(repeated=4), None, before)
    after_a_restart = lake.write_frame(
        positioned(spark, 0, 1, 2, 3, 4), TABLE, name="s", catalog=table_catalog, offsets=KAFKA
    )
    assert after_a_restart.counts == lake.Counts(rows=1, repeated=4)
    assert ids(table_catalog) == [0, 1, 2, 3, 4]
    assert audit(table_catalog.load_table(TABLE).metadata).problems == ()


def test_a_frame_whose_position_is_reached_is_not_computed(spark: SparkSession, table_catalog: FrazilCatalog) -> None:
    sink = lake.open(TABLE, name="s", catalog=table_catalog)
    sink.write(frame(spark, 1), position={"day": 1})
    failing = frame(spark, 1).selectExpr("raise_error('computed') AS id")
    assert sink.write(failing, position={"day": 1}).was_in
    sink.write(frame(spark, 2), position={"day": 2})
    assert (ids(table_catalog), dict(sink.position)) == ([1, 2], {"day": 2})
    with raises(ProgressMismatch, problem="partly-committed"):
        sink.write(frame(spark, 3), position={"day": 2, "other": 1})


@pytest.mark.requirement("sink.exactly-once")
def test_a_driver_that_was_replaced_is_fenced(spark: SparkSession, table_catalog: FrazilCatalog) -> None:
    zombie = lake.open(TABLE, name="s", catalog=table_catalog)
    staged = zombie.stage(positioned(spark, 0, 1), offsets=KAFKA)
    lake.write_frame(positioned(spark, 0, 1), TABLE, name="s", catalog=table_catalog, offsets=KAFKA)
    with pytest.raises(WriterFenced):
        zombie.publish(staged)
    with raises(SinkError, problem="closed"):
        zombie.write(frame(spark, 2))
    assert ids(table_catalog) == [0, 1]


def test_rows_of_a_ledger_are_in_the_same_commit(spark: SparkSession, table_catalog: FrazilCatalog) -> None:
    table_catalog.create_table("lakehouse.ledger", pa.schema([("path", pa.string())]))
    also = {"lakehouse.ledger": pa.table({"path": ["a.csv"]})}
    lake.write_frame(frame(spark, 1), TABLE, name="s", catalog=table_catalog, also=also)
    assert table_catalog.load_table("lakehouse.ledger").scan().to_arrow().to_pylist() == [{"path": "a.csv"}]
    assert ids(table_catalog) == [1]


def test_a_check_that_refuses_leaves_no_row_and_no_file(spark: SparkSession, table_catalog: FrazilCatalog) -> None:
    def refuse(counts: lake.Counts) -> None:
        raise ValueError(f"{counts.bad_share:.0%} of the rows are bad, such as {counts.first_refusal}")

    sink = lake.open(TABLE, name="s", catalog=table_catalog, bad_rows="quarantine")
    with pytest.raises(ValueError, match=r"50% of the rows are bad, such as .*'id': expected a value"):
        sink.write(positioned(spark, 0, None), offsets=KAFKA, check=refuse)
    assert (ids(table_catalog), data_files(table_catalog), data_files(table_catalog, f"{TABLE}__quarantine")) == (
        [],
        [],
        [],
    )
    sink.write(positioned(spark, 0, None), offsets=KAFKA)  # the sink is open, and nothing counts as written
    assert ids(table_catalog) == [0]


def test_without_quarantine_a_bad_row_stops_the_frame_and_leaves_no_file(
    spark: SparkSession, table_catalog: FrazilCatalog
) -> None:
    place = '{"source":"events/1","offset":1}'
    with raises(RowRefused, position=place, reason="field 'id': expected a value, got NULL"):
        lake.write_frame(positioned(spark, 0, 1, 2, None), TABLE, name="s", catalog=table_catalog, offsets=KAFKA)
    assert (ids(table_catalog), data_files(table_catalog)) == ([], [])


def test_columns_that_the_table_does_not_have(spark: SparkSession, table_catalog: FrazilCatalog) -> None:
    wide = frame(spark, 1).selectExpr("*", "7 AS more")
    with raises(SchemaMismatch, column="more", expected="no such field"):
        lake.write_frame(wide, TABLE, name="s", catalog=table_catalog)
    lake.write_frame(wide, TABLE, name="s", catalog=table_catalog, extra_fields="ignore")
    lake.write_frame(wide, TABLE, name="s", catalog=table_catalog, extra_fields="evolve")
    assert table_catalog.load_table(TABLE).schema().find_field("more").field_type == IntegerType()
    assert table_catalog.load_table(TABLE).scan().to_arrow()["more"].to_pylist().count(7) == 1


def test_what_is_wrong_is_reported_before_a_job_runs_or_with_the_sentence_of_the_task(
    spark: SparkSession, table_catalog: FrazilCatalog
) -> None:
    with raises(SchemaMismatch, column="id", expected="long", got="string"):
        lake.write_frame(frame(spark, 1).selectExpr("'x' AS id"), TABLE, name="s", catalog=table_catalog)
    with raises(
        SchemaMismatch, column="topic", expected="a column of the frame, named in offsets", got="only id, name, ts"
    ):
        lake.write_frame(frame(spark, 1), TABLE, name="s", catalog=table_catalog, offsets=KAFKA)
    with raises(CheckError, column="nothing"):
        lake.write_frame(frame(spark, 1), TABLE, name="s", catalog=table_catalog, checks=["nothing > 1"])
    nowhere = positioned(spark, 1).selectExpr("* EXCEPT (partition)", "int(NULL) AS partition")
    with pytest.raises(SinkError, match=r"the Spark job failed: lakehouse.events: column 'partition' is NULL in a row"):
        lake.write_frame(nowhere, TABLE, name="s", catalog=table_catalog, offsets=KAFKA)
    with pytest.raises(SinkError, match=r"the Spark job failed: .*my own words"):
        lake.write_frame(
            frame(spark, 1).selectExpr("raise_error('my own words') AS id"), TABLE, name="s", catalog=table_catalog
        )
    assert (ids(table_catalog), data_files(table_catalog)) == ([], [])


def test_keys_travel_to_the_executors_and_are_in_no_explained_plan(
    spark: SparkSession, table_catalog: FrazilCatalog
) -> None:
    layout = TableLayout.of(table_catalog.load_table(TABLE))
    keys = replace(layout, io_properties={**layout.io_properties, "s3.secret-access-key": "hunter2"})
    plan = TaskPlan(keys, "s/part-0", BufferLimits(), FrameRows())
    written = frame_of_reports(frame(spark, 1), plan)
    shown = written._jdf.queryExecution().toString()
    assert "MapInArrow write_rows" in shown
    assert "hunter2" not in shown
    assert TaskReport.from_json(written.where("report LIKE '%parquet%'").head()["report"]).counts.rows == 1


class Kafkaesque:
    """A stream of rows with topic, partition and offset, from a folder of Parquet files: one file per batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.count = 0

    def send(self, rows: DataFrame) -> None:
        self.count += 1
        rows.coalesce(1).write.parquet(str(self.folder / "in" / f"{self.count:03d}"))

    def run(self, write: Callable[[DataFrame, int], None], *, checkpoint: str = "checkpoint") -> None:
        """Reads what is new, one batch a file, then stops."""
        self._finish(self._rows().writeStream.foreachBatch(write), checkpoint)

    def run_format(self, options: dict[str, str], *, checkpoint: str = "checkpoint") -> None:
        self._finish(self._rows().writeStream.format("frazil").options(**options), checkpoint)

    def _rows(self) -> DataFrame:
        schema = ROWS + ", topic string, partition int, offset long"
        return (
            self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in" / "*"))
        )

    def _finish(self, writer: DataStreamWriter, checkpoint: str) -> None:
        writer.option("checkpointLocation", str(self.folder / checkpoint)).trigger(
            availableNow=True
        ).start().awaitTermination()

    def forget_last_batch(self) -> None:
        """What a driver leaves that died after the commit: Spark does not know that the batch was done, and
        repeats it.
        """
        commits = sorted(
            (path for path in (self.folder / "checkpoint/commits").iterdir() if path.name.isdigit()),
            key=lambda path: int(path.name),
        )
        for path in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
            path.unlink()


@pytest.mark.requirement("sink.exactly-once")
def test_a_stream_whose_last_batch_is_repeated_or_whose_checkpoint_is_lost_changes_nothing(
    spark: SparkSession, table_catalog: FrazilCatalog, tmp_path: Path
) -> None:
    stream = Kafkaesque(spark, tmp_path)
    stream.send(positioned(spark, 0, 1, 2, 3))
    stream.send(positioned(spark, 0, 1, 2, 3, 4, 5).where("offset >= 2"))

    def writer() -> Callable[[DataFrame, int], None]:
        return lake.foreach_batch(TABLE, name="stream", catalog=table_catalog, offsets=KAFKA)

    stream.run(writer())
    stream.forget_last_batch()
    stream.run(writer())
    stream.run(writer(), checkpoint="another")
    assert (ids(table_catalog), snapshots(table_catalog)) == (
        [0, 1, 2, 3, 4, 5],
        2 + 3,
    )  # two batches, and three take-overs
    assert audit(table_catalog.load_table(TABLE).metadata).problems == ()


def test_without_offsets_a_repeated_batch_is_left_out_and_another_checkpoint_is_refused(
    spark: SparkSession, table_catalog: FrazilCatalog, tmp_path: Path
) -> None:
    stream = Kafkaesque(spark, tmp_path)
    stream.send(positioned(spark, 0, 1))
    stream.send(positioned(spark, 2))

    def writer() -> Callable[[DataFrame, int], None]:
        return lake.foreach_batch(TABLE, name="stream", catalog=table_catalog, extra_fields="ignore")

    stream.run(writer())
    stream.forget_last_batch()
    stream.run(writer())
    assert ids(table_catalog) == [0, 1, 2]
    with pytest.raises(StreamingQueryException, match="it is unknown which of its rows are committed"):
        stream.run(writer(), checkpoint="another")
    assert ids(table_catalog) == [0, 1, 2]


def delta_rows(uri: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(uri).to_pyarrow_table().to_pylist()
    return rows


def test_a_delta_table_takes_frames_and_repeats_neither_rows_nor_quarantined_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    where, quarantine = str(tmp_path / "table"), str(tmp_path / "table__quarantine")
    create_delta_table(where, SCHEMA, partition_by=["day(ts)"])
    options: lake.FrameOptions = {"bad_rows": "quarantine", "checks": ["id < 100"]}

    def die(step: str) -> None:
        if step == "after commit" and Path(quarantine).exists() and delta_rows(quarantine):
            raise KeyboardInterrupt("the quarantine is written, the table is not")

    dying = lake.open(lake.Delta(where), name="s", retry=RetryPolicy(on_step=die), **options)
    with pytest.raises(KeyboardInterrupt, match="is written"):
        dying.write(positioned(spark, 0, 300, 2), offsets=KAFKA)
    assert (len(delta_rows(where)), len(delta_rows(quarantine))) == (0, 1)
    for _ in range(2):
        sink = lake.open(lake.Delta(where), name="s", **options)
        result = sink.write(positioned(spark, 0, 300, 2, 3), offsets=KAFKA)
    assert (result.counts.repeated, dict(result.position)) == (4, {"events/0": 2, "events/1": 2})
    assert sorted(item["id"] for item in delta_rows(where)) == [0, 2, 3]
    assert [item["reason"] for item in delta_rows(quarantine)] == ["check 'id < 100' failed"]
    with raises(SinkError, table=where, got="a.b"):
        sink.write(frame(spark, 7), also={"a.b": pa.table({"x": [1]})})


def options(settings: Settings, **more: str) -> dict[str, str]:
    return {"table": TABLE, "name": "f", "uri": settings.catalog.uri, **more}


@pytest.mark.requirement("spark.sink")
def test_the_format_writes_a_frame_in_one_commit_with_its_quarantine(
    spark: SparkSession, settings: Settings, table_catalog: FrazilCatalog
) -> None:
    register(spark)
    rules = options(settings, bad_rows="quarantine", checks='["id < 100", "name IS NOT NULL"]')
    frame(spark, *range(10), 500).write.format("frazil").options(**rules).mode("append").save()
    frame(spark, 10).write.format("frazil").options(**rules).mode("append").save()
    assert (ids(table_catalog), snapshots(table_catalog)) == (list(range(11)), 2)
    assert table_catalog.load_table(f"{TABLE}__quarantine").scan().to_arrow().num_rows == 1


def test_the_format_leaves_out_rows_that_are_in(
    spark: SparkSession, settings: Settings, table_catalog: FrazilCatalog
) -> None:
    register(spark)
    for numbers in ((0, 1, 2), (0, 1, 2), (0, 1, 2, 3)):
        where = options(settings, source="topic, partition", offset="offset")
        positioned(spark, *numbers).write.format("frazil").options(**where).mode("append").save()
    assert ids(table_catalog) == [0, 1, 2, 3]


@pytest.mark.requirement("spark.sink")
def test_the_format_takes_a_stream_and_a_repeated_batch_changes_nothing(
    spark: SparkSession, settings: Settings, table_catalog: FrazilCatalog, tmp_path: Path
) -> None:
    register(spark)
    stream = Kafkaesque(spark, tmp_path)
    stream.send(positioned(spark, 0, 1))
    stream.send(positioned(spark, 2))
    stream.send(positioned(spark, 3))
    stream.run_format(options(settings, extra_fields="ignore"))
    stream.forget_last_batch()
    stream.run_format(options(settings, extra_fields="ignore"))
    assert (ids(table_catalog), snapshots(table_catalog)) == ([0, 1, 2, 3], 3)  # the first batch takes over
    with pytest.raises(StreamingQueryException, match="it is unknown which of its rows are committed"):
        stream.run_format(options(settings, extra_fields="ignore"), checkpoint="another")
    assert len(data_files(table_catalog)) == len(list(table_catalog.load_table(TABLE).scan().plan_files()))


def test_the_format_commits_nothing_when_a_task_fails(
    spark: SparkSession, settings: Settings, table_catalog: FrazilCatalog
) -> None:
    register(spark)
    rows = frame(spark, *range(10)).withColumn("id", expr("if(spark_partition_id() = 1, raise_error('broken'), id)"))
    with pytest.raises(PySparkException, match="broken"):
        rows.coalesce(2).write.format("frazil").options(**options(settings)).mode("append").save()
    assert (ids(table_catalog), snapshots(table_catalog)) == ([], 0)


def test_a_bad_option_is_named(spark: SparkSession, settings: Settings, table_catalog: FrazilCatalog) -> None:
    register(spark)
    with pytest.raises(PySparkException, match="format\\('frazil'\\) has no option 'tabel'"):
        frame(spark, 1).write.format("frazil").options(**options(settings, tabel="x")).mode("append").save()
