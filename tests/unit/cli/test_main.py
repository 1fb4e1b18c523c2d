"""The command line as a whole: what it loads, what it lists, how errors look."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from frazil.cli.main import COMMANDS, SECTIONS, cli

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
    "code",
    ["import frazil", "from frazil.cli import main; sys.argv = ['frazil', '--help']; atexit.register(report); main()"],
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


def test_help_groups_the_commands_by_section_one_line_each() -> None:
    lines = CliRunner().invoke(cli, ["--help"], terminal_width=80).output.splitlines()
    listed = lines[lines.index("Project:") :]
    assert (
        listed
        == [
            line
            for title, commands in SECTIONS.items()
            for line in (f"{title}:", *(f"  {name:<10}  {text}" for name, (_, text) in commands.items()), "")
        ][:-1]
    )
    assert max(map(len, listed)) <= 80


def test_an_error_is_one_message_on_stderr_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_fresh("from frazil.cli import main; main()", "--set", "stack.ports.kafa=1", "config")
    assert (result.returncode, result.stdout) == (2, "")
    assert (
        result.stderr == "error: unknown setting 'stack.ports.kafa' (flag)\n  try: did you mean 'stack.ports.kafka'?\n"
    )


def test_an_unexpected_error_ends_with_one_line_and_its_traceback_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    program = (
        "import importlib\nmain = importlib.import_module('frazil.cli.main')\n"
        "def broken(*_, **__): raise RuntimeError('a \\x1b[31m red one')\n"
        "main.cli.main = broken\n"
        "main.main(['plan'])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "\x1b" not in done.stderr
    assert done.stderr.splitlines()[-2].startswith("error: unexpected: RuntimeError: a \\x1b[31m red one")


def test_a_flag_that_is_not_key_value_is_refused() -> None:
    result = CliRunner().invoke(cli, ["--set", "nonsense", "config"])
    assert (result.exit_code, "'nonsense' is not KEY=VALUE" in result.output) == (2, True)


def test_a_terminal_of_another_encoding_gets_every_line(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "frazil", "doctor"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        encoding="ascii",
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.stdout.splitlines()[-1].endswith("checked")


def test_no_color_is_honoured_on_a_terminal(tmp_path: Path) -> None:
    def said(**environ: str) -> str:
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "frazil", "plan"]
        subprocess.run(command, cwd=tmp_path, env={**os.environ, **environ}, stdout=theirs, stderr=theirs, check=False)
        os.close(theirs)
        with os.fdopen(ours, "rb") as terminal:
            return terminal.read1().decode()

    assert said(NO_COLOR="1").startswith("error: no lakehouse.py in")
    assert "\x1b[" in said(NO_COLOR="")
