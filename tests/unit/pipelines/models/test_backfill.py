"""Which tables have a backfill, and what the command says of the others."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner

from frazil import Table, column
from frazil.cli.main import cli
from frazil.errors import PipelineError, ProjectError
from frazil.pipelines.models import Days, derivation_of, model
from frazil.pipelines.models.backfill import plan_backfill

SQL = "SELECT day, region, count(*) AS rows FROM silver.orders GROUP BY day, region"
DAYS = Days(dt.date(2024, 1, 1), dt.date(2024, 1, 31))


def backfill(partition_by: list[str], **options: Any) -> str:
    table = Table("gold.x", column("day", "date"), column("region", "string"), partition_by=partition_by)
    layout = SimpleNamespace(schema=table.schema(), spec=table.partition_spec())
    declared = model("gold.x", SQL, partition_by=partition_by, **options)
    return plan_backfill(derivation_of(declared), cast("Any", layout), DAYS).decision.reason


def test_a_table_with_one_date_among_its_partition_columns_has_a_backfill() -> None:
    reason = "a backfill of day from 2024-01-01 to 2024-01-31 was asked for"
    assert backfill(["region", "day"], mode="replace-partition") == reason


@pytest.mark.parametrize(
    ("partition_by", "options"),
    [(["day"], {}), (["region"], {"mode": "replace-partition"}), (["month(day)"], {"mode": "replace-partition"})],
    ids=["a rebuild", "no date", "no plain column"],
)
def test_other_tables_are_refused_with_the_way_out(partition_by: list[str], options: dict[str, Any]) -> None:
    with pytest.raises(PipelineError) as raised:
        backfill(partition_by, **options)
    assert (raised.value.problem, raised.value.hint) == (
        "backfill",
        "frazil run gold.x --full-refresh computes all of it again",
    )


@pytest.mark.parametrize(
    "words", [("--since", "2024-01-02"), ("m.x", "--since", "2024-01-02", "--until", "2024-01-01")]
)
def test_a_backfill_needs_a_name_and_a_range(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lakehouse.py").write_text("from frazil import model\nx = model('m.x', 'SELECT a FROM m.y')\n")
    monkeypatch.chdir(tmp_path)
    assert isinstance(CliRunner().invoke(cli, ["run", *words]).exception, ProjectError)
