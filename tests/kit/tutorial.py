"""A page of docs/ as a program: its files are written, its commands run in order, and what they print is compared.

Marks in the page say what a block is:

    <!-- tutorial: write NAME -->       the block is the whole of this file
    <!-- tutorial: run -->              a console block: lines after `$` are commands, the others are what they print
    <!-- tutorial: run until: TEXT -->  its command is interrupted as Ctrl-C does, once a line of its output has TEXT

In what is printed, `...` is any text, or any lines if it stands alone. Spaces and the length of rules do not count.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

BLOCK = re.compile(r"<!-- tutorial: (write|run)(?: ([^\n]*?))? -->\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """A file to write (`name`, `text`), or a command (`name`) that prints `text`."""

    kind: str
    name: str
    text: str
    until: str = ""


def read_steps(page: str) -> Iterator[Step]:
    """What the page tells a reader to do, in order.

    >>> list(read_steps("<!-- tutorial: run -->\\n```console\\n$ ls\\na\\n```\\n"))
    [Step(kind='run', name='ls', text='a\\n', until='')]
    """
    for kind, argument, text in BLOCK.findall(page):
        if kind == "write":
            yield Step(kind, argument, text)
            continue
        for command, output in COMMAND.findall(text):
            yield Step(kind, command, output, argument.removeprefix("until: "))


def matches(expected: str, printed: str) -> bool:
    """Whether that was printed.

    >>> matches("a  b\\n...\\nc: ... s\\n", "a b\\n\\nmore\\nc: 1.5 s\\n"), matches("a\\n", "a\\nb\\n")
    (True, False)
    """
    lines = [_line(line) for line in expected.splitlines() if line.strip()]
    text = "".join(f"{_plain(line)}\n" for line in printed.splitlines() if line.strip())
    return re.fullmatch("".join(lines), text) is not None


def _line(expected: str) -> str:
    if expected.strip() == "...":
        return r"(?:.*\n)*?"
    return re.escape(_plain(expected)).replace(r"\.\.\.", ".*") + r"\n"


def _plain(line: str) -> str:
    return re.sub("─+", "─", " ".join(line.split()))


@dataclass
class Follower:
    """Does the steps in a folder, with this environment; `ports` are those of the page, and those that stand for them
    here.
    """

    folder: Path
    environment: Mapping[str, str]
    ports: Mapping[int, int] = field(default_factory=dict)

    def follow(self, step: Step) -> None:
        """One step; fails if the command does, or prints something else."""
        if step.kind == "write":
            path = self.folder / step.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._here(step.text), encoding="utf-8")
        elif step.name.startswith("cd "):
            self.folder /= step.name.removeprefix("cd ")
        else:
            printed = self._run(step)
            assert matches(step.text, printed), f"$ {step.name}\n{printed}\ndiffers from the page:\n{step.text}"

    def _run(self, step: Step) -> str:
        errors = self.folder / "stderr.txt"
        with errors.open("w") as stderr:
            with subprocess.Popen(
                ["bash", "-c", f"exec {self._here(step.name)}"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if step.until else stderr,  # progress is on standard error
                text=True,
            ) as process:
                lines = list(_lines(process, step.until))
            code = process.returncode
        assert code == 0, f"$ {step.name}\n{''.join(lines)}{errors.read_text()}exit code {code}"
        return self._as_on_page("".join(lines))

    def _here(self, text: str) -> str:
        return _replace(text, self.ports)

    def _as_on_page(self, text: str) -> str:
        return _replace(text, {here: port for port, here in self.ports.items()})


def _lines(process: subprocess.Popen[str], until: str) -> Iterator[str]:
    assert process.stdout is not None
    for line in process.stdout:
        yield line
        if until and until in line:
            process.send_signal(signal.SIGINT)
            until = ""


def _replace(text: str, ports: Mapping[int, int]) -> str:
    for old, new in ports.items():
        text = re.sub(rf"(?<=:){old}\b", str(new), text)
    return text
