"""Durations are printed exactly, from milliseconds to days."""

from __future__ import annotations

import pytest

from frazil.cli.refs import show_age
from frazil.units import ms


@pytest.mark.parametrize(
    ("number", "long", "short"),
    [
        (0, "0 minutes", "0m"),
        (1, "1 ms", "1ms"),
        (1_500, "1 second 500 ms", "1s 500ms"),
        (45_000, "45 seconds", "45s"),
        (60_000, "1 minute", "1m"),
        (61_000, "1 minute 1 second", "1m 1s"),
        (5_400_000, "90 minutes", "90m"),
        (129_600_000, "36 hours", "36h"),
        (86_400_000, "1 day", "1d"),
        (86_400_001, "1 day 1 ms", "1d 1ms"),
        (28_797_120, "7 hours 59 minutes 57 seconds 120 ms", "7h 59m 57s 120ms"),
        (432_000_000_000, "5,000 days", "5000d"),
    ],
)
def test_a_duration_is_exact(number: int, long: str, short: str) -> None:
    assert (ms(number), show_age(number)) == (long, short)
