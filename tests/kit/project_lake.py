"""The project of examples/sales with tables that look as if its pipelines had run, and a stream: no Spark is needed."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path
from typing import Any

from frazil import Lake, Table, column
from frazil.client import FrazilCatalog
from frazil.pipelines import RunResult, note_run
from frazil.pipelines.models import derivation_of
from frazil.project import load_project
from frazil.sinks import part_name
from frazil.tables import apply_steps, plan_all
from frazil.write.commit import InputState, PartProgress, Progress, property_key

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "sales"
MARKUP = '<img src=x onerror="window.hit=1">'
COLUMNS = {
    "silver.customers": ("customer_id", "name", "country"),
    "silver.orders": ("day", "order_id", "customer_id", "amount", "country"),
    "gold.revenue": ("day", "country", "orders", "revenue"),
}
BATCHES = 6


def copy_project(folder: Path, *, more: str = "") -> Path:
    """The files of the example, with more code at the end of `lakehouse.py`."""
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".frazil"))
    file = folder / "lakehouse.py"
    file.write_text(file.read_text(encoding="utf-8") + more, encoding="utf-8")
    return folder


class ProjectLake:
    """A project and its tables; the models have read what there is."""

    def __init__(self, catalog: FrazilCatalog, folder: Path) -> None:
        self.catalog, self.lake, self.folder = catalog, Lake(catalog=catalog), folder
        self.project = load_project(folder)
        texts = [Table(name, *(column(each, "string") for each in names)) for name, names in COLUMNS.items()]
        tables = [*self.project.tables, *texts, Table("lakehouse.events", column("id", "long"))]
        assert list(apply_steps(plan_all(tables, catalog), catalog, owner=folder.name))
        self.add_sales()
        self.lake.table("lakehouse.customers").append([{"customer_id": "c", "updated_at": dt.datetime(2026, 1, 1)}])
        for name in ("silver.customers", "silver.orders", "gold.revenue"):
            self.lake.table(name).append([dict.fromkeys(COLUMNS[name], "x")])
            self.compute(name)

    def add_sales(self) -> None:
        """One more order, that silver.orders has not read."""
        order = {"order_id": "o", "customer_id": "c", "amount": 1, "ingestion_date": dt.date(2026, 1, 1)}
        self.lake.table("lakehouse.sales").append([order])

    def compute(self, name: str) -> None:
        """A model has read what its inputs have now."""
        derivation = derivation_of(self.project.model(name))
        inputs = {each: self._state(each) for each in derivation.tables}
        part = PartProgress(1, "w", 1, inputs=inputs, definition=derivation.definition)
        progress = Progress({part_name(name, 0): part}).dump()
        self.catalog.load_table(name).transaction().set_properties({property_key(): progress}).commit_transaction()

    def _state(self, name: str) -> InputState:
        table = self.catalog.load_table(name)
        snapshot = table.current_snapshot()
        return InputState(str(table.metadata.table_uuid), snapshot.snapshot_id if snapshot else None)

    def add_runs(self) -> None:
        """A run that was committed, one that failed, and one of a model."""
        began = dt.datetime(2026, 7, 1, 6, tzinfo=dt.UTC)
        good = {"files": 3, "bytes": 4096, "rows_in": 1203, "rows": 1200, "quarantined": 3, "seconds": 12.5}
        self.note("daily_sales", "lakehouse.sales", started_at=began, run_id="1", snapshot_id=2**62, **good)
        later = began + dt.timedelta(days=1)
        self.note("daily_sales", "lakehouse.sales", started_at=later, run_id="2", seconds=0.5, error=f"no {MARKUP}")
        self.note("gold.revenue", "gold.revenue", started_at=later, run_id="3", rows=31, seconds=4.25)

    def note(self, pipeline: str, table: str, **facts: Any) -> None:
        note_run(RunResult(pipeline, table, **facts), table, self.catalog)

    def stream(self, batches: int = BATCHES) -> None:
        """Micro-batches of a stream, and what it says about itself in the project's folder."""
        with self.lake.sink("lakehouse.events", name="uplink", flush_rows=50) as sink:
            for batch in range(batches):
                rows = [{"id": number} for number in range(50 * batch, 50 * batch + 50)]
                sink.write(rows, position={"uplink/0": 50 * batch + 50})
        state = self.folder / ".frazil" / "streams" / "uplink"
        state.mkdir(parents=True)
        progress = {"pipeline": "uplink", "table": "lakehouse.events", "batches": batches, "rows": 50 * batches}
        progress |= {"lag": 7, "batch_seconds": 1.5, "rows_per_second": 33.3, "quarantined": 2, "batch_rows": 50}
        (state / "progress.json").write_text(json.dumps(progress), encoding="utf-8")
