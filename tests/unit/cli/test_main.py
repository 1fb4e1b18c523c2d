"""The command line as a whole: what it loads, what it lists, how errors look."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from frazil.cli.main import COMMANDS, cli

HEAVY = {
    "pyspark",
    "pyarrow",
    "pyiceberg",
    "pydantic",
    "pandas",
    "duckdb",
    "daft",
    "polars",
    "deltalake",
    "psycopg",
    "uvicorn",
    "obstore",
    "rich",
}


def run_fresh(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "code", ["import frazil", "from frazil.cli import main; sys.argv = ['frazil', '--help']; atexit.register(report); main()"]
)
def test_importing_frazil_and_asking_for_help_load_no_heavy_library(code: str) -> None:
    report = "import sys, atexit\ndef report(): print('LOADED', *sorted({m.split('.')[0] for m in sys.modules}))\n"
    result = run_fresh(report + code + "\nreport()")
    loaded = set(result.stdout.rsplit("LOADED", 1)[1].split())
    assert loaded & HEAVY == set()


def test_help_lists_every_command_with_its_own_words() -> None:
    context = click.Context(cli)
    for name, (_, text) in COMMANDS.items():
        command = cli.get_command(context, name)
        assert command is not None
        assert command.get_short_help_str(limit=200) == text, name


def test_help_lists_all_commands() -> None:
    listed = CliRunner().invoke(cli, ["--help"]).output
    assert [name for name in COMMANDS if f"  {name} " not in listed] == []


def test_an_error_is_one_message_on_stderr_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_fresh("from frazil.cli import main; main()", "--set", "stack.ports.kafa=1", "config")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "error: unknown setting 'stack.ports.kafa' (flag)\n  try: did you mean 'stack.ports.kafka'?\n"


def test_a_flag_that_is_not_key_value_is_refused() -> None:
    result = CliRunner().invoke(cli, ["--set", "nonsense", "config"])
    assert (result.exit_code, "'nonsense' is not KEY=VALUE" in result.output) == (2, True)
