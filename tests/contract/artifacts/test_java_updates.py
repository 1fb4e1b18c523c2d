"""A Java that lacks security updates is distinguished from one that is current, without a network."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from frazil.artifacts.java import Java
from frazil.artifacts.java_updates import missed_updates, release_day, update_days
from frazil.services.doctor import check_updates
from tests.contract.artifacts.test_java import make_home

# When these were released, as their makers say.
RELEASES = {
    "11.0.2": (2019, 1),
    "11.0.24": (2024, 7),
    "17.0.1": (2021, 10),
    "17.0.12": (2024, 7),
    "17.0.15": (2025, 4),
    "21.0.4": (2024, 7),
    "21.0.8": (2025, 7),
    "24.0.2": (2025, 7),
    "25.0.2": (2026, 1),
    "25": (2025, 9),
}


@pytest.mark.parametrize(("version", "month"), RELEASES.items())
def test_the_update_number_tells_when_a_version_came_out(version: str, month: tuple[int, int]) -> None:
    released = release_day(version)
    assert released is not None
    assert (released.year, released.month) == month


def test_updates_come_on_the_third_tuesday_of_the_quarter() -> None:
    days = update_days(date(2024, 12, 31))
    assert [next(days) for _ in range(4)] == [
        date(2025, 1, 21),
        date(2025, 4, 15),
        date(2025, 7, 15),
        date(2025, 10, 21),
    ]


@pytest.mark.parametrize(
    ("today", "missed"),
    [
        ("2025-07-15", 0),
        ("2025-10-21", 0),
        ("2025-11-19", 0),
        ("2025-11-20", 1),
        ("2026-11-16", 4),
        ("2026-11-20", 5),
        ("2024-01-01", 0),
    ],
)
def test_an_update_is_missed_a_month_after_it_came(today: str, missed: int) -> None:
    assert len(missed_updates(date(2025, 7, 15), date.fromisoformat(today))) == missed


def test_a_runtime_that_states_a_later_day_is_believed() -> None:
    assert release_day("17.0.4", "2022-08-12") == date(2022, 8, 12)
    assert release_day("17.0.4", "nonsense") == date(2022, 7, 19)
    assert release_day("1.8.0_392") is None


def test_the_doctor_names_the_java_that_is_behind_and_what_to_do(tmp_path: Path) -> None:
    java = Java(make_home(tmp_path / "jdk", "21.0.8"), 21)
    assert check_updates(java, today=date(2025, 8, 1)) is None
    result = check_updates(java, today=date(2026, 11, 16))
    assert result is not None
    assert (result.state, result.detail) == (
        "note",
        f"{java.home}: 21.0.8 lacks 4 security updates, the newest of July 2026",
    )
    assert "JDK 21" in str(result.fix)
    updates = check_updates(java, today=date(2025, 12, 1))
    assert updates is not None
    assert updates.detail == f"{java.home}: 21.0.8 lacks the security update of October 2025"
