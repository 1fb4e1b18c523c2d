"""Commands that need the columns of models, before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from frazil.cli.main import cli
from frazil.errors import Unavailable

PROJECT = """
from frazil import Table, column, model

sales = Table("bronze.sales", column("id", "long"))
orders = model("silver.orders", "SELECT id FROM bronze.sales")
"""


@pytest.mark.parametrize("command", ["plan", "apply", "drift"])
def test_a_catalog_that_is_away_is_reported_before_spark_starts(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lakehouse.py").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    away = ["--set", "catalog.uri=http://127.0.0.1:1", "--set", f"spark.ivy_settings={tmp_path / 'none.xml'}"]
    assert isinstance(CliRunner().invoke(cli, [*away, command]).exception, Unavailable)
