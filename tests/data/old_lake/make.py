"""Makes `lake.tar.gz`: a lake as commit 6cefdda wrote it. Run it with that version installed, not with this one.

    git worktree add ../old 6cefdda && make -C ../old setup
    ../old/.venv/bin/python tests/data/old_lake/make.py

Metadata and manifests hold absolute paths, so the lake is made at ROOT, and tests unpack it there.
"""

from __future__ import annotations

import shutil
import tarfile
from datetime import timedelta
from pathlib import Path
from typing import Any

ROOT = Path("/tmp/frazil-lake-6cefdda")
ARCHIVE = Path(__file__).with_name("lake.tar.gz")
LAKEHOUSE = """from frazil import Table, column, pipeline, sources

sales = Table(
    "lake.sales",
    column("order_id", "string", required=True),
    column("amount", "decimal(12,2)", required=True),
    column("day", "date", required=True),
    partition_by=["day"],
    checks=["amount >= 0"],
)


@pipeline(source=sources.csv("landing/*.csv"), target=sales, key=["order_id"], order_by="version", max_bad_share=0.5)
def daily_sales(orders):
    return orders
"""
FIRST = "order_id,amount,day,version\nORD-1,12.50,2024-01-15,1\nORD-1,13.00,2024-01-15,2\nORD-2,much,2024-01-15,1\n"
SECOND = "order_id,amount,day,version\nORD-3,7.00,2024-01-16,1\n"


def main() -> None:
    from frazil.catalog.embedded import running_catalog
    from frazil.client import FrazilCatalog

    shutil.rmtree(ROOT, ignore_errors=True)
    ROOT.mkdir()
    with running_catalog(ROOT) as server:
        catalog = FrazilCatalog("lake", **server.properties)
        catalog.create_namespace("lake")
        make_events(catalog)
        make_customers(catalog)
        make_delta()
        make_flow(catalog, server.uri)
        make_sales(catalog, server.uri)
    shutil.rmtree(ROOT / "project" / "__pycache__", ignore_errors=True)
    with tarfile.open(ARCHIVE, "w:gz") as archive:
        archive.add(ROOT, arcname=".")
    shutil.rmtree(ROOT)


def schema() -> Any:
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField, StringType

    return Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "kind", StringType()))


def make_events(catalog: Any) -> None:
    """A stream of the Python sink with quarantined rows, a tag, a branch and an evolved schema."""
    from frazil.sinks.partitioning import partition_spec

    import frazil.sinks

    catalog.create_table("lake.events", schema(), partition_spec=partition_spec(schema(), ["kind"]))
    for first in (0, 10):
        with frazil.sinks.open("lake.events", name="s", catalog=catalog, bad_rows="quarantine") as sink:
            rows = [{"id": number, "kind": f"k{number % 2}"} for number in range(first, first + 10)]
            sink.write([*rows, {"id": "no number", "kind": "bad"}], position=first + 11)
    events = catalog.load_table("lake.events")
    events.manage_snapshots().create_tag(events.snapshots()[1].snapshot_id, "first").commit()
    events.manage_snapshots().create_branch(events.metadata.current_snapshot_id, "audit").commit()
    with events.update_schema() as update:
        update.rename_column("kind", "sort")


def make_customers(catalog: Any) -> None:
    """Upserts with deletes."""
    import frazil.sinks

    catalog.create_table("lake.customers", schema(), properties={"write.merge.mode": "merge-on-read"})
    changes = [[("c", n, "old") for n in range(5)], [("u", 1, "new"), ("d", 2, None), ("c", 9, "late")]]
    for number, batch in enumerate(changes, start=1):
        with frazil.sinks.open("lake.customers", name="crm", catalog=catalog, mode="upsert", key="id", op="op") as sink:
            sink.write([{"op": op, "id": id_, "kind": kind} for op, id_, kind in batch], position=number)


def make_delta() -> None:
    """A Delta table of the Python sink."""
    import frazil.sinks
    from frazil.sinks.delta import create_delta_table

    create_delta_table(str(ROOT / "delta"), schema())
    with frazil.sinks.open_delta(str(ROOT / "delta"), name="s") as sink:
        sink.write([{"id": number, "kind": "k"} for number in range(3)], position=3)


def make_flow(catalog: Any, uri: str) -> None:
    """A Bytewax dataflow that was aborted after five of ten items, with its recovery store."""
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.recovery import RecoveryConfig, init_db_dir
    from bytewax.testing import TestingSource, run_main

    from frazil.sinks.bytewax import IcebergSink, IcebergSinkConfig, SourceRows

    catalog.create_table("lake.flow", schema())
    (ROOT / "recovery").mkdir()
    init_db_dir(ROOT / "recovery", 1)
    flow = Dataflow("flow")
    numbers = op.input("numbers", flow, TestingSource([*range(5), TestingSource.ABORT(), *range(5, 10)]))
    rows = op.map("rows", numbers, lambda number: ("e/0", SourceRows([{"id": number, "kind": "k"}], "e/0", [number])))
    config = IcebergSinkConfig(uri, "rest", None, "lake.flow", batch_size=2, num_partitions=1)
    op.output("lake", rows, IcebergSink(config))
    run_main(flow, epoch_interval=timedelta(0), recovery_config=RecoveryConfig(str(ROOT / "recovery")))


def make_sales(catalog: Any, uri: str) -> None:
    """A pipeline that has run twice: ledger, runs and quarantine are next to its table."""
    from frazil.pipelines.run import run_pipeline
    from frazil.pipelines.session import spark_session

    from frazil.config import load_settings
    from frazil.project import load_project
    from frazil.tables.apply import apply_steps, plan

    landing = ROOT / "project" / "landing"
    landing.mkdir(parents=True)
    (ROOT / "project" / "lakehouse.py").write_text(LAKEHOUSE)
    project = load_project(ROOT / "project")
    for table in project.tables:
        list(apply_steps(plan(table, catalog), catalog))
    settings = load_settings(flags={"catalog.uri": uri, "spark.master": "local[2]"}, folder=landing, environ={})
    with spark_session(settings, app_name="make", log=Path("/tmp/frazil-lake-6cefdda.log")) as spark:
        for name, text in (("a.csv", FIRST), ("b.csv", SECOND)):
            (landing / name).write_text(text)
            run_pipeline(project.pipeline("daily_sales"), spark=spark, catalog=catalog, folder=project.folder)


if __name__ == "__main__":
    main()
