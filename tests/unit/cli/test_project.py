"""`frazil run` where there is nothing to read."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from frazil.cli.main import cli

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/sales/lakehouse.py"


def test_a_pattern_that_matches_no_file_is_named_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lakehouse.py").write_text(EXAMPLE.read_text())
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["run", "daily_sales"])
    assert (result.exit_code, result.output) == (
        0,
        f"daily_sales: no file matches 'landing/*.csv' in {tmp_path}; lakehouse.sales is unchanged\n",
    )
