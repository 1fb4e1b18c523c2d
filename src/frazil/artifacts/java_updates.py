"""Whether a Java is behind on security updates, by its version and the calendar alone: no network is asked.

Every supported OpenJDK gets a security update on the third Tuesday of January, April, July and October. The update
number of a version counts them: 21.0.8 is the eighth after 21 came out in September 2023, so that of July 2025. A
version that gets no updates any more falls behind like every other one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from datetime import date, timedelta

MONTHS = (1, 4, 7, 10)
GRACE = timedelta(days=30)  # distributions need some days to build an update
_FIRST = (10, 2018 * 12 + 2)  # Java 10 came out in March 2018, and since then there is one every six months


def update_days(start: date) -> Iterator[date]:
    """The days of security updates after a day.

    >>> [str(day) for day in itertools.islice(update_days(date(2025, 7, 15)), 2)]
    ['2025-10-21', '2026-01-20']
    """
    for year in itertools.count(start.year):
        for month in MONTHS:
            first = date(year, month, 1)
            third_tuesday = first + timedelta(days=(1 - first.weekday()) % 7 + 14)
            if third_tuesday > start:
                yield third_tuesday


def release_day(version: str, stated: str | None = None) -> date | None:
    """The day of a version such as 21.0.8; `stated` is the day that the runtime itself gives. None when neither tells.

    >>> [str(release_day(version)) for version in ("21.0.8", "17.0.15+6", "25", "1.8.0_392")]
    ['2025-07-15', '2025-04-15', '2025-09-01', 'None']
    """
    days = [day for day in (_counted_day(version), _parse_day(stated or "")) if day is not None]
    return max(days, default=None)


def _counted_day(version: str) -> date | None:
    numbers = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", version)
    if numbers is None or int(numbers[1]) < _FIRST[0]:
        return None
    month = _FIRST[1] + 6 * (int(numbers[1]) - _FIRST[0])
    came_out = date(month // 12, month % 12 + 1, 1)
    update = int(numbers[3] or 0)
    return next(itertools.islice(update_days(came_out), update - 1, None)) if update else came_out


def _parse_day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def missed_updates(released: date, today: date) -> list[date]:
    """The security updates that came after a release, and long enough ago to be installed.

    >>> [str(day) for day in missed_updates(date(2025, 7, 15), today=date(2026, 1, 25))]
    ['2025-10-21']
    """
    return list(itertools.takewhile(lambda day: day + GRACE <= today, update_days(released)))
