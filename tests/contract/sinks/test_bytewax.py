"""The Bytewax host on a real dataflow, into Iceberg (a catalog in this process) and Delta: rows come in once, whatever
Bytewax replays.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import bytewax.operators as op
import pyarrow as pa
import pytest
from bytewax.dataflow import Dataflow
from bytewax.errors import BytewaxRuntimeError
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import TestingSource, cluster_main, run_main
from deltalake import DeltaTable
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from frazil.catalog.embedded import EmbeddedCatalog
from frazil.client import FrazilCatalog
from frazil.errors import FrazilError, ProgressMismatch, RowRefused, SchemaMismatch, SinkError, WriterFenced
from frazil.sinks.bytewax import DeltaSink, DeltaSinkConfig, IcebergSink, IcebergSinkConfig, SinkConfig, SourceRows
from frazil.sinks.delta.target import create_delta_table
from frazil.write.commit.progress import Progress
from frazil.write.commit.publish import RetryPolicy
from frazil.write.files.partitioning import partition_spec
from tests.kit.raising import raises

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "kind", StringType()))
ABORT = TestingSource.ABORT
AT_ONCE = timedelta(0)  # a checkpoint after every item


@dataclass
class FlowTable:
    """A table, and dataflows that write to it."""

    kind: str
    lake_server: EmbeddedCatalog
    folder: Path
    name: str = field(default_factory=lambda: f"lake.t{uuid.uuid4().hex[:8]}")

    def create(self) -> None:
        if self.kind == "iceberg":
            self.catalog.create_table(self.name, SCHEMA, partition_spec=partition_spec(SCHEMA, ["kind"]))
        else:
            create_delta_table(self.uri, SCHEMA, partition_by=["kind"])

    def drop(self) -> None:
        if self.kind == "iceberg":
            self.catalog.drop_table(self.name)
        else:
            shutil.rmtree(self.uri)

    @property
    def catalog(self) -> FrazilCatalog:
        return FrazilCatalog("lake", **self.lake_server.properties)

    @property
    def uri(self) -> str:
        return str(self.folder / self.name)

    def config(self, **changes: Any) -> SinkConfig:
        wanted = {"batch_size": 1000, "batch_interval_seconds": 60, "num_partitions": 1} | changes
        if self.kind == "delta":
            return DeltaSinkConfig(self.uri, **wanted)
        return IcebergSinkConfig(
            self.lake_server.uri, "rest", None, self.name, catalog_properties=self.lake_server.properties, **wanted
        )

    def recovery(self, name: str = "recovery") -> RecoveryConfig:
        folder = self.folder / name
        if not folder.exists():
            folder.mkdir()
            init_db_dir(folder, 1)
        return RecoveryConfig(str(folder))

    def run(
        self, items: Sequence[Any], *, every: timedelta = AT_ONCE, recovery: str | None = "recovery", **changes: Any
    ) -> None:
        """One run of a dataflow over the items; those that are no marks are offsets of one source partition."""
        flow = dataflow(items, self.config(**changes))
        run_main(flow, epoch_interval=every, recovery_config=self.recovery(recovery) if recovery else None)

    def ids(self) -> list[int]:
        return sorted(self.read(self.name)["id"].to_pylist())

    def read(self, name: str) -> pa.Table:
        if self.kind == "iceberg":
            return self.catalog.load_table(name).scan().to_arrow()
        return DeltaTable(str(self.folder / name)).to_pyarrow_table()

    def commits(self) -> list[int]:
        """The rows of each commit that brought any."""
        if self.kind == "iceberg":
            snapshots = self.catalog.load_table(self.name).snapshots()
            return [
                int(snapshot.summary["added-records"])
                for snapshot in snapshots
                if snapshot.summary and snapshot.summary["added-records"]
            ]
        log = DeltaTable(self.uri)
        counts = [DeltaTable(self.uri, version=version).count() for version in range(log.version() + 1)]
        return [after - before for before, after in pairwise(counts) if after > before]

    def progress(self) -> Progress:
        return self.config().open_target().progress()


def dataflow(items: Sequence[Any], config: SinkConfig, *, source: str = "e/0") -> Dataflow:
    flow = Dataflow("flow")
    numbers = op.input("numbers", flow, TestingSource(items))
    rows = op.map("rows", numbers, lambda value: value if isinstance(value, tuple) else (source, row(value, source)))
    op.output("lake", rows, sink_of(config))
    return flow


def sink_of(config: SinkConfig) -> IcebergSink | DeltaSink:
    return IcebergSink(config) if isinstance(config, IcebergSinkConfig) else DeltaSink(config)


def row(number: int, source: str = "e/0") -> SourceRows:
    return SourceRows([{"id": number, "kind": f"k{number % 3}"}], source, [number])


@pytest.fixture(params=["iceberg", "delta"])
def lake(request: pytest.FixtureRequest, lake_server: EmbeddedCatalog, tmp_path: Path) -> FlowTable:
    flow_table = FlowTable(request.param, lake_server, tmp_path)
    flow_table.create()
    return flow_table


@pytest.fixture
def iceberg(lake_server: EmbeddedCatalog, tmp_path: Path) -> FlowTable:
    flow_table = FlowTable("iceberg", lake_server, tmp_path)
    flow_table.create()
    return flow_table


@pytest.fixture
def delta(lake_server: EmbeddedCatalog, tmp_path: Path) -> FlowTable:
    flow_table = FlowTable("delta", lake_server, tmp_path)
    flow_table.create()
    return flow_table


def cause(error: BaseException) -> FrazilError:
    """The error of ours behind one of Bytewax's."""
    result: BaseException | None = error
    while result is not None and not isinstance(result, FrazilError):
        result = result.__cause__
    assert isinstance(result, FrazilError)
    return result


def test_rows_of_all_table_partitions_come_in_with_one_commit_a_checkpoint(lake: FlowTable) -> None:
    lake.run(range(10), every=timedelta(seconds=60))
    assert (lake.ids(), lake.commits()) == (list(range(10)), [10])
    assert lake.progress().part("flow.lake/part-0-of-1").offsets == {"e/0": 10}


def test_a_batch_is_committed_when_it_is_full(lake: FlowTable) -> None:
    lake.run(range(10), every=timedelta(seconds=60), batch_size=4)
    assert (lake.ids(), lake.commits()) == (list(range(10)), [4, 4, 2])


def test_a_batch_is_committed_when_its_time_has_come(lake: FlowTable) -> None:
    lake.run(range(4), every=timedelta(seconds=60), batch_interval_seconds=0)
    assert (lake.ids(), lake.commits()) == (list(range(4)), [1, 1, 1, 1])


@pytest.mark.parametrize("batch_size", [1, 2, 3, 1000])
@pytest.mark.parametrize("every", [AT_ONCE, timedelta(seconds=60)])
def test_what_an_aborted_run_has_committed_is_not_repeated(lake: FlowTable, every: timedelta, batch_size: int) -> None:
    items = [0, 1, 2, 3, 4, ABORT(), 5, 6, ABORT(), 7]
    lake.run(items, every=every, batch_size=batch_size)
    lake.run(items, every=every, batch_size=batch_size)
    lake.run(items, every=every, batch_size=batch_size)
    assert lake.ids() == list(range(8))


def test_a_lost_recovery_store_repeats_nothing(lake: FlowTable) -> None:
    lake.run([0, 1, 2, ABORT(), 3], recovery="first")
    lake.run([0, 1, 2, 3], recovery="second")
    lake.run([0, 1, 2, 3, 4], recovery=None)
    assert lake.ids() == [0, 1, 2, 3, 4]


def test_a_step_that_fails_shows_its_error_and_the_next_run_loses_nothing(lake: FlowTable) -> None:
    broken = (("e/0"), SourceRows([{"id": "three"}], "e/0", [3]))
    with raises(RowRefused, reason=re.compile("expected long")):
        lake.run([0, 1, 2, broken, 4], every=timedelta(seconds=60), batch_size=2)
    lake.run([0, 1, 2, 3, 4], every=timedelta(seconds=60))
    assert lake.ids() == [0, 1, 2, 3, 4]


def test_several_workers_write_several_parts(lake: FlowTable) -> None:
    sources = [f"e/{number}" for number in range(6)]
    items = [(source, row(number + 100 * int(source[2:]), source)) for number in range(20) for source in sources]
    flow = dataflow(items, lake.config(num_partitions=12))
    cluster_main(
        flow, [], 0, worker_count_per_proc=2, recovery_config=lake.recovery(), epoch_interval=timedelta(seconds=60)
    )
    assert lake.ids() == sorted(number + 100 * s for number in range(20) for s in range(6))
    parts = lake.progress().parts
    offsets = {source: offset for part in parts.values() for source, offset in part.offsets.items()}
    assert offsets == {source: 20 + 100 * int(source[2:]) for source in sources}
    assert len(parts) > 1


def test_a_changed_number_of_parts_is_refused_until_the_stream_is_drained(lake: FlowTable) -> None:
    items = [0, 1, 2, 3, 4]
    lake.run([0, 1, 2, ABORT()], every=timedelta(seconds=60), batch_size=2)  # 0 and 1 are in; Bytewax has noted nothing
    with raises(ProgressMismatch, option="num_partitions", source="e/0", expected=2, got=0):
        lake.run(items, every=timedelta(seconds=60), num_partitions=3)
    lake.run(items)  # drains it
    more = [*items, 5, 6]
    lake.run(more, num_partitions=3)
    assert lake.ids() == [0, 1, 2, 3, 4, 5, 6]
    lake.run([*more, 7], num_partitions=1)
    assert lake.ids() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_an_old_number_of_parts_drops_what_a_new_one_has_brought_in(lake: FlowTable) -> None:
    lake.run([0, 1])
    lake.run([0, 1, 2, ABORT(), 3], num_partitions=2, every=timedelta(seconds=60), batch_size=1)
    lake.run([0, 1, 2, 3], num_partitions=1)
    assert lake.ids() == [0, 1, 2, 3]


def test_the_writers_of_another_number_of_parts_are_fenced(lake: FlowTable) -> None:
    old = sink_of(lake.config(num_partitions=1)).build_part("flow.lake", "part-0", None)
    old.write_batch([row(0)])
    old.snapshot()
    old.write_batch([row(1)])
    host = sink_of(lake.config(num_partitions=2))
    host.build_part("flow.lake", host.part_of("e/0"), None)
    with raises(WriterFenced, current=2):
        old.snapshot()
    assert lake.ids() == [0]


def test_a_row_quarantined_under_another_number_of_parts_is_not_quarantined_again(delta: FlowTable) -> None:
    """Delta commits the quarantine first: a writer that dies before the commit of the rows leaves it ahead of the
    table.
    """
    checks = {"options": {"bad_rows": "quarantine", "checks": ["id <> 3"]}}
    commits: list[str] = []

    def die(step: str) -> None:
        commits.extend([step] * (step == "after commit"))
        if len(commits) == 4:  # a take-over, two rows; then a take-over of the quarantine, and a row there
            raise KeyboardInterrupt

    old = sink_of(delta.config(**checks, retry=RetryPolicy(on_step=die))).build_part("flow.lake", "part-0", None)
    old.write_batch([row(0), row(1)])
    old.snapshot()
    old.write_batch([row(2), row(3)])
    with pytest.raises(KeyboardInterrupt):
        old.snapshot()
    host = sink_of(delta.config(num_partitions=2, **checks))
    new = host.build_part("flow.lake", host.part_of("e/0"), None)
    new.write_batch([row(2), row(3), row(4)])
    new.snapshot()
    assert (delta.ids(), delta.read(f"{delta.name}__quarantine").num_rows) == ([0, 1, 2, 4], 1)


def test_a_new_writer_of_a_part_fences_the_old_one(lake: FlowTable) -> None:
    host = sink_of(lake.config())
    old = host.build_part("flow.lake", "part-0", None)
    old.write_batch([row(0)])
    new = host.build_part("flow.lake", "part-0", None)
    new.write_batch([row(0), row(1)])
    new.snapshot()
    with raises(WriterFenced, current=2):
        old.snapshot()
    old.close()
    assert lake.ids() == [0, 1]


def test_a_table_that_went_back_is_noticed(lake: FlowTable) -> None:
    lake.run([0, 1, 2])
    lake.drop()
    lake.create()
    with pytest.raises(BytewaxRuntimeError) as caught:
        lake.run([0, 1, 2, 3])
    assert "says that offset 3 of source partition 'e/0' was reached, but the table stands at its beginning" in str(
        cause(caught.value)
    )
    lake.run([0, 1, 2, 3], recovery="new")
    assert lake.ids() == [0, 1, 2, 3]


def test_rows_under_another_key_or_out_of_order_are_refused(lake: FlowTable) -> None:
    host = sink_of(lake.config(num_partitions=2))
    right = host.part_of("e/0")
    (wrong,) = set(host.list_parts()) - {right}
    with raises(SinkError, source="e/0", expected=right, got=wrong):
        host.build_part("flow.lake", wrong, None).write_batch([row(0)])
    part = host.build_part("flow.lake", right, None)
    part.write_batch([row(5)])
    with raises(ProgressMismatch, source="e/0"):
        part.write_batch([row(5)])
    with raises(ProgressMismatch, problem="unordered"):
        part.write_batch([row(8), row(7)])


def test_arrow_and_dictionaries_of_several_sources_mix(lake: FlowTable) -> None:
    part = sink_of(lake.config()).build_part("flow.lake", "part-0", None)
    arrow = pa.table({"id": [2, 3], "kind": ["a", "b"]})
    values = [
        row(0),
        row(1),
        SourceRows(arrow, "e/0", pa.array([2, 4])),
        row(9, "e/1"),
        SourceRows([], "e/1", []),
        row(5),
    ]
    part.write_batch(values)
    assert part.snapshot() == {"position": {"e/0": 6, "e/1": 10}}
    assert lake.ids() == [0, 1, 2, 3, 5, 9]


def test_an_arrow_schema_is_kept_to_the_letter(lake: FlowTable) -> None:
    schema = pa.schema([("id", pa.int32()), ("kind", pa.string())])
    part = sink_of(lake.config(arrow_schema=schema)).build_part("flow.lake", "part-0", None)
    part.write_batch([row(0)])
    wrong = [
        ({"id": 2**40}, "id"),
        ({"id": 1, "sort": 1}, "sort"),
    ]
    for number, (fields, column) in enumerate(wrong, start=1):
        with raises(SchemaMismatch, column=column):
            part.write_batch([SourceRows([fields], "e/0", [number])])


@pytest.mark.parametrize("option", ["num_partitions", "batch_size"])
def test_a_config_that_cannot_work_is_refused(iceberg: FlowTable, option: str) -> None:
    with raises(SinkError, option=option, expected=1, got=0):
        iceberg.config(**{option: 0})
    with raises(SinkError, option="table_name", got="uplink"):
        IcebergSinkConfig("http://x", "rest", None, "uplink")


def test_another_type_of_catalog_serves_as_well(tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    address, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse"
    catalog = load_catalog("lake", type="sql", uri=address, warehouse=warehouse)
    catalog.create_namespace("lake")
    catalog.create_table("lake.t", SCHEMA)
    part = IcebergSink(IcebergSinkConfig(address, "sql", warehouse, "lake.t")).build_part("flow.lake", "part-0", None)
    part.write_batch([row(0), row(1)])
    part.snapshot()
    assert sorted(catalog.load_table("lake.t").scan().to_arrow()["id"].to_pylist()) == [0, 1]


def test_a_failed_commit_is_reported_and_does_not_abort_the_process(iceberg: FlowTable, tmp_path: Path) -> None:
    """If snapshot() and then close() raised, Bytewax would abort and hide the error."""
    program = f"""
        from bytewax.testing import run_main
        from frazil.sinks.bytewax import IcebergSinkConfig
        from frazil.write.commit.publish import RetryPolicy
        from tests.contract.sinks.test_bytewax import dataflow
        import frazil.client.catalog as client

        def fail(*_): raise ConnectionError("no catalog")
        config = IcebergSinkConfig({iceberg.lake_server.uri!r}, "rest", None, {iceberg.name!r}, retry=RetryPolicy(give_up_seconds=0))
        build = type(config).connect
        def connect(self):
            catalog = build(self)
            commits = []
            real = catalog.commit_changes
            catalog.commit_changes = lambda changes: real(changes) if not commits.append(1) and len(commits) == 1 else fail()
            return catalog
        IcebergSinkConfig.connect = connect
        run_main(dataflow([0, 1], config))
    """  # noqa: E501
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(program))
    root = str(Path(__file__).resolve().parents[3])
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": root},
        cwd=root,
    )
    assert (done.returncode, iceberg.ids()) == (1, [])
    assert "no answer after" in done.stderr
    assert "no catalog" in done.stderr
