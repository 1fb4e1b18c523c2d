"""A pipeline that is declared wrongly is refused where it is declared."""

from __future__ import annotations

from typing import Any

import pytest

from frazil import Table, column, pipeline, sources
from frazil.errors import DeclarationError

TARGET = Table("l.t", column("id", "long"), column("day", "date"), partition_by=["day"])
FLAT = Table("l.flat", column("id", "long"))


def declare(**options: Any) -> Any:
    @pipeline(**{"source": sources.csv("*.csv"), "target": TARGET, **options})
    def load(frame: Any) -> Any:
        return frame

    return load


def test_rules_are_kept_as_declared() -> None:
    made = declare(key=["id"], order_by="day", mode="replace-partition", max_bad_share=0.01, drift="evolve", name="daily")
    assert (made.name, made.key, made.order_by, made.mode, made.max_bad_share, made.drift) == (
        "daily",
        ("id",),
        ("day",),
        "replace-partition",
        0.01,
        "evolve",
    )
    assert made("frame") == "frame"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": ["x"]}, r"key names column 'x', which l.t does not have; it has id, day"),
        ({"order_by": "day"}, r"no key is given"),
        ({"mode": "merge"}, r"mode is 'merge', expected one of append, replace-partition"),
        ({"drift": "ignore"}, r"drift is 'ignore', expected one of evolve, freeze, quarantine"),
        ({"mode": "replace-partition", "target": FLAT}, r"l.flat has no partitions"),
        ({"max_bad_share": 5}, r"max_bad_share is 5, expected a share from 0 to 1"),
    ],
)
def test_a_rule_that_cannot_hold_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=rf"pipeline 'load': .*{message}"):
        declare(**options)
