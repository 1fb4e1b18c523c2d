"""`frazil run` over loads and models in one command: order, side by side, failures, environments, and the document for
programs.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from frazil import Lake
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from frazil.errors import PipelineError
from frazil.history import RowSource
from tests.kit.spark_lake import CONF

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
GROUP = """
from frazil import Table, column, model, pipeline, sources

orders = Table("bronze.orders", column("id", "long"), column("day", "date"), column("amount", "long"))


@pipeline(source=sources.csv("landing/*.csv"), target=orders)
def load_orders(rows):
    return rows


clean = model("silver.clean", "SELECT id, day, amount FROM bronze.orders", mode="upsert", key="id", group="daily")
revenue = model(
    "gold.revenue", "SELECT day, sum(amount) AS amount FROM silver.clean GROUP BY day",
    mode="replace-partition", partition_by="day", group="daily", audit="amount < 1000",
)
"""
CHECKED = """
checked = model("silver.checked", "SELECT id, amount FROM bronze.orders", checks="amount < 100")
report = model("gold.report", "SELECT count(*) AS rows FROM silver.checked")
"""


class LakeProject:
    """A project with landing files, on a catalog of its own."""

    def __init__(self, server: EmbeddedCatalog, folder: Path) -> None:
        self.folder, self.uri = folder, server.uri
        (folder / "landing").mkdir()
        self.write(GROUP + CHECKED)
        self.lake = Lake(catalog=FrazilCatalog("lake", **server.properties))

    def write(self, text: str) -> None:
        (self.folder / "lakehouse.py").write_text(text)

    def land(self, name: str, *rows: tuple[int, str, int]) -> None:
        lines = ["id,day,amount", *(",".join(map(str, row)) for row in rows)]
        (self.folder / "landing" / name).write_text("\n".join(lines) + "\n")

    def frazil(self, *words: str) -> Result:
        settings = {"catalog.uri": self.uri, **CONF}
        flags = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        return CliRunner().invoke(cli, [*flags, *words])

    def document(self, *words: str) -> Any:
        result = self.frazil(*words, "--output", "json")
        return json.loads(result.stdout)

    def head(self, table: str, ref: str = "main") -> int:
        """The current snapshot."""
        return self.lake.catalog.load_table(table).metadata.refs[ref].snapshot_id

    def columns(self, table: str) -> list[str]:
        fields = self.lake.catalog.load_table(table).schema().fields
        return [f"{field.name}: {'required' if field.required else 'optional'} {field.field_type}" for field in fields]

    def data_files(self) -> set[Path]:
        return set((self.folder / "catalog").rglob("*.parquet"))

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in self.lake.table(table).scan().to_arrow().to_pylist())


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakeProject]:
    monkeypatch.chdir(tmp_path)
    with running_catalog(tmp_path / "catalog") as server:
        yield LakeProject(server, tmp_path)


def landing_files(sources: Sequence[RowSource]) -> set[str]:
    """The files behind a row, through all tables that it was made from."""
    behind = {file.path for source in sources for file in source.origins.files}
    return behind.union(*(landing_files(table.snapshots) for source in sources for table in source.upstream))


def test_loads_and_models_run_side_by_side_and_a_failure_stops_what_depends_on_it(project: LakeProject) -> None:
    planned = project.frazil("plan")
    assert {
        "+ table silver.clean (3 columns)",
        "+ table gold.revenue (2 columns, partitioned by day)",
        "gold.revenue: mode replace-partition (declared)",
        "  columns, as Spark finds them: day: date, amount: long",
    } <= set(planned.stdout.splitlines())
    applied = project.frazil("apply")
    assert applied.exit_code == 0, applied.output
    assert project.columns("gold.revenue") == ["day: optional date", "amount: optional long"]  # as Spark says
    project.land("a.csv", (1, "1970-01-02", 10), (2, "1970-01-03", 20))
    expected = project.document("run", "--dry-run")
    assert [(each["name"], each["action"]) for each in expected["models"]] == [
        ("silver.clean", "compute everything"),
        ("gold.revenue", "compute everything"),
        ("silver.checked", "rebuild"),
        ("gold.report", "rebuild"),
    ]
    assert [(each["pipeline"], each["status"]) for each in expected["results"]] == [("load_orders", "pending")]

    done = project.document("run")
    names = ["load_orders", "silver.clean", "gold.revenue", "silver.checked", "gold.report"]
    assert [(each["pipeline"], each["status"]) for each in done["results"]] == [(name, "committed") for name in names]
    (order,) = project.lake.table("bronze.orders").blame("id = 2").rows
    assert [(file.path, file.lines) for file in order.sources[0].origins.files] == [("landing/a.csv", (3,))]
    (summary,) = project.lake.table("gold.revenue").blame("amount = 20").rows
    assert landing_files(summary.sources) == {"landing/a.csv"}  # by way of silver.clean and bronze.orders

    project.land("b.csv", (3, "1970-01-03", 500))
    failed = project.frazil("run", "--threads", "3")
    assert isinstance(failed.exception, PipelineError)
    assert failed.exception.message == "1 of 4 failed: silver.checked"
    lines = [line for line in failed.stdout.splitlines() if not line.startswith("  ")]
    assert [line.split(" rows")[0].split(" at ")[0] for line in lines] == [
        "load_orders: 1",
        "silver.clean: 1",
        "gold.revenue: 1",
        "silver.checked: failed: silver.checked: row",
        "gold.report: skipped: silver.checked failed",
    ]
    assert project.rows("gold.report") == [(2,)]
    assert project.rows("gold.revenue")[1][1] == 520

    clean = project.head("silver.clean")
    project.land("big.csv", (5, "1970-01-05", 1000))
    grouped = project.document("run", "load_orders", "group:daily")  # a group is atomic without --atomic
    assert [(each["pipeline"], each["status"]) for each in grouped["results"]] == [
        ("load_orders", "committed"),
        ("silver.clean", "failed"),
        ("gold.revenue", "failed"),
    ]
    assert (project.head("silver.clean"), len(project.rows("gold.revenue"))) == (clean, 2)

    project.land("c.csv", (4, "1970-01-04", 40))
    atomic = project.document("run", "--atomic")
    assert {each["pipeline"]: each["status"] for each in atomic["results"]} == {
        "load_orders": "committed",
        **dict.fromkeys(names[1:], "failed"),
    }
    assert (len(project.rows("silver.clean")), len(project.rows("gold.revenue"))) == (3, 2)  # as before


def test_days_of_a_model_or_all_of_it_are_computed_again_though_nothing_is_new(project: LakeProject) -> None:
    project.write(GROUP)
    assert project.frazil("apply").exit_code == 0
    project.land("a.csv", (1, "1970-01-02", 10), (2, "1970-01-03", 20))
    assert project.frazil("run").exit_code == 0
    second, third = (dt.date(1970, 1, day) for day in (2, 3))
    strays = [{"day": day, "amount": 1} for day in (second, third)]  # of another writer, on both days
    project.lake.table("gold.revenue").append(strays)
    (day,) = project.document("run", "gold.revenue", "--since", "1970-01-03", "--until", "1970-01-03")["results"]
    assert (day["status"], day["rows"]) == ("committed", 1)
    assert project.rows("gold.revenue") == [(second, 1), (second, 10), (third, 20)]
    (full,) = project.document("run", "gold.revenue", "--full-refresh")["results"]
    assert (full["status"], full["rows"]) == ("committed", 2)
    assert full["inputs"] == {"silver.clean": project.head("silver.clean")}
    assert project.rows("gold.revenue") == [(second, 10), (third, 20)]


def test_an_environment_is_computed_compared_and_published_without_a_copy(project: LakeProject) -> None:
    project.write(GROUP)
    applied = project.frazil("apply")
    assert applied.exit_code == 0, applied.output
    project.land("a.csv", (1, "1970-01-02", 10), (2, "1970-01-03", 20))
    names = ["bronze.orders", "silver.clean", "gold.revenue"]
    done = project.document("run", "--env", "dev")
    assert {each["table"]: each["status"] for each in done["results"]} == dict.fromkeys(names, "committed")
    assert [project.rows(name) for name in names] == [[]] * 3
    inputs = {each["table"]: each["inputs"] for each in done["results"]}
    heads = {name: project.head(name, ref="dev") for name in names}
    assert (inputs[names[0]], inputs[names[1]]) == ({}, {names[0]: heads[names[0]]})
    assert set(inputs[names[2]]) == {names[1]}
    differences = project.document("env", "diff", "dev")["tables"]
    assert {each["table"]: (each["rows_added"], each["rows_removed"]) for each in differences} == dict.fromkeys(
        names, (2, 0)
    )

    files = project.data_files()
    published = project.frazil("env", "publish", "dev", "--yes")
    assert published.exit_code == 0, published.output
    assert project.data_files() == files
    assert [len(project.rows(name)) for name in names] == [2] * 3
    assert project.document("env", "list") == []
    again = project.document("run")
    assert [(each["table"], each["status"]) for each in again["results"]] == [("bronze.orders", "unchanged")]
    assert {each["name"]: each["reason"] for each in again["models"]} == dict.fromkeys(
        names[1:], "no input has new rows"
    )
    assert project.data_files() == files
