"""How `frazil demo` walks: commands in the folders of the examples, each shown as a reader would type it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from frazil.errors import FrazilError

PROGRAMS = {"python": [sys.executable], "frazil": [sys.executable, "-m", "frazil"]}
END_SECONDS = 30.0  # that an interrupted command has to end by itself


class CommandFailed(FrazilError):
    """A command of a step failed."""


@dataclass
class Walk:
    """A folder with the examples, and what was done there."""

    folder: Path
    console: Console
    seconds: dict[str, float] = field(default_factory=dict)  # by step
    _name: str = ""
    _began: float = 0.0

    def begin(self, number: int, count: int, name: str, about: str) -> None:
        """Shows what comes now."""
        self._name, self._began = name, time.monotonic()
        self.console.print()
        self.console.print(Text.assemble((f"[{number}/{count}] {name}", "bold cyan"), f"  {about}"), soft_wrap=True)

    def end(self) -> None:
        """Notes the time of the step."""
        self.seconds[self._name] = time.monotonic() - self._began

    def do(self, folder: str, line: str, **environment: str) -> None:
        """Runs a command and shows it; what it prints is shown as it comes."""
        self.show(folder, line, environment)
        with self.started(folder, line, environment) as process:
            code = process.wait()
        self.check(line, code)

    def ask(self, folder: str, line: str) -> Any:
        """The JSON that a command prints; it is not shown."""
        with self.started(folder, line, stdout=subprocess.PIPE) as process:
            text, _ = process.communicate()
        self.check(line, process.returncode)
        return json.loads(text)

    def show(self, folder: str, line: str, environment: Mapping[str, str]) -> None:
        """The command, and the folder in which it works."""
        names = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
        self.console.print(Text(f"{folder} $ {' '.join([*names, line])}", "bold"), soft_wrap=True)

    @contextmanager
    def started(
        self, folder: str, line: str, environment: Mapping[str, str] | None = None, *, stdout: int | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """A command that runs. It is interrupted if the block is, and has ended when the block has.

        It is in a process group of its own: Ctrl-C reaches it once, from here, and not a second time from the terminal.
        """
        program, *arguments = shlex.split(line)
        with subprocess.Popen(
            [*PROGRAMS[program], *arguments],
            cwd=self.folder / folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            text=True,
            process_group=0,
        ) as process:
            try:
                yield process
            finally:
                interrupt(process)

    def check(self, line: str, code: int) -> None:
        """Raises if a command has failed."""
        if code != 0:
            hint = f"the command is to be run in a folder of {self.folder}; it says above what is wrong"
            raise CommandFailed(f"{line} ended with code {code}", hint=hint)


def interrupt(process: subprocess.Popen[str]) -> None:
    """Has a process end as by Ctrl-C, or after a while at once; one that has ended is left alone."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
