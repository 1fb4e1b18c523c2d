"""The debt of a table, from its metadata alone."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from frazil.upkeep.debt import MANY_COMMITS, MANY_EXPIRED, Debt, Look, debt_of
from frazil.upkeep.policy import DAY_MS, MB, Policy

NOW_MS = 1_800_000_000_000


def metadata(*summaries: dict[str, str], age_ms: int = 0, first: int = 1) -> TableMetadata:
    """A table whose main has a snapshot for each summary, the oldest first; `first` is the oldest that has not
    expired.
    """
    snapshots = [
        {
            "snapshot-id": number,
            "parent-snapshot-id": number - 1 if number > 1 else None,
            "sequence-number": number,
            "timestamp-ms": NOW_MS - age_ms - (len(summaries) - number),
            "manifest-list": f"snap-{number}.avro",
            "summary": {"operation": "append", **summary},
            "schema-id": 0,
        }
        for number, summary in enumerate(summaries, 1)
    ]
    document: dict[str, Any] = {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "file:///t",
        "last-sequence-number": len(summaries),
        "last-updated-ms": NOW_MS,
        "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "snapshots": snapshots[first - 1 :],
        "refs": {"main": {"type": "branch", "snapshot-id": len(summaries)}} if summaries else {},
    }
    return TableMetadataUtil.parse_obj(document)


def added(files: int, size: int = 1000, partitions: int = 1, **more: str) -> dict[str, str]:
    return {
        "added-data-files": str(files),
        "added-files-size": str(files * size),
        "changed-partition-count": str(partitions),
        **more,
    }


def debt(table: TableMetadata, *, looked: Look | None = None, factor: int = 1, **policy: int) -> Debt:
    looks = dict.fromkeys(("compact", "deletes", "manifests"), looked) if looked else None
    return debt_of(table, Policy(**policy), now_ms=NOW_MS, looked=looks, factor=factor)  # type: ignore[arg-type]


def test_an_empty_table_has_no_debt() -> None:
    assert debt(metadata()).score == 0


def test_small_files_count_per_partition() -> None:
    assert debt(metadata(added(1), added(1))).small_files == 2
    assert debt(metadata(added(100, partitions=100), added(50, partitions=25))).small_files == 3


def test_large_files_are_no_debt() -> None:
    assert debt(metadata(added(9, size=512 * MB))).small_files == 0


def test_five_small_files_are_due_unless_the_policy_says_otherwise() -> None:
    table = metadata(*[added(1)] * 5)
    assert (debt(table).score, debt(table, min_input_files=10).score) == (1.0, 0.5)


def test_what_a_run_has_looked_at_is_no_debt_and_neither_is_what_upkeep_writes() -> None:
    rewrite = {**added(3), "operation": "replace", "frazil.upkeep": "compact"}
    table = metadata(added(1), added(1), rewrite, added(1))
    assert (debt(table).small_files, debt(table, looked=Look(2, 2)).small_files) == (3, 1)
    assert debt(table, looked=Look.at(table)).score == 0


def test_each_step_has_looks_of_its_own() -> None:
    table = metadata(*[added(1)] * 4)
    measured = debt_of(table, Policy(), now_ms=NOW_MS, looked={"manifests": Look(3, 3)})
    assert (measured.small_files, measured.commits) == (4, 1)


def test_a_look_holds_though_its_snapshot_has_expired() -> None:
    table = metadata(added(1), added(1), added(1), added(1, **{"total-data-files": "1000"}), first=4)
    assert debt(table, looked=Look(2, 2)).small_files == 1


def test_files_of_expired_snapshots_count_before_the_first_look() -> None:
    totals = {"total-data-files": "10", "total-files-size": "10000"}
    assert debt(metadata(added(1), added(1, **totals), first=2)).small_files == 10


def test_delete_files_and_commits_count() -> None:
    table = metadata(*[{"added-delete-files": "2"}] * 3)
    assert debt(table).steps == {"compact": 1.2, "deletes": 1.2, "manifests": 3 / MANY_COMMITS, "expire": 0.0}


def test_old_snapshots_count_and_a_few_are_due_a_day_later() -> None:
    fresh, old = (metadata(*[{}] * 11, age_ms=5 * DAY_MS + more) for more in (1000, DAY_MS + 1000))
    assert debt(fresh).expired_snapshots == 10
    scores = [debt(table).steps for table in (fresh, old)]
    assert [steps["expire"] for steps in scores if steps] == [10 / MANY_EXPIRED, 1.0]


def test_a_factor_raises_every_threshold() -> None:
    assert debt(metadata(*[added(1)] * 5), factor=4).score == 0.25


@pytest.mark.parametrize("text", ["many", "-7", "1.5", "\u00b2", "9" * 5000, ""])
def test_summaries_that_hold_no_numbers_are_no_debt(text: str) -> None:
    wrong = dict.fromkeys(("added-data-files", "added-files-size", "added-delete-files", "total-data-files"), text)
    measured = debt(metadata({**wrong, "changed-partition-count": text}))
    assert (measured.small_files, measured.delete_files, measured.data_files) == (0, 0, 0)
