"""What a person sees while something is downloaded: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


@dataclass(frozen=True)
class Progress:
    """How far a download is: `what` is done (`fetching kafka 4.3.1`); `total_bytes` is None if the size is
    unknown before the end.
    """

    what: str
    got_bytes: int
    total_bytes: int | None
    seconds: float
    state: Literal["running", "done", "failed"] = "running"


OnProgress = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Shows nothing."""


def show_progress(stream: TextIO | None = None) -> OnProgress:
    """A display on `stream` (standard error): a bar if it is a terminal, plain lines if not."""
    stream = stream or sys.stderr
    return _Bar(stream) if stream.isatty() else _Lines(stream)


@contextmanager
def watch_folder(
    folder: Path, what: str, on_progress: OnProgress | None, *, total_bytes: int | None = None
) -> Iterator[None]:
    """Reports the bytes that arrive in `folder` during the body, and then how it ended."""
    report = on_progress or show_progress()
    before = folder_bytes(folder)
    started = time.monotonic()
    stop = threading.Event()

    def event(state: Literal["running", "done", "failed"]) -> Progress:
        return Progress(what, max(0, folder_bytes(folder) - before), total_bytes, time.monotonic() - started, state)

    def poll() -> None:
        while not stop.wait(0.25):
            report(event("running"))

    poller = threading.Thread(target=poll, name=f"progress of {what}", daemon=True)
    poller.start()
    state: Literal["done", "failed"] = "failed"
    try:
        yield
        state = "done"
    finally:
        stop.set()
        poller.join()
        report(event(state))


def folder_bytes(folder: Path) -> int:
    """The bytes of all files below `folder`; files that vanish during the count are left out."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(f"{parent}/{name}").st_size
            except FileNotFoundError:
                continue
    return total


class _Lines:
    """For each thing: one line when it starts to take time, one every few seconds, one at the end."""

    every_seconds = 5.0

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.next_line: dict[str, float] = {}

    def __call__(self, progress: Progress) -> None:
        if progress.state == "running":
            if progress.seconds < self.next_line.get(progress.what, 1.0):
                return
            self.next_line[progress.what] = progress.seconds + self.every_seconds
        self.stream.write(describe(progress) + "\n")
        self.stream.flush()


class _Bar:
    """A bar for each thing, below each other; the display ends with the last of them."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.lock = threading.Lock()  # several downloads may report at once
        self.display: RichProgress | None = None
        self.tasks: dict[str, TaskID] = {}

    def __call__(self, progress: Progress) -> None:
        with self.lock:
            self._show(progress)

    def _show(self, progress: Progress) -> None:
        if self.display is None:
            self.display = self._new_bar()
            self.display.start()
        if progress.what not in self.tasks:
            self.tasks[progress.what] = self.display.add_task(progress.what)
        total = progress.got_bytes if progress.state == "done" else progress.total_bytes
        self.display.update(self.tasks[progress.what], completed=progress.got_bytes, total=total)
        if progress.state != "running":
            del self.tasks[progress.what]
        if not self.tasks:
            self.display.stop()
            self.display = None

    def _new_bar(self) -> RichProgress:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TransferSpeedColumn,
        )

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(30),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeElapsedColumn(),
        )
        return Progress(*columns, console=Console(file=self.stream))


def describe(progress: Progress) -> str:
    """One line for people.

    >>> describe(Progress("fetching kafka", 12_300_000, 45_000_000, 3.0))
    'fetching kafka: 12.3 of 45.0 MB, 3 s'
    >>> describe(Progress("fetching kafka", 45_000_000, None, 51.0, "done"))
    'fetching kafka: done, 45.0 MB in 51 s'
    """
    amount, seconds = f"{progress.got_bytes / 1e6:.1f}", f"{progress.seconds:.0f} s"
    if progress.state == "done":
        return f"{progress.what}: done, {amount} MB in {seconds}"
    if progress.state == "failed":
        return f"{progress.what}: failed after {seconds}"
    return (
        f"{progress.what}: {amount}{f' of {progress.total_bytes / 1e6:.1f}' if progress.total_bytes else ''} MB, "
        f"{seconds}"
    )
