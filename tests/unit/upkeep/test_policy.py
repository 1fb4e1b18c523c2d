"""Policies: declared with a table, carried as its properties, read by upkeep."""

from __future__ import annotations

import pytest

from frazil import Table, Upkeep, column
from frazil.errors import DeclarationError, UpkeepError
from frazil.upkeep.policy import DAY_MS, HOUR_MS, MB, Policy
from tests.kit.raising import raises


def declare(**rules: object) -> Table:
    return Table("lake.t", column("id", "long"), upkeep=Upkeep(**rules))  # type: ignore[arg-type]


def test_what_is_declared_is_what_holds() -> None:
    result = declare(
        target_file_size="128MB", min_input_files=3, keep_days=30, keep_snapshots=10, orphans_older_than="12h"
    )
    policy = Policy.of(result.properties, table="lake.t")
    expected = Policy(
        target_file_bytes=128 * MB,
        min_input_files=3,
        max_snapshot_age_ms=30 * DAY_MS,
        min_snapshots=10,
        orphan_age_ms=12 * HOUR_MS,
    )
    assert policy == expected


def test_a_table_that_says_nothing_has_icebergs_defaults() -> None:
    assert Policy.of({}, table="t") == Policy()
    assert declare().properties == {}


@pytest.mark.parametrize(
    "rules",
    [
        {"target_file_size": "big"},
        {"target_file_size": 0},
        {"keep_days": -1},
        {"keep_snapshots": 0},
        {"orphans_older_than": "30m"},
        {"orphans_older_than": "soon"},
        {"min_input_files": 1},
    ],
)
def test_a_rule_that_makes_no_sense_is_named(rules: dict[str, object]) -> None:
    with raises(DeclarationError, option=next(iter(rules)), got=next(iter(rules.values()))):
        declare(**rules)


def test_two_words_for_one_thing_must_agree() -> None:
    same = {"history.expire.min-snapshots-to-keep": "3"}
    assert Table("lake.t", column("id", "long"), properties=same, upkeep=Upkeep(keep_snapshots=3)).properties == same
    with raises(DeclarationError, option="history.expire.min-snapshots-to-keep"):
        Table("lake.t", column("id", "long"), properties=same, upkeep=Upkeep(keep_snapshots=4))


@pytest.mark.parametrize("value", ["many", "0", "-1"])
def test_a_property_that_makes_no_sense_is_named(value: str) -> None:
    with raises(UpkeepError, option="history.expire.min-snapshots-to-keep"):
        Policy.of({"history.expire.min-snapshots-to-keep": value}, table="lake.t")


def test_orphans_are_never_younger_than_an_hour() -> None:
    with raises(UpkeepError, option="upkeep.orphans.older-than-ms"):
        Policy.of({"upkeep.orphans.older-than-ms": "60000"}, table="lake.t")
