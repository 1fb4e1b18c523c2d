"""What is out of date, why and since when: `frazil graph --state` and `frazil run --dry-run`, without Spark."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from frazil import Lake
from frazil.catalog.embedded import running_catalog
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from frazil.errors import PipelineError
from frazil.history import branch_table
from frazil.pipelines import RunResult, note_run
from frazil.pipelines.models import derivation_of
from frazil.project import load_project
from frazil.sinks import part_name
from frazil.write.commit import InputState, PartProgress, Progress, property_key
from tests.kit.raising import raises

PROJECT = """
from frazil import Table, column, model, pipeline, sources

columns = column("id", "long"), column("day", "date"), column("amount", "long")
sales = Table("bronze.sales", *columns)
events = Table("bronze.events", column("id", "long"))
copies = Table("silver.copies", column("id", "long"))


@pipeline(source=sources.csv("landing/*.csv"), target=sales)
def load_sales(rows):
    return rows


@pipeline(source=sources.kafka("events", servers="127.0.0.1:1"), target=events)
def load_events(rows):
    return rows


@pipeline(source=sources.spark("jdbc", url="jdbc:none"), target=copies, mode="rebuild")
def copy_rows(rows):
    return rows


orders = model("silver.orders", "SELECT id, day, amount FROM bronze.sales", mode="append", columns=columns)
revenue = model(
    "gold.revenue", "SELECT day, sum(amount) AS amount FROM silver.orders GROUP BY day",
    mode="replace-partition", partition_by="day", columns=(column("day", "date"), column("amount", "long")),
)
"""
PAGE = Path(__file__).resolve().parents[3] / "docs/cli-json.md"
MINUTES_AGO = dt.timedelta(minutes=90)


class DerivedLake:
    """A project whose models have run on one row of bronze.sales; no Spark is needed to say so."""

    def __init__(self, catalog: FrazilCatalog, folder: Path) -> None:
        self.catalog, self.lake, self.folder = catalog, Lake(catalog=catalog), folder
        self.project = load_project(folder)
        tables = [*self.project.tables, *(model.table() for model in self.project.models)]
        self.lake.apply(tables)
        self.add()
        self.computed("silver.orders", "gold.revenue")

    def add(self, table: str = "bronze.sales", branch: str = "main") -> int:
        """One more row; gives the time of its snapshot."""
        rows = [{"id": 1, "day": dt.date(2024, 1, 15), "amount": 5}]
        fields = self.catalog.load_table(table).schema().column_names
        rows = [{name: value for name, value in row.items() if name in fields} for row in rows]
        self.lake.table(table).append(rows, branch=branch)
        snapshot = self.catalog.load_table(table).snapshot_by_name(branch)
        assert snapshot is not None
        return snapshot.timestamp_ms

    def computed(self, *names: str) -> None:
        """Models have read what their inputs have now."""
        for name in names:
            derivation = derivation_of(self.project.model(name))
            inputs = {each: self._state(each) for each in derivation.tables}
            part = PartProgress(1, "w", 1, inputs=inputs, definition=derivation.definition)
            progress = Progress({part_name(name, 0): part}).dump()
            table = self.catalog.load_table(name)
            if table.current_snapshot() is None:
                self.add(name)
            self.catalog.load_table(name).transaction().set_properties({property_key(): progress}).commit_transaction()

    def _state(self, name: str) -> InputState:
        table = self.catalog.load_table(name)
        snapshot = table.current_snapshot()
        return InputState(str(table.metadata.table_uuid), snapshot.snapshot_id if snapshot else None)

    def land(self, name: str) -> Path:
        path = self.folder / "landing" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("id,day,amount\n2,2024-01-15,7\n")
        return path

    def states(self, *words: str) -> dict[str, Any]:
        shown = json.loads(frazil("graph", "--state", *words, "--output", "json").stdout)
        return {node["name"]: node["state"] for node in shown["nodes"]}


def frazil(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words), catch_exceptions=False)


def actions(*words: str) -> dict[str, str]:
    shown = json.loads(frazil("run", *words, "--dry-run", "--output", "json").stdout)
    return {each["name"]: each["action"] for each in shown["models"]}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DerivedLake]:
    (tmp_path / "lakehouse.py").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    with running_catalog() as server:
        monkeypatch.setenv("FRAZIL_CATALOG__URI", server.uri)
        yield DerivedLake(FrazilCatalog("lake", **server.properties), tmp_path)


def test_what_is_up_to_date_says_so_and_what_is_not_looked_at_is_unknown(lake: DerivedLake) -> None:
    states = lake.states()
    assert {name: state["status"] for name, state in states.items()} == {
        "load_sales": "up to date",
        "load_events": "unknown",
        "copy_rows": "out of date",  # has not run yet
        "silver.orders": "up to date",
        "gold.revenue": "up to date",
    }
    assert {state["lag_ms"] for state in states.values()} == {None}
    note_run(RunResult("copy_rows", "silver.copies", run_id="1"), "silver.copies", lake.catalog)
    assert lake.states("copy_rows")["copy_rows"]["status"] == "unknown"


def test_a_commit_makes_all_that_depends_on_it_out_of_date_since_then(lake: DerivedLake) -> None:
    first, last = lake.add(), lake.add()
    states = lake.states("silver.orders+")
    for state, reason in zip(
        states.values(), ["bronze.sales: 2 rows were appended", "silver.orders is out of date"], strict=True
    ):
        assert (state["status"], state["reason"]) == ("out of date", reason)
        assert (state["oldest_waiting_ms"], state["newest_waiting_ms"]) == (first, last)
        assert 0 <= state["lag_ms"] < 600_000


def test_a_new_file_makes_its_table_and_what_reads_it_out_of_date(lake: DerivedLake) -> None:
    path = lake.land("a.csv")
    landed = dt.datetime.now(dt.UTC) - MINUTES_AGO
    os.utime(path, (landed.timestamp(), landed.timestamp()))
    lines = frazil("graph", "--state", "load_sales+").stdout.splitlines()
    assert lines == [
        "load_sales -> bronze.sales  files landing/*.csv, append",
        "│    out of date for 1 hour: 1 new file (29 B)",
        "│    has not run yet",
        "└─ silver.orders  model, append, reads bronze.sales",
        "   │    out of date for 1 hour: bronze.sales is out of date",
        "   │    has not run yet",
        "   └─ gold.revenue  model, replace-partition, reads silver.orders",
        "           out of date for 1 hour: silver.orders is out of date",
        "           has not run yet",
    ]


def test_the_last_run_is_shown_with_its_rows_or_its_error(lake: DerivedLake) -> None:
    began = dt.datetime.now(dt.UTC) - MINUTES_AGO
    done = RunResult("silver.orders", "silver.orders", rows=3, seconds=1.25, run_id="1", started_at=began)
    note_run(done, "silver.orders", lake.catalog)
    assert "     last run 1 hour ago: 3 rows in 1.2 s" in frazil("graph", "--state", "silver.orders").stdout
    failed = RunResult("silver.orders", "silver.orders", run_id="2", error="no disk\n  1 of 3 files")
    note_run(failed, "silver.orders", lake.catalog)
    assert frazil("graph", "--state", "silver.orders").stdout.endswith(" ago: failed: no disk\n")
    last_run = lake.states("silver.orders")["silver.orders"]["last_run"]
    assert (last_run["run_id"], last_run["status"], last_run["error"]) == ("2", "failed", failed.error)
    listed = json.loads(frazil("runs", "--output", "json").stdout)  # also those of models
    assert [run["run_id"] for run in listed] == ["2", "1"]


def test_the_state_for_programs_is_what_the_page_shows(lake: DerivedLake) -> None:
    note_run(RunResult("silver.orders", "silver.orders", run_id="1"), "silver.orders", lake.catalog)
    lake.add()
    blocks = re.findall(r"```json\n(\{\n  \"state\".*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (documented,) = [json.loads(block)["state"] for block in blocks]
    state = lake.states()["silver.orders"]
    assert (list(state), list(state["last_run"])) == (list(documented), list(documented["last_run"]))


def test_a_table_that_a_run_cannot_compute_says_why(lake: DerivedLake) -> None:
    lake.lake.table("bronze.sales").delete("id = 1")
    state = lake.states()["silver.orders"]
    assert state["status"] == "fails"
    assert "mode 'append' can only add rows" in state["reason"]
    lake.catalog.drop_table("gold.revenue")
    assert "does not exist" in lake.states()["gold.revenue"]["reason"]


def test_history_that_expired_before_it_was_read_is_reported_and_not_guessed(lake: DerivedLake) -> None:
    table = lake.catalog.load_table("bronze.sales")
    read = table.metadata.current_snapshot_id
    lake.add()
    lake.add()
    table.refresh().maintenance.expire_snapshots().by_ids([read]).commit()
    state = lake.states()["silver.orders"]
    assert state["status"] == "fails"
    assert f"snapshot {read}, which was read last, has expired" in state["reason"]
    with raises(PipelineError, problem="expired", hint=re.compile("frazil run silver.orders --full-refresh")):
        frazil("run", "silver.orders", "--dry-run")
    assert actions("silver.orders", "--full-refresh") == {"silver.orders": "rebuild"}


def test_a_rollback_counts_from_when_it_was_made(lake: DerivedLake) -> None:
    first = lake.catalog.load_table("silver.orders").current_snapshot()
    assert first is not None
    lake.add("silver.orders")
    lake.computed("gold.revenue")
    before_ms = int(dt.datetime.now(dt.UTC).timestamp() * 1000)
    with lake.catalog.load_table("silver.orders").manage_snapshots() as change:  # as other tools do
        change.rollback_to_snapshot(first.snapshot_id)
    state = lake.states()["gold.revenue"]
    assert "was rolled back" in state["reason"]
    assert state["oldest_waiting_ms"] >= before_ms > first.timestamp_ms


def test_an_environment_has_a_state_of_its_own(lake: DerivedLake) -> None:
    branch_table(lake.catalog, ("bronze", "sales"), "dev")
    lake.add(branch="dev")
    names = ("silver.orders", "gold.revenue")
    assert [lake.states()[name]["status"] for name in names] == ["up to date"] * 2
    assert [lake.states("--env", "dev")[name]["status"] for name in names] == ["out of date"] * 2
    assert actions("silver.orders") == {"silver.orders": "nothing"}
    assert actions("silver.orders", "--env", "dev") == {"silver.orders": "append"}


def test_a_backfill_is_done_although_nothing_is_new(lake: DerivedLake) -> None:
    assert actions("gold.revenue") == {"gold.revenue": "nothing"}
    assert actions("gold.revenue", "--since", "2024-01-15") == {"gold.revenue": "replace partitions"}


def test_a_plan_says_which_mode_each_model_has_and_why(lake: DerivedLake) -> None:
    (lake.folder / "lakehouse.py").write_text(
        PROJECT + 'report = model("gold.report", "SELECT max(day) AS day, now() AS at FROM silver.orders", '
        'columns=(column("day", "date"), column("at", "timestamptz")))\n'
    )
    assert frazil("plan").stdout.splitlines()[-4:] == [
        "silver.orders: mode append (declared)",
        "gold.revenue: mode replace-partition (declared)",
        "gold.report: mode rebuild (no mode declared: rebuilt from its inputs)",
        "  now: a run over the same rows gives another result",
    ]
    (planned,) = json.loads(frazil("plan", "gold.revenue", "--output", "json").stdout)["models"]
    (documented,) = documented_plan()["models"]
    assert planned == {
        "name": "gold.revenue",
        "mode": "replace-partition",
        "mode_reason": "declared",
        "driving": "silver.orders",
        "columns": [{"name": "day", "type": "date"}, {"name": "amount", "type": "long"}],
        "notes": [],
    }
    assert (list(documented), list(documented["columns"][0])) == (list(planned), list(planned["columns"][0]))


def documented_plan() -> Any:
    """The example of docs/cli-json.md."""
    blocks = re.findall(r"### `frazil plan`\n.*?```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return json.loads(blocks[0])


@pytest.mark.parametrize("words", [("--state", "--output", "dot"), ("--env", "dev")])
def test_options_that_make_no_sense_together_are_refused(lake: DerivedLake, words: tuple[str, ...]) -> None:
    assert frazil("graph", *words).exit_code == 2
