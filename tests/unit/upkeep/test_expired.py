"""Which snapshots expire: decided on the table's metadata, the policy and a clock."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from frazil.upkeep.policy import DAY_MS, Policy
from frazil.upkeep.retention import Expired, choose_expired

NOW = 1_000 * DAY_MS
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


def table(
    ages: dict[int, float], *, refs: dict[str, dict[str, Any]] | None = None, parents: dict[int, int] | None = None
) -> TableMetadata:
    """A table whose snapshots have these ages in days; each follows the one before, unless said otherwise."""
    ids = list(ages)
    line = {after: before for before, after in pairwise(ids)} | (parents or {})
    snapshots = [
        {
            "snapshot-id": number,
            "sequence-number": at,
            "timestamp-ms": int(NOW - age * DAY_MS),
            "manifest-list": f"list-{number}",
            "summary": {"operation": "append"},
            **({"parent-snapshot-id": line[number]} if number in line else {}),
        }
        for at, (number, age) in enumerate(ages.items(), start=1)
    ]
    result = {"main": {"snapshot-id": ids[-1], "type": "branch"}, **(refs or {})}
    return TableMetadataUtil.parse_obj(
        {
            "format-version": 2,
            "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "location": "s3://lake/t",
            "last-sequence-number": len(ids),
            "last-updated-ms": NOW,
            "last-column-id": 1,
            "schemas": [SCHEMA],
            "current-schema-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "default-spec-id": 0,
            "last-partition-id": 999,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "current-snapshot-id": result["main"]["snapshot-id"],
            "snapshots": snapshots,
            "refs": result,
        }
    )


def gone(metadata: TableMetadata, policy: Policy | None = None, **options: int) -> tuple[int, ...]:
    return choose_expired(metadata, policy or Policy(), now_ms=NOW, **options).snapshot_ids


AGES = {1: 20.0, 2: 10.0, 3: 6.0, 4: 4.0, 5: 0.0}


def test_snapshots_past_the_age_expire() -> None:
    assert gone(table(AGES)) == (1, 2, 3)


def test_the_newest_ones_stay_whatever_their_age() -> None:
    old = {number: age + 100 for number, age in AGES.items()}
    assert (gone(table(old)), gone(table(old), Policy(min_snapshots=4))) == ((1, 2, 3, 4), (1,))


def test_a_circle_of_parents_ends() -> None:
    assert gone(table(AGES, parents={1: 5})) == (1, 2, 3)


def test_a_branch_keeps_its_line_by_its_own_rules() -> None:
    side = {"side": {"snapshot-id": 3, "type": "branch", "min-snapshots-to-keep": 2}}
    assert gone(table(AGES, refs=side)) == (1,)
    assert gone(table(AGES, refs={"side": {**side["side"], "max-snapshot-age-ms": 15 * DAY_MS}})) == (1,)


def test_a_tag_keeps_its_snapshot_alone() -> None:
    assert gone(table(AGES, refs={"then": {"snapshot-id": 2, "type": "tag"}})) == (1, 3)


def test_refs_go_at_their_own_age_and_main_never() -> None:
    refs = {"then": {"snapshot-id": 2, "type": "tag", "max-ref-age-ms": 9 * DAY_MS}}
    assert choose_expired(table(AGES, refs=refs), Policy(), now_ms=NOW) == Expired((1, 2, 3), ("then",), 2)
    assert choose_expired(table({1: 90.0}), Policy(max_ref_age_ms=DAY_MS), now_ms=NOW) == Expired((), (), 1)


def test_the_tables_age_for_refs_holds_where_a_ref_says_nothing() -> None:
    refs = {
        "then": {"snapshot-id": 2, "type": "tag"},
        "mine": {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 99 * DAY_MS},
    }
    assert choose_expired(table(AGES, refs=refs), Policy(max_ref_age_ms=9 * DAY_MS), now_ms=NOW).refs == ("then",)


@pytest.mark.parametrize(("head", "parents", "expected"), [(2, {}, ()), (9, {9: 2}, ("frazil_stage_x",))])
def test_a_stage_is_alive_until_something_staged_is_as_old_as_an_orphan(
    head: int, parents: dict[int, int], expected: tuple[str]
) -> None:
    ages = {1: 20.0, 2: 10.0, 9: 5.0, 5: 0.0} if head == 9 else AGES
    metadata = table(ages, refs={"frazil_stage_x": {"snapshot-id": head, "type": "branch"}}, parents={**parents, 5: 2})
    assert choose_expired(metadata, Policy(max_ref_age_ms=DAY_MS), now_ms=NOW).refs == expected


def test_what_a_rollback_has_undone_stays_while_it_is_young() -> None:
    metadata = table({1: 9.0, 2: 8.0, 3: 3.0, 4: 0.0}, parents={4: 1})  # 2 and 3 were undone
    assert gone(metadata) == (1, 2)


def test_a_companion_tells_of_all_that_its_table_keeps() -> None:
    assert gone(table(AGES), keep_since_ms=NOW - 8 * DAY_MS) == (1,)  # 2 is what it held eight days ago


def test_a_line_is_kept_without_gaps() -> None:
    """Clocks may run backwards: an old time in the middle must not take the young one below it away."""
    assert gone(table({1: 20.0, 2: 1.0, 3: 9.0, 4: 0.0})) == (1,)
