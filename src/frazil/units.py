"""Numbers as people write and read them: counts, bytes, durations, ages."""

from __future__ import annotations

import re

_BYTES = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
_DURATIONS_MS = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1_000, "ms": 1}
_AGE = re.compile(r"(\d{1,7})([mhd])")
_AGES_MS = {unit[0]: length for unit, length in _DURATIONS_MS.items() if unit in ("day", "hour", "minute")}


def count(number: int, noun: str) -> str:
    """
    >>> count(1, "file"), count(1200, "row")
    ('1 file', '1,200 rows')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def size(number: int) -> str:
    """A number of bytes.

    >>> size(512), size(2_345_678), size(5 * 10**12)
    ('512 B', '2.3 MB', '5.0 TB')
    """
    for unit, length in _BYTES:
        if number >= length:
            return f"{number / length:.1f} {unit}"
    return f"{number} B"


def ms(number: int) -> str:
    """A number of milliseconds, exactly.

    >>> ms(432_000_000), ms(5_400_000), ms(61_001), ms(0)
    ('5 days', '90 minutes', '1 minute 1 second 1 ms', '0 minutes')
    """
    return " ".join(f"{part:,} ms" if unit == "ms" else count(part, unit) for part, unit in split_ms(number))


def split_ms(number: int) -> list[tuple[int, str]]:
    """A duration as numbers of units: one unit if that is exact in minutes or longer units, else as many as it takes.

    >>> split_ms(129_600_000), split_ms(90_500)
    ([(36, 'hour')], [(1, 'minute'), (30, 'second'), (500, 'ms')])
    """
    if number % _DURATIONS_MS["minute"] == 0:
        unit = next((unit for unit in ("day", "hour") if number and number % _DURATIONS_MS[unit] == 0), "minute")
        return [(number // _DURATIONS_MS[unit], unit)]
    parts: list[tuple[int, str]] = []
    for unit, length in _DURATIONS_MS.items():
        whole, number = divmod(number, length)
        parts += [(whole, unit)] if whole else []
    return parts


def age(number: int) -> str:
    """A number of milliseconds in the largest unit that it fills, cut off.

    >>> age(999), age(61_000), age(7_199_000), age(3 * 86_400_000)
    ('0 seconds', '1 minute', '1 hour', '3 days')
    """
    unit = next((unit for unit, length in _DURATIONS_MS.items() if unit != "ms" and number >= length), "second")
    return count(number // _DURATIONS_MS[unit], unit)


def parse_age(text: str) -> int | None:
    """The milliseconds of an age such as `30m`, `24h` or `7d`; None if the text is not one.

    >>> parse_age("30m"), parse_age("24h"), parse_age("7d"), parse_age("0m"), parse_age("7 days")
    (1800000, 86400000, 604800000, 0, None)
    """
    match = _AGE.fullmatch(text)
    return None if match is None else int(match[1]) * _AGES_MS[match[2]]
