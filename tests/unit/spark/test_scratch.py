"""Temporary files of Spark: a process has a folder of its own, and what a killed one left is gone at the next start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from frazil.spark.scratch import OPTIONS, scratch_conf

START = """
import sys
from frazil.spark.scratch import OPTIONS, scratch_conf
folder = scratch_conf({})[OPTIONS].partition("=")[2]
open(f"{folder}/copy.jar", "w").write("jar")
print(folder, flush=True)
sys.stdin.read()
"""
Start = Callable[[], tuple[subprocess.Popen[str], Path]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process as a driver starts: it has its folder, and waits for the end of its input."""
    started: list[subprocess.Popen[str]] = []

    def begin() -> tuple[subprocess.Popen[str], Path]:
        process = subprocess.Popen(
            [sys.executable, "-c", START],
            env={"TMPDIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout
        return process, Path(process.stdout.readline().strip())

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_a_start_removes_what_the_killed_left_and_nothing_of_the_living(start: Start, tmp_path: Path) -> None:
    killed, left = start()
    _, living = start()
    killed.kill()
    killed.wait()
    assert (left / "copy.jar").exists()
    _, fresh = start()
    assert {path.name for path in tmp_path.iterdir()} == {living.name, fresh.name}
    assert (living / "copy.jar").exists()


def test_a_process_that_ends_takes_its_folder_along_and_strangers_folders_stay(start: Start, tmp_path: Path) -> None:
    (tmp_path / "frazil-spark-somebodys").mkdir()
    process, _ = start()
    process.communicate(timeout=60)
    assert [path.name for path in tmp_path.iterdir()] == ["frazil-spark-somebodys"]


def test_the_users_own_options_for_the_jvm_come_after_ours() -> None:
    ours, theirs = scratch_conf({OPTIONS: "-Xss4m -Djava.io.tmpdir=/mine"})[OPTIONS].split(" ", 1)
    assert (ours.startswith("-Djava.io.tmpdir="), theirs) == (True, "-Xss4m -Djava.io.tmpdir=/mine")
