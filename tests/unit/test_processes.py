"""Processes are known by pid and start time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from frazil import processes
from frazil.processes import Launch, ProcessId


def spawn(tmp_path: Path, *argv: str) -> ProcessId:
    return processes.spawn(Launch(argv), log=tmp_path / "log", marker=tmp_path)


def test_two_processes_of_one_pid_differ_by_their_start() -> None:
    mine = ProcessId(os.getpid(), str(processes.start_time(os.getpid())))
    assert processes.is_running(mine)
    assert not processes.is_running(ProcessId(mine.pid, "0/1"))


def test_a_child_that_ended_but_was_not_waited_for_is_not_running(tmp_path: Path) -> None:
    process = spawn(tmp_path, "true")
    assert processes.wait_until(lambda: not processes.is_running(process), 60)


def test_a_zombie_of_another_parent_is_not_running() -> None:
    program = (
        "import subprocess, sys; child = subprocess.Popen(['true']); print(child.pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert processes.wait_until(lambda: processes.start_time(pid) is None, 60)
        parent.communicate("")


def test_a_process_runs_in_a_session_of_its_own_with_its_output_in_the_log(tmp_path: Path) -> None:
    process = spawn(tmp_path, "sh", "-c", "echo out; echo err >&2; sleep 300")
    assert os.getsid(process.pid) == process.pid
    assert processes.wait_until(lambda: (tmp_path / "log").read_text() == "out\nerr\n", 60)
    processes.kill(process)


def test_stop_says_whether_the_process_ended_by_itself(tmp_path: Path) -> None:
    polite = spawn(tmp_path, "sleep", "300")
    stubborn = spawn(
        tmp_path,
        sys.executable,
        "-c",
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('on', flush=True); time.sleep(300)",
    )
    assert processes.wait_until(lambda: "on" in (tmp_path / "log").read_text(), 60)
    assert processes.stop(polite, sign=signal.SIGTERM, seconds=60)
    assert not processes.stop(stubborn, sign=signal.SIGTERM, seconds=0.3)
    assert processes.marked(tmp_path) == []


def test_marked_finds_every_process_of_a_folder_and_none_of_another(tmp_path: Path) -> None:
    process = spawn(tmp_path, "sleep", "300")
    assert processes.marked(tmp_path) == [process]
    assert processes.marked(tmp_path / "other") == []
    processes.kill(process)


def test_memory_counts_children() -> None:
    program = "import subprocess, sys; x = bytearray(50_000_000); subprocess.run([sys.executable, '-c', sys.argv[1]])"
    child = "x = bytearray(70_000_000); print('on', flush=True); import sys; sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, child], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        assert 120_000_000 < (processes.memory_bytes(parent.pid) or 0) < 250_000_000
        parent.communicate("")
