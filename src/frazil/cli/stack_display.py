"""What a person sees while servers start: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from frazil.services import SERVICES, Event, Listener
from frazil.terminal import visible

LINE_SECONDS = 5.0


@contextmanager
def show_events(console: Console) -> Iterator[Listener]:
    """A listener that shows each service's latest event until the block ends; events may come from several threads."""
    if not console.is_terminal:
        yield _Lines(console)
        return
    board = _Board()
    with Live(get_renderable=board.table, console=console, refresh_per_second=10):
        yield board


class _Lines:
    """A line for each new step; for steps that only count on (a download), one every few seconds."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.lock = threading.Lock()
        self.last: dict[str, tuple[str, float]] = {}

    def __call__(self, event: Event) -> None:
        with self.lock:
            step, at = event.text.split(" ")[0], time.monotonic()
            last_step, last_at = self.last.get(event.service, ("", 0.0))
            if event.done or step != last_step or at - last_at > LINE_SECONDS:
                self.last[event.service] = (step, at)
                self.console.print(
                    visible(f"{event.service}: {event.text}"), highlight=False, markup=False, soft_wrap=True
                )


class _Board:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.events: dict[str, Event] = {}
        self.spinners: dict[str, Spinner] = {}
        self.began: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        with self.lock:
            self.events[event.service] = event
            self.spinners.setdefault(event.service, Spinner("dots"))
            self.began.setdefault(event.service, time.monotonic())

    def table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        with self.lock:
            for name in (name for name in SERVICES if name in self.events):
                event = self.events[name]
                sign = (
                    self.spinners[name] if not event.done else Text("✗", "red") if event.error else Text("✓", "green")
                )
                seconds = "" if event.done else f"{time.monotonic() - self.began[name]:.0f} s"
                table.add_row(sign, name, Text(visible(event.text)), Text(seconds, "dim"))
        return table
