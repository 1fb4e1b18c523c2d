"""Numbers as people read them."""

from __future__ import annotations


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
    """
    >>> ms(432_000_000), ms(5_400_000), ms(0)
    ('5 days', '90 minutes', '0 minutes')
    """
    for unit, length in (("day", 86_400_000), ("hour", 3_600_000)):
        if number and number % length == 0:
            return count(number // length, unit)
    return f"{number / 60_000:g} minutes"
