"""Numbers as people read them."""

from __future__ import annotations

UNITS = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1_000, "ms": 1}


def count(number: int, noun: str) -> str:
    """
    >>> count(1, "file"), count(1200, "row")
    ('1 file', '1,200 rows')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def size(number: int) -> str:
    """
    >>> size(512), size(2_345_678)
    ('512 B', '2.3 MB')
    """
    for unit, bytes_ in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= bytes_:
            return f"{number / bytes_:.1f} {unit}"
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
    if number % 60_000 == 0:
        unit = next((unit for unit in ("day", "hour") if number and number % UNITS[unit] == 0), "minute")
        return [(number // UNITS[unit], unit)]
    parts: list[tuple[int, str]] = []
    for unit, length in UNITS.items():
        whole, number = divmod(number, length)
        parts += [(whole, unit)] if whole else []
    return parts
