"""What is shown while Spark works."""

from __future__ import annotations

import io
import logging
import re

import pytest
from rich.console import Console

from frazil.cli import progress
from frazil.spark import Progressed, Stage


def test_tasks_of_ended_stages_stay_counted_and_rows_never_go_back() -> None:
    now = Progressed()
    now.update([Stage(1, "map at a.py:1", tasks=4, done=1)], rows=10)
    assert (now.done, now.total, now.describe()) == (1, 4, "stage 1, map, 10 rows")
    now.update([Stage(2, "collect at a.py:2", tasks=2, done=1)], rows=5)
    assert (now.done, now.total, now.describe()) == (5, 6, "stage 2, collect, 10 rows")
    now.update([], rows=0)
    assert (now.done, now.total, now.describe()) == (6, 6, "on the driver, 10 rows")


def test_without_a_terminal_a_line_is_logged_at_intervals(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = iter([0.0, 1.0, 11.0, 11.0, 12.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    caplog.set_level(logging.INFO, "frazil.cli")
    now = Progressed()
    now.update([Stage(7, "map at a.py:1", tasks=4, done=1)], rows=1200)
    with progress._lines("daily") as show:
        for _ in range(3):
            show(now)
    assert [record.getMessage() for record in caplog.records] == ["daily: stage 1, map, 1,200 rows, 1 of 4 tasks, 11 s"]
    assert caplog.records[0].fields == {"stage": 1, "tasks": 4, "done": 1, "rows": 1200}  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [50, 80, 200])
def test_the_bar_is_one_line_with_its_numbers_and_is_gone_at_the_end(width: int) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=width, color_system=None)
    with progress._bar(console, "daily [bold]sales") as show:
        seen = Progressed()
        seen.update([Stage(1, "collect at driver.py:1", tasks=200, done=12)], rows=1_234_567)
        show(seen)
        console.print()  # refreshes the bar
    frames = [frame for frame in re.split(r"\r\x1b\[2K|\n", screen.getvalue()) if "tasks" in frame]
    assert all(len(frame) <= width for frame in frames)
    assert "12/200 tasks" in frames[-1]
    assert "daily [b" in frames[-1]  # a name is no markup
    assert screen.getvalue().endswith("\x1b[1A\x1b[2K")  # up, and the line is erased
