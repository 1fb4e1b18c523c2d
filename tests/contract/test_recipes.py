"""The recipes of docs/orchestration.md: the commands for schedulers do what the page says."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "orchestration.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"<!-- recipe: (\w+) -->\n```\w+\n(.*?)```\n", PAGE, re.DOTALL))
PROJECT = """
from frazil import Table, column, pipeline, sources

@pipeline(source=sources.csv("landing/*.csv"), target=Table("lakehouse.sales", column("id", "long")))
def daily_sales(rows):
    return rows
"""


def command(name: str) -> str:
    """The command of a recipe as the shell gets it."""
    if name == "crontab":
        return RECIPES[name].splitlines()[1].split(maxsplit=5)[5]
    service = configparser.ConfigParser(interpolation=None)
    service.optionxform = str  # type: ignore[assignment,method-assign]
    service.read_string(RECIPES[name])
    return f"cd {service['Service']['WorkingDirectory']} && {service['Service']['ExecStart']} > run.jsonl 2> run.log"


@pytest.mark.parametrize("name", ["crontab", "systemd"])
def test_a_scheduler_gets_an_exit_code_and_a_document(name: str, tmp_path: Path) -> None:
    text = command(name).replace("/srv/lakehouse/.venv/bin/frazil", ".venv/bin/frazil")
    text = text.replace(".venv/bin/frazil", f"{sys.executable} -m frazil").replace("/srv/lakehouse", str(tmp_path))
    (tmp_path / "lakehouse.py").write_text(PROJECT)
    assert subprocess.run(text, shell=True, check=False).returncode == 0
    result = json.loads((tmp_path / "run.jsonl").read_text())
    assert (result["pipeline"], result["status"], result["snapshot_id"]) == ("daily_sales", "unchanged", None)
    (tmp_path / "lakehouse.py").write_text("nonsense")
    assert subprocess.run(text, shell=True, check=False).returncode == 1
    assert json.loads((tmp_path / "run.log").read_text().splitlines()[-1])["error"]["type"] == "ProjectError"


def test_the_commands_of_the_dag_are_commands_of_frazil() -> None:
    from click.testing import CliRunner

    from frazil.cli.main import cli

    commands = re.findall(r'bash_command=f"\{FRAZIL\} (.*?)"', RECIPES["airflow"])
    assert len(commands) == 2
    compile(RECIPES["airflow"], "dag.py", "exec")
    for each in commands:
        assert CliRunner().invoke(cli, [*each.split(), "--help"]).exit_code == 0
