"""The walk of `frazil demo`, with steps that need no server."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from frazil.cli.demo import run_steps
from frazil.cli.demo_folder import EXAMPLES, copy_examples
from frazil.cli.demo_steps import STEPS, Step
from frazil.cli.demo_walk import CommandFailed, Walk, interrupt
from frazil.cli.main import cli
from frazil.errors import ProjectError
from tests.kit.raising import raises


def say(walk: Walk) -> None:
    walk.do(".", "python -c \"import os; print('hello', os.environ['WHOM'])\"", WHOM="you all")


def fail(walk: Walk) -> None:
    walk.do(".", "python -c 'raise SystemExit(3)'")


def test_a_step_shows_its_command_as_it_can_be_typed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    walk = Walk(tmp_path, Console())
    assert run_steps(walk, [Step("say", "Says hello.", say)]) == []
    _, title, command, said = capfd.readouterr().out.splitlines()
    assert title == "[2/2] say  Says hello."
    assert command == ". $ WHOM='you all' python -c \"import os; print('hello', os.environ['WHOM'])\""
    assert said == "hello you all"
    assert list(walk.seconds) == ["say"]


def test_a_step_that_fails_does_not_end_the_walk_unless_others_need_it(tmp_path: Path) -> None:
    walk = Walk(tmp_path, Console())
    assert run_steps(walk, [Step("bad", "Fails.", fail), Step("say", "Says hello.", say)]) == ["bad"]
    with pytest.raises(CommandFailed, match="ended with code 3"):
        run_steps(walk, [Step("bad", "Fails.", fail, is_needed=True), Step("say", "Says hello.", say)])


def test_a_command_is_interrupted_with_the_block_that_started_it(tmp_path: Path) -> None:
    walk, ready = Walk(tmp_path, Console()), "print('ready', flush=True)"
    (tmp_path / "waits.py").write_text(f"import time\n{ready}\ntime.sleep(600)\n")
    with suppress(KeyboardInterrupt), walk.started(".", "python waits.py", stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        raise KeyboardInterrupt
    assert process.returncode == -signal.SIGINT


def test_a_process_that_has_ended_is_not_interrupted() -> None:
    with subprocess.Popen([sys.executable, "-c", ""], text=True) as process:
        process.wait()
        interrupt(process)
    assert process.returncode == 0


def test_the_examples_are_copied_once_and_never_over_other_files(tmp_path: Path) -> None:
    copy_examples(tmp_path / "demo")
    (tmp_path / "demo/sales/lakehouse.py").write_text("# mine")
    copy_examples(tmp_path / "demo")
    assert (tmp_path / "demo/sales/lakehouse.py").read_text() == "# mine"
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == sorted(EXAMPLES)
    (tmp_path / "lakehouse.py").touch()
    with raises(ProjectError, path=str(tmp_path)):
        copy_examples(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo", "lakehouse.py"]


def test_a_step_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["demo", str(tmp_path / "demo"), "--only", "tables,all"])
    assert done.exit_code == 2
    assert "there is no step 'all'" in done.output
    assert not (tmp_path / "demo").exists()
    assert all(step.name in done.output for step in STEPS)
