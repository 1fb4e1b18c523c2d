"""Processes that run pipelines of the sales example when they are asked to, and can be killed or stopped."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/sales"


def copy_example(folder: Path) -> Path:
    """The sales example in a folder, without landing files."""
    ignored = shutil.ignore_patterns(".frazil", "landing", "__pycache__")
    shutil.copytree(EXAMPLE, folder, ignore=ignored, dirs_exist_ok=True)
    (folder / "landing").mkdir()
    return folder


def load_landing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sales_landing", EXAMPLE / "landing.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Runner:
    """A process that runs the pipeline when it is asked to, in a process group of its own."""

    def __init__(self, folder: Path, uri: str, module: str = "tests.faults.pipeline_runner") -> None:
        command = [sys.executable, "-m", module, str(folder), uri]
        self.log = folder / "runner.log"
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        assert self._line() == "ready", self.log.read_text()[-3000:]

    def begin(self, *words: str, die_at: int = 0, when: str = "before") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{' '.join([*words, str(die_at), when])}\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """What became of the run; empty if it was killed."""
        line = self._line()
        assert line or self.process.wait(600) == -signal.SIGKILL, self.log.read_text()[-3000:]
        return line

    def run(self, *words: str) -> str:
        self.begin(*words)
        return self.answer()

    def wait_until_stopped(self) -> bool:
        """Waits until the process has stopped itself; False if it has ended."""
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        return os.WIFSTOPPED(status)

    def go_on(self) -> None:
        os.killpg(self.process.pid, signal.SIGCONT)

    def close(self) -> None:
        """Nothing of it is left, the JVM included."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")


@dataclass
class Runners:
    """Processes of one kind; those that live on are used again: a Spark takes longer to start than a run."""

    folder: Path
    uri: str
    module: str = "tests.faults.pipeline_runner"
    idle: list[Runner] = field(default_factory=list)

    @contextlib.contextmanager
    def runner(self) -> Iterator[Runner]:
        """A process without a run; it is kept for the next one unless it was killed or something failed."""
        runner = self.idle.pop() if self.idle else Runner(self.folder, self.uri, self.module)
        try:
            yield runner
        except BaseException:
            runner.close()
            raise
        if runner.process.poll() is None:
            self.idle.append(runner)
        else:
            runner.close()

    def close(self) -> None:
        for runner in self.idle:
            runner.close()
