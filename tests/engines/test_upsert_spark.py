"""Upserts on real Spark, copy-on-write and merge-on-read: the rows of a dictionary, whatever is sent again, killed or
in the way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from pyspark.sql import DataFrame, SparkSession

import frazil.sinks
from frazil import Table, column, pipeline, sources
from frazil.client import FrazilCatalog
from frazil.errors import AuditFailed, PipelineError, RowRefused, SchemaMismatch, SinkError
from frazil.pipelines.audited import Audit
from frazil.pipelines.batch.run import run_pipeline
from frazil.pipelines.upsert.changes import change_set
from frazil.pipelines.upsert.frames import UpsertFrames, upsert_batches, upsert_frame
from frazil.sinks.audit import audit
from frazil.sinks.spark.driver import Counts, FrameResult
from frazil.write.commit.publish import RetryPolicy
from frazil.write.files.partitioning import partition_spec
from frazil.write.upsert.rules import DELETED
from tests.kit.changes import CHANGES, SCHEMA, Oracle, Rows, change, example_count, gone
from tests.kit.raising import raises

# PySpark leaves the sockets of `collect` to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
COLUMNS = "id long, region string, version int, value string, op string"
MODES = ("copy-on-write", "merge-on-read")
_numbers = count()


class Killed(BaseException):
    """The driver is gone."""


def new_table(catalog: FrazilCatalog, mode: str = MODES[0], *fields: str) -> str:
    name = f"lake.t{next(_numbers)}"
    spec = {"partition_spec": partition_spec(SCHEMA, fields)} if fields else {}
    catalog.create_table(name, SCHEMA, properties={"write.merge.mode": mode}, **spec)
    return name


def open_frames(catalog: FrazilCatalog, table: str, **options: Any) -> UpsertFrames:
    return UpsertFrames(
        table, catalog=catalog, **{"name": "crm", "key": ["id"], "sequence": "version", "op": "op", **options}
    )


def frame(spark: SparkSession, rows: Rows) -> DataFrame:
    """One partition: so that rows arrive in their order."""
    names = [part.split()[0] for part in COLUMNS.split(", ")]
    return spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows], COLUMNS).coalesce(1)


def rows_of(catalog: FrazilCatalog, table: str) -> Rows:
    return sorted(catalog.load_table(table).scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def values(catalog: FrazilCatalog, table: str) -> dict[int, str]:
    return {row["id"]: row["value"] for row in rows_of(catalog, table)}


def branches(catalog: FrazilCatalog, table: str) -> list[str]:
    return [name for name in catalog.load_table(table).metadata.refs if name != "main"]


def delete_files(catalog: FrazilCatalog, table: str) -> int:
    return catalog.load_table(table).inspect.delete_files().num_rows


@pytest.mark.requirement("spark.upsert")
@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=example_count(short=2, full=20))
@given(batches=st.lists(st.tuples(st.lists(CHANGES, min_size=6, max_size=20), st.booleans()), min_size=2, max_size=4))
def test_any_stream_of_changes_leaves_the_rows_of_a_dictionary(
    mode: str, catalog: FrazilCatalog, spark: SparkSession, batches: list[tuple[Rows, bool]]
) -> None:
    table, oracle = new_table(catalog, mode, "region"), Oracle()
    frames = open_frames(catalog, table)
    for position, (batch, again) in enumerate(batches, start=1):
        frames.write(frame(spark, batch), position={"changes": position})
        oracle.apply(batch)
        if again:
            frames = open_frames(catalog, table)
            assert frames.write(frame(spark, batch), position={"changes": position}).was_in
    assert rows_of(catalog, table) == oracle.all()
    assert branches(catalog, table) == []


def test_merge_on_read_writes_position_deletes_and_copy_on_write_does_not(
    catalog: FrazilCatalog, spark: SparkSession
) -> None:
    result = {}
    for mode in MODES:
        table = new_table(catalog, mode)
        for rows in (
            [change(n, 1) for n in range(10)],
            [change(3, 2), gone(4, 2), change(20, 1), gone(99, 1), change(5, 0)],
        ):
            open_frames(catalog, table).write(frame(spark, rows))
        proof = audit(catalog.load_table(table).metadata)
        assert (proof.problems, proof.notes, proof.others) == ((), (), 0)
        result[mode] = (delete_files(catalog, table) > 0, values(catalog, table))
    expected = {n: "v1" for n in range(10) if n != 4} | {3: "v2", 20: "v1"}
    assert result == {"copy-on-write": (False, expected), "merge-on-read": (True, expected)}


@pytest.mark.requirement("spark.upsert")
@pytest.mark.parametrize(("step", "mode"), [("before commit", MODES[0]), ("after commit", MODES[1])])
def test_killed_at_a_step_and_sent_again_the_changes_are_in_once(
    step: str, mode: str, catalog: FrazilCatalog, spark: SparkSession
) -> None:
    table, batch = new_table(catalog, mode), [change(1, 2), gone(2, 2), change(3, 1)]
    with frazil.sinks.open(table, catalog=catalog, name="before", mode="upsert", key="id") as sink:
        sink.write([{name: value for name, value in change(n, 1).items() if name != "op"} for n in (1, 2)])
    armed = False

    def kill(at: str) -> None:
        if at == step and armed:
            raise Killed

    frames = open_frames(catalog, table, retry=RetryPolicy(on_step=kill))
    armed = True
    with pytest.raises(Killed):
        frames.write(frame(spark, batch), position={"changes": 1})
    done = step == "after commit"
    assert values(catalog, table) == ({1: "v2", 3: "v1"} if done else {1: "v1", 2: "v1"})
    assert len(branches(catalog, table)) == (0 if done else 1)
    result = open_frames(catalog, table).write(frame(spark, batch), position={"changes": 1})
    assert (result.was_in, values(catalog, table), branches(catalog, table)) == (done, {1: "v2", 3: "v1"}, [])


def test_rows_that_others_append_meanwhile_are_seen_and_kept(catalog: FrazilCatalog, spark: SparkSession) -> None:
    table, rivals = new_table(catalog, MODES[1]), iter([7, 8])

    def race(step: str) -> None:
        if step == "merged" and (number := next(rivals, None)):
            with frazil.sinks.open(table, catalog=catalog, name="rival") as rival:
                rival.write([{"id": number, "region": "x", "version": 1, "value": "rival"}])

    frames = open_frames(catalog, table, retry=RetryPolicy(on_step=race))
    frames.write(frame(spark, [change(1, 1), change(7, 2), change(8, 0)]))
    assert (values(catalog, table), branches(catalog, table)) == ({1: "v1", 7: "v2", 8: "rival"}, [])


def test_a_table_that_never_rests_is_given_up_by_name(catalog: FrazilCatalog, spark: SparkSession) -> None:
    table = new_table(catalog)

    def race(step: str) -> None:
        if step == "merged":
            frazil.sinks.open(table, catalog=catalog, name="rival")  # a take-over moves main, too

    frames = open_frames(catalog, table, retry=RetryPolicy(on_step=race))
    frames._stages.__dict__["attempts"] = 2
    with raises(PipelineError, problem="contended"):
        frames.write(frame(spark, [change(1, 1)]))
    assert (values(catalog, table), branches(catalog, table)) == ({}, [])


def test_bad_changes_are_quarantined_in_the_same_commit_or_stop_all(
    catalog: FrazilCatalog, spark: SparkSession
) -> None:
    table = new_table(catalog)
    rows: Rows = [
        change(1, 1),
        {**change(2, 1), "id": None},
        {**change(3, 1), "op": "t"},
        {"id": None, "version": 1, "op": "d"},
    ]
    with raises(RowRefused, reason=re.compile("expected a value")):
        open_frames(catalog, table).write(frame(spark, rows))
    assert rows_of(catalog, table) == []
    result = open_frames(catalog, table, bad_rows="quarantine").write(frame(spark, rows), position={"changes": 4})
    quarantined = catalog.load_table(f"{table}__quarantine").scan().to_arrow()["reason"].to_pylist()
    assert (result.counts.rows, result.counts.refused, values(catalog, table)) == (1, 3, {1: "v1"})
    assert sorted(reason.split(":")[0] for reason in quarantined) == ["field 'id'", "field 'id'", "field 'op'"]


def made_of(frames: UpsertFrames, value: DataFrame) -> tuple[bool, list[tuple[Any, ...]], int]:
    """Whether Spark judged the rows by itself; the changes that they are; how many were refused."""
    with change_set(value, frames.plan(value)) as result:
        rows = result.frame.select("id", "value", DELETED).collect()
        return result.by_spark, sorted(tuple(row) for row in rows), result.report.counts.refused


def test_good_rows_in_the_tables_types_are_judged_by_spark_alone_and_all_others_by_tasks(
    catalog: FrazilCatalog, spark: SparkSession
) -> None:
    from pyspark.sql import functions as F

    frames = open_frames(catalog, new_table(catalog), bad_rows="quarantine")
    good, deleted = [(1, "v1", False), (2, None, True)], {"id": 2, "version": 1, "op": "D"}
    fits = frame(spark, [change(1, 1), deleted])
    assert made_of(frames, fits) == (True, good, 0)
    assert made_of(frames, fits.withColumn("id", F.col("id").cast("int"))) == (False, good, 0)
    assert made_of(frames, frame(spark, [change(1, 1), {**deleted, "op": "Delete"}])) == (False, good, 0)
    assert made_of(frames, frame(spark, [change(1, 1), deleted, {**change(3, 1), "id": None}])) == (False, good, 1)
    assert made_of(frames, frame(spark, [change(1, 1), deleted, {**change(3, 1), "op": None}])) == (False, good, 1)
    assert made_of(frames, frame(spark, [change(1, 1, "late"), change(1, 2, "v1"), deleted])) == (False, good, 0)
    checked = open_frames(catalog, new_table(catalog), checks=["value <> 'v1'"], bad_rows="quarantine")
    assert made_of(checked, fits) == (False, good[1:], 1)


def test_rows_that_differ_each_time_they_are_computed_are_merged_as_they_were_kept(
    catalog: FrazilCatalog, spark: SparkSession
) -> None:
    from pyspark.sql import functions as F

    table = new_table(catalog)
    open_frames(catalog, table).write(frame(spark, [change(1, 1), change(2, 1)]).withColumn("value", F.expr("uuid()")))
    assert [len(value) for value in values(catalog, table).values()] == [36, 36]


def test_columns_may_have_any_name(catalog: FrazilCatalog, spark: SparkSession) -> None:
    schema = Schema(NestedField(1, "count", LongType(), required=True), NestedField(2, "a `b`.c", StringType()))
    catalog.create_table("lake.names", schema)
    frames = UpsertFrames("lake.names", name="crm", key=["count"], catalog=catalog)
    for rows in ([(1, "x"), (2, "x")], [(1, "y"), (1, "z")]):  # judged by Spark, and by tasks
        frames.write(spark.createDataFrame(rows, "count long, `a ``b``.c` string").coalesce(1))
    assert sorted(tuple(row.values()) for row in catalog.load_table("lake.names").scan().to_arrow().to_pylist()) == [
        (1, "z"),
        (2, "x"),
    ]


def test_what_a_frame_takes_to_compute_is_done_once(catalog: FrazilCatalog, spark: SparkSession) -> None:
    table, computed = new_table(catalog), spark.sparkContext.accumulator(0)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            computed.add(batch.num_rows)
            yield batch

    # a shuffle: Spark plans it as it goes
    result = frame(spark, [change(1, 1), change(2, 1)]).mapInArrow(count, COLUMNS).distinct()
    open_frames(catalog, table).write(result)
    assert (computed.value, values(catalog, table)) == (2, {1: "v1", 2: "v1"})


def test_a_frame_without_the_column_that_tells_deletes_is_refused(catalog: FrazilCatalog, spark: SparkSession) -> None:
    frames = open_frames(catalog, new_table(catalog))
    with raises(SchemaMismatch, column="op"):
        frames.write(frame(spark, [change(1, 1)]).drop("op"))


def test_a_stream_upserts_each_batch_once(catalog: FrazilCatalog, spark: SparkSession, tmp_path: Path) -> None:
    table, landing = new_table(catalog, MODES[1]), tmp_path / "landing"
    landing.mkdir()

    def land(name: str, *rows: dict[str, Any]) -> None:
        (landing / name).write_text("\n".join(json.dumps(row) for row in rows))

    def run(writer: Callable[[DataFrame, int], None]) -> None:
        stream = spark.readStream.schema(COLUMNS).json(str(landing)).writeStream.foreachBatch(writer)
        stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
            availableNow=True
        ).start().awaitTermination()

    commits = iter(["take-over", "batch"])

    def die(step: str) -> None:
        if step == "after commit" and next(commits) == "batch":
            raise RuntimeError("killed")

    options: dict[str, Any] = {"name": "crm", "key": "id", "sequence": "version", "op": "op", "catalog": catalog}
    land("1.json", change(1, 1), change(2, 1))
    run(upsert_batches(table, **options))
    land("2.json", change(1, 2), gone(2, 2))
    with pytest.raises(Exception, match="killed"):
        run(upsert_batches(table, retry=RetryPolicy(on_step=die), **options))
    land("3.json", change(1, 1, "late"), change(3, 1))
    results: list[FrameResult] = []
    run(upsert_batches(table, on_result=results.append, **options))
    assert ([result.was_in for result in results], values(catalog, table)) == ([True, False], {1: "v2", 3: "v1"})


@pytest.mark.parametrize("mode", MODES)
def test_a_frame_takes_over_with_its_commit_and_one_that_is_refused_leaves_no_snapshot(
    mode: str, catalog: FrazilCatalog, spark: SparkSession
) -> None:
    table = new_table(catalog, mode)
    options: dict[str, Any] = {"name": "crm", "key": ["id"], "sequence": "version", "op": "op", "catalog": catalog}

    def refuse(counts: Counts) -> None:
        raise SinkError(f"{counts.rows} changes are not wanted")

    changes = [{"id": 1, "region": "north", "version": 1, "value": "a", "op": "c"}]
    with pytest.raises(SinkError, match="1 changes are not wanted"):
        upsert_frame(frame(spark, changes), table, check=refuse, **options)
    assert catalog.load_table(table).snapshots() == []
    upsert_frame(frame(spark, changes), table, position={"day": 1}, **options)
    after_first = len(catalog.load_table(table).snapshots())
    upsert_frame(frame(spark, [{**changes[0], "version": 2, "value": "b"}]), table, position={"day": 2}, **options)
    assert len(catalog.load_table(table).snapshots()) == after_first + 2  # what the merge declared, and the progress
    assert upsert_frame(frame(spark, changes), table, position={"day": 2}, **options).was_in
    assert (values(catalog, table), branches(catalog, table)) == ({1: "b"}, [])
    assert audit(catalog.load_table(table).metadata).problems == ()


HEADER = "id,region,version,value,op\n"


def test_a_pipeline_upserts_landing_files_once_each(
    catalog: FrazilCatalog, spark: SparkSession, tmp_path: Path
) -> None:
    customers = Table(
        "lake.customers",
        *(column(field.name, str(field.field_type), required=field.required) for field in SCHEMA.fields),
        checks=["version < 100"],
        properties={"write.merge.mode": "merge-on-read"},
    )
    catalog.create_table(customers.identifier, customers.schema(), properties=dict(customers.properties))

    @pipeline(
        source=sources.csv("*.csv"),
        target=customers,
        mode="upsert",
        key=["id"],
        sequence="version",
        op="op",
        max_bad_share=0.5,
    )
    def crm(rows: DataFrame) -> DataFrame:
        return rows

    def run() -> dict[str, Any]:
        result = run_pipeline(crm, spark=spark, catalog=catalog, folder=tmp_path)
        became = [result.inserted, result.updated, result.deleted, result.unchanged]
        return {name: getattr(result, name) for name in ("files", "rows_in", "rows", "duplicates", "quarantined")} | {
            "became": became
        }

    (tmp_path / "1.csv").write_text(HEADER + "1,north,1,a,c\n2,north,1,b,c\n3,south,9,c,c\n")
    assert run() == {"files": 1, "rows_in": 3, "rows": 3, "duplicates": 0, "quarantined": 0, "became": [3, 0, 0, 0]}
    (tmp_path / "2.csv").write_text(
        HEADER + "1,north,9,x,u\n1,north,10,y,u\n2,,2,,d\n3,south,8,late,u\n,north,1,z,u\n4,north,100,w,u\n"
    )
    assert run() == {"files": 1, "rows_in": 6, "rows": 1, "duplicates": 1, "quarantined": 2, "became": [0, 1, 1, 1]}
    assert run()["files"] == 0
    assert values(catalog, "lake.customers") == {1: "y", 3: "c"}
    assert delete_files(catalog, "lake.customers") > 0
    quarantined = catalog.load_table("lake.customers__quarantine").scan().to_arrow().to_pylist()
    assert sorted((json.loads(row["position"])["row"], row["reason"]) for row in quarantined) == [
        (6, "field 'id': expected a value, got NULL"),
        (7, "check 'version < 100' failed"),
    ]
    runs = catalog.load_table("lake.customers__runs").scan(row_filter="status = 'committed'").to_arrow()
    assert set(runs["snapshot_id"].to_pylist()) <= {
        snapshot.snapshot_id for snapshot in catalog.load_table("lake.customers").snapshots()
    }


def test_changes_of_files_come_to_main_when_their_audit_passes(
    catalog: FrazilCatalog, spark: SparkSession, tmp_path: Path
) -> None:
    fields = (column(field.name, str(field.field_type), required=field.required) for field in SCHEMA.fields)
    clients = Table("lake.clients", *fields)
    catalog.create_table(clients.identifier, clients.schema())

    def run(most: int) -> int:
        rules: dict[str, Any] = {
            "mode": "upsert",
            "key": ["id"],
            "sequence": "version",
            "op": "op",
            "audit": f"version < {most}",
        }
        result = pipeline(source=sources.csv("*.csv"), target=clients, name="crm", **rules)(lambda rows: rows)
        return run_pipeline(result, spark=spark, catalog=catalog, folder=tmp_path).rows

    (tmp_path / "1.csv").write_text(HEADER + "1,north,1,a,c\n2,north,1,b,c\n")
    assert run(5) == 2
    (tmp_path / "2.csv").write_text(HEADER + "1,north,9,x,u\n2,,2,,d\n")
    with raises(AuditFailed, rows=2, branch="audit-crm"):
        run(5)
    assert (values(catalog, "lake.clients"), branches(catalog, "lake.clients")) == ({1: "a", 2: "b"}, ["audit-crm"])
    assert (run(10), values(catalog, "lake.clients"), branches(catalog, "lake.clients")) == (1, {1: "x"}, [])


def test_a_condition_that_held_before_is_held_against_the_rows_that_came_since(
    catalog: FrazilCatalog, spark: SparkSession
) -> None:
    target = Table("lake.audited", column("id", "long"))
    table = catalog.create_table(target.identifier, target.schema())
    checks = ["id < 10", "SELECT id FROM {table} GROUP BY id HAVING count(*) > 1"]
    declared = pipeline(source=sources.csv("*.csv"), target=target, name="p", audit=checks)(lambda rows: rows)
    heads = []
    for ids in ([1, 50], [1, 60, 70], [2]):
        table.append(pa.table({"id": ids}))
        heads.append(table.metadata.current_snapshot_id)
    first, second, third = heads
    with pytest.raises(AuditFailed) as result:
        Audit(declared, spark, catalog, rows=3, passed=first).check(second, first)
    assert result.value.failures == {checks[0]: 2, checks[1]: 1}  # of the rows that came, and of the whole table
    with pytest.raises(AuditFailed) as result:
        Audit(declared, spark, catalog, rows=1, passed=first).check(third, second)
    assert result.value.failures == {checks[0]: 3, checks[1]: 1}  # another program has committed since it was looked at
    Audit(replace(declared, audit=(checks[0],)), spark, catalog, rows=1, passed=second).check(third, second)
