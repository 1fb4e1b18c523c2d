"""What is shown while Spark works."""

from __future__ import annotations

import logging

import pytest

from frazil.cli import progress
from frazil.cli.progress import Progressed, Stage


def test_tasks_of_ended_stages_stay_counted_and_rows_never_go_back() -> None:
    now = Progressed()
    now.update([Stage(1, "map at a.py:1", tasks=4, done=1)], rows=10)
    assert (now.done, now.total, now.describe()) == (1, 4, "stage 1, map, 10 rows")
    now.update([Stage(2, "collect at a.py:2", tasks=2, done=1)], rows=5)
    assert (now.done, now.total, now.describe()) == (5, 6, "stage 2, collect, 10 rows")
    now.update([], rows=0)
    assert (now.done, now.total, now.describe()) == (6, 6, "planning, 10 rows")


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
