"""An append whose branch has moved: the snapshot after the head, and the tables that it does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from frazil.catalog.appends.avro import open_avro
from frazil.catalog.appends.entries import AddedFiles
from frazil.catalog.appends.lists import Listed, ManifestList, describe, encode, read_list
from frazil.catalog.appends.problems import NotRebased
from frazil.catalog.appends.rebase import AddedManifest, Rebased, check_added, check_base, newer_manifests, rebase
from frazil.catalog.appends.request import Append
from frazil.catalog.commit import decide
from tests.unit.catalog.test_commit import NAME, add, apply, main, table

Json = dict[str, Any]
LOCATION = "file:///w/t/metadata/snap-9-0-u.avro"
TOTALS = {"total-data-files": "4", "total-records": "40", "total-files-size": "4000", "total-delete-files": "1"}


def history(*numbers: int, version: int = 2, **more: Any) -> Json:
    """A table with these snapshots on main, one after the other."""
    result, parent = table(version), None
    for number in numbers:
        rows = {"first-row-id": result["next-row-id"], "added-rows": 10} if version == 3 else {}
        added = add(number, parent=parent, **{"schema-id": 0, **rows, **more})
        result, parent = apply(result, added, main(number)), number
    return result


def append(parent: int | None = 1, *, number: int = 9, sequence: int = 2, **more: Any) -> Append:
    summary = {"operation": "append", "added-data-files": "1", "total-records": "11", "engine-name": "x"}
    snapshot = {"snapshot-id": number, "parent-snapshot-id": parent, "sequence-number": sequence, "timestamp-ms": 1}
    snapshot |= {"manifest-list": "client's own", "schema-id": 0, "summary": summary, **more}
    return Append(NAME, "main", parent, number, sequence, snapshot, {}, [])


def listed(number: int, *, sequence: int = 2, snapshot_id: int = 9, **more: Any) -> Listed:
    values = (f"file:///w/t/metadata/m{number}.avro", 100, 0, 0, sequence, sequence, snapshot_id, 1, 0, 0, 10, 0, 0)
    return Listed(*values, b"\x00", None, None)._replace(**more)


def added(*numbers: int, rows: int = 10) -> list[AddedManifest]:
    return [AddedManifest(listed(number), AddedFiles(frozenset((f"f{number}",)), rows, 1000)) for number in numbers]


def manifests(*entries: Listed, version: int = 2) -> ManifestList:
    return ManifestList.of([encode(entry, version) for entry in entries])


def rebased(metadata: Json, append: Append, *numbers: int, head: ManifestList, rows: int = 10) -> Rebased:
    base = check_base(metadata, append)
    files = added(*numbers, rows=rows)
    return rebase(metadata, append, files, base=base, manifests=head, location=LOCATION)


# --- the snapshot ----------------------------------------------------------------------------------------------------


def test_the_snapshot_keeps_its_id_and_follows_the_head() -> None:
    metadata = history(1, 2, 3, summary={"operation": "append", **TOTALS})
    head = manifests(listed(3, sequence=3, snapshot_id=3), listed(1, sequence=1, snapshot_id=1))
    result = rebased(metadata, append(), 9, head=head)
    decided = decide(metadata, result.change, base_location=None, now_ms=1, new_uuid="")
    assert decided is not None
    snapshot = decided["snapshots"][-1]
    assert snapshot == {
        "snapshot-id": 9,
        "parent-snapshot-id": 3,
        "sequence-number": 4,
        "timestamp-ms": 2003,  # the client's clock was behind
        "manifest-list": LOCATION,
        "schema-id": 0,
        "summary": {
            "operation": "append",
            "added-data-files": "1",
            "engine-name": "x",
            "total-data-files": "5",
            "total-records": "50",
            "total-files-size": "5000",
            "total-delete-files": "1",
        },
    }
    assert decided["refs"]["main"]["snapshot-id"] == decided["current-snapshot-id"] == 9


def test_the_list_has_the_new_manifests_and_those_of_the_head() -> None:
    head = manifests(listed(3, sequence=3, snapshot_id=3), listed(1, sequence=1, snapshot_id=1))
    result = rebased(history(1, 2, 3), append(summary={"operation": "append"}), 8, 9, head=head)
    file = open_avro(result.content, most_bytes=10_000)
    entries = [describe(record, 2) for record in read_list(file, 2).records]
    assert [(entry.path[-7:], entry.sequence, entry.min_sequence, entry.snapshot_id) for entry in entries] == [
        ("m8.avro", 4, 4, 9),
        ("m9.avro", 4, 4, 9),
        ("m3.avro", 3, 3, 3),
        ("m1.avro", 1, 1, 1),
    ]
    heads = ("snapshot-id", "parent-snapshot-id", "sequence-number", "format-version")
    assert [file.text(key) for key in heads] == ["9", "3", "4", "2"]


def test_rows_of_format_3_get_ids_after_those_of_the_head() -> None:
    metadata = history(1, 2, version=3)
    head = manifests(listed(1, sequence=1, snapshot_id=1, first_row_id=0), version=3)
    stale = append(summary={"operation": "append"}, **{"first-row-id": 10, "added-rows": 10})
    result = rebased(metadata, stale, 8, 9, head=head)
    decided = decide(metadata, result.change, base_location=None, now_ms=1, new_uuid="")
    assert decided is not None
    snapshot = decided["snapshots"][-1]
    assert (snapshot["first-row-id"], snapshot["added-rows"], decided["next-row-id"]) == (20, 20, 40)
    assert [describe(record, 3).first_row_id for record in result.manifests.records] == [20, 30, 0]


def test_rows_of_the_head_without_ids_are_left_to_a_writer() -> None:
    head = manifests(listed(1, sequence=1, snapshot_id=1), version=3)
    with pytest.raises(NotRebased):
        rebased(history(1, 2, version=3), append(), 9, head=head)


def test_the_branch_keeps_its_rules_of_retention() -> None:
    metadata = apply(history(1, 2), {**main(2), "max-ref-age-ms": 5})
    moved = rebased(metadata, append(), 9, head=manifests()).change.updates[1]
    assert moved == {**main(9), "max-ref-age-ms": 5}


def test_counts_of_manifests_are_those_of_the_new_list() -> None:
    summary = {"operation": "append", "manifests-created": "1", "manifests-kept": "7", "manifests-replaced": "0"}
    head = manifests(listed(1, snapshot_id=1), listed(2, snapshot_id=2))
    result = rebased(history(1, 2), append(summary=summary), 9, head=head).change.updates[0]["snapshot"]["summary"]
    assert result == {**summary, "manifests-kept": "2"}


@pytest.mark.parametrize("key", ["added-data-files", "added-records", "added-files-size"])
def test_a_summary_that_counts_otherwise_than_the_manifests_is_refused(key: str) -> None:
    with pytest.raises(NotRebased):
        rebased(history(1, 2), append(summary={"operation": "append", key: "77"}), 9, head=manifests())


# --- the table -------------------------------------------------------------------------------------------------------


def test_the_first_two_appends_of_an_empty_table_may_follow_each_other() -> None:
    base = check_base(history(1), append(None, sequence=1))
    assert (base.head["snapshot-id"], base.parent) == (1, None)


def test_an_append_may_be_late_by_its_sequence_number_alone() -> None:
    metadata = apply(history(1), add(5, parent=1), {**main(5), "ref-name": "audit"})
    base = check_base(metadata, append(1))
    assert (base.head["snapshot-id"], base.parent) == (1, base.head)


def rolled_back() -> Json:
    return apply(history(1, 2), main(1), add(7, parent=1), main(7))


def expired() -> Json:
    return apply(history(1, 2, 3), {"action": "remove-snapshots", "snapshot-ids": [1]})


def with_gap() -> Json:
    return apply(history(1, 2, 3), {"action": "remove-snapshots", "snapshot-ids": [2]})


UNFIT: dict[str, tuple[Callable[[], Json], Append]] = {
    "format 1": (lambda: history(1, 2, version=1), append()),
    "a parent that was rolled back": (rolled_back, append(2)),
    "a parent that expired": (expired, append(1)),
    "a parent behind one that expired": (with_gap, append(1)),
    "an unknown parent": (lambda: history(1, 2), append(77)),
    "a rollback in between": (
        lambda: apply(
            history(1), add(2, parent=1, summary={"operation": "append", "frazil.rollback-to": "1"}), main(2)
        ),
        append(1),
    ),
    "an id that the table has": (lambda: history(1, 2), append(number=2)),
    "another schema": (lambda: history(1, 2), append(**{"schema-id": 1})),
    "a branch that is gone": (
        lambda: apply(history(1, 2), {"action": "remove-snapshot-ref", "ref-name": "main"}),
        append(),
    ),
    "a head without a list": (lambda: _without_list(history(1, 2)), append()),
}


def _without_list(metadata: Json) -> Json:
    *others, head = metadata["snapshots"]
    return {**metadata, "snapshots": [*others, {**head, "manifest-list": None, "manifests": []}]}


@pytest.mark.parametrize(("make", "late"), UNFIT.values(), ids=UNFIT.keys())
def test_a_table_that_an_append_does_not_fit(make: Callable[[], Json], late: Append) -> None:
    with pytest.raises(NotRebased):
        check_base(make(), late)


def test_a_tag_is_no_branch() -> None:
    metadata = apply(history(1, 2), {**main(2), "ref-name": "v1", "type": "tag"})
    late = Append(NAME, "v1", 1, 9, 2, append().snapshot, {}, [])
    with pytest.raises(NotRebased):
        check_base(metadata, late)


@pytest.mark.parametrize(
    "other",
    [
        {"type": "assert-table-uuid", "uuid": "another"},
        {"type": "assert-default-spec-id", "default-spec-id": 5},
        {"type": "assert-current-schema-id", "current-schema-id": 5},
        {"type": "assert-current-schema-id"},
    ],
)
def test_every_other_requirement_must_hold(other: Json) -> None:
    late = append()
    with pytest.raises(NotRebased):
        check_base(history(1, 2), Append(NAME, "main", 1, 9, 2, late.snapshot, {}, [other]))


def test_rules_of_retention_that_differ_are_refused() -> None:
    late = append()
    with pytest.raises(NotRebased):
        check_base(history(1, 2), Append(NAME, "main", 1, 9, 2, late.snapshot, {"max-ref-age-ms": 5}, []))


# --- the manifests ---------------------------------------------------------------------------------------------------

BAD: dict[str, list[Listed]] = {
    "none": [],
    "too many": [listed(number) for number in range(101)],
    "one twice": [listed(1), listed(1)],
    "of another snapshot": [listed(1, snapshot_id=1)],
    "of delete files": [listed(1, content=1)],
    "existing files": [listed(1, existing_files=1)],
    "existing rows": [listed(1, existing_rows=1)],
    "deleted files": [listed(1, deleted_files=1)],
    "a sequence number of its own": [listed(1, sequence=1)],
    "older files": [listed(1, min_sequence=1)],
    "another partition spec": [listed(1, spec_id=3)],
    "encrypted": [listed(1, key_metadata=b"k")],
}


@pytest.mark.parametrize("entries", BAD.values(), ids=BAD.keys())
def test_manifests_that_are_not_new_ones_of_the_append(entries: list[Listed]) -> None:
    records = [encode(entry, 2) for entry in entries]
    with pytest.raises(NotRebased):
        check_added(history(1, 2), append(), records)


def test_new_manifests_of_the_append() -> None:
    assert check_added(history(1, 2), append(), [encode(listed(9), 2)]) == [listed(9)]


def test_manifests_of_data_that_came_in_between() -> None:
    old, new, deletes = listed(1, snapshot_id=1), listed(2, snapshot_id=2), listed(3, snapshot_id=3, content=1)
    assert newer_manifests(manifests(new, deletes, old), manifests(old), 2) == [new]
