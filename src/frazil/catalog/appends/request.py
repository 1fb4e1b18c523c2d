"""Whether a commit only appends, by what its request says: one snapshot, one branch that is moved to it, and a summary
that is made of metrics and descriptions alone; a sink's may have the progress of a part. Pure.

Everything that is not known is a reason to refuse: a writer that keeps offsets, checkpoints or ids of transactions in
the summary relies on the conflict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frazil.catalog.appends.problems import NotRebased
from frazil.catalog.appends.progress import MARKS, PROPERTY, PartCommit, read_part_commit
from frazil.catalog.commit import Change
from frazil.catalog.fields import LONG_MAX, Json
from frazil.catalog.names import Name

MAIN = "main"
REF_AGES = ("min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms")
SNAPSHOT_KEYS = frozenset(
    (
        "snapshot-id", "parent-snapshot-id", "sequence-number", "timestamp-ms", "manifest-list", "summary", "schema-id",
        "first-row-id", "added-rows",
    )
)  # fmt: skip
ADDED_FILES, ADDED_RECORDS, ADDED_BYTES = "added-data-files", "added-records", "added-files-size"
TOTALS = {
    "total-data-files": ADDED_FILES,
    "total-records": ADDED_RECORDS,
    "total-files-size": ADDED_BYTES,
    "total-delete-files": None,
    "total-position-deletes": None,
    "total-equality-deletes": None,
}
MANIFEST_COUNTS = ("manifests-created", "manifests-kept", "manifests-replaced", "entries-processed")
# What an append must not have done, if its summary mentions it at all.
NOTHING = frozenset(
    (
        "deleted-data-files", "deleted-records", "removed-files-size", "added-delete-files", "removed-delete-files",
        "added-position-delete-files", "removed-position-delete-files", "added-position-deletes",
        "removed-position-deletes", "added-equality-delete-files", "removed-equality-delete-files",
        "added-equality-deletes", "removed-equality-deletes", "added-dvs", "removed-dvs", "deleted-duplicate-files",
        "manifests-replaced",
    )
)  # fmt: skip
METRICS = frozenset((ADDED_FILES, ADDED_RECORDS, ADDED_BYTES, "changed-partition-count", *MANIFEST_COUNTS, *TOTALS))
# Who made the snapshot. Nothing of it is looked up by a writer to find out what is in.
DESCRIPTIONS = frozenset(
    (
        "operation", "engine-name", "engine-version", "app-id", "app-name", "iceberg-version", "spark.app.id",
        "partition-summaries-included", "trino_query_id", "trino_user",
    )
)  # fmt: skip
PARTITION_SUMMARY = "partitions."
_KNOWN_REQUIREMENTS = frozenset(
    (
        "assert-table-uuid", "assert-ref-snapshot-id", "assert-last-assigned-field-id", "assert-current-schema-id",
        "assert-last-assigned-partition-id", "assert-default-spec-id", "assert-default-sort-order-id",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Append:
    """A commit that only appends: a snapshot for a branch, after the one that the client saw there."""

    name: Name
    ref: str
    parent_id: int | None
    snapshot_id: int
    sequence: int
    snapshot: Json
    ages: Mapping[str, int]  # the branch's rules of retention, as the client knows them
    others: Sequence[Json]  # requirements besides that of the branch
    sink: PartCommit | None = None  # the progress that it carries

    @property
    def summary(self) -> dict[str, str]:
        summary: dict[str, str] = self.snapshot["summary"]
        return summary

    @property
    def manifest_list(self) -> str:
        return str(self.snapshot["manifest-list"])


def is_append(change: Change) -> bool:
    """Whether a commit may be one that only appends, at a glance."""
    actions = [update.get("action") for update in change.updates]
    if actions[2:] and not (actions[2:] == ["set-properties"] and _sets_progress(change.updates[2])):
        return False
    return actions[:2] == ["add-snapshot", "set-snapshot-ref"] and not change.creates


def _sets_progress(update: Json) -> bool:
    properties = update.get("updates")
    return isinstance(properties, dict) and properties.keys() == {PROPERTY}


def read_append(change: Change) -> Append:
    """The append that a change is; NotRebased if it is anything else, or carries what must not move."""
    if not is_append(change):
        raise NotRebased("it does more than append a snapshot to a branch")
    snapshot, moved = change.updates[0].get("snapshot"), change.updates[1]
    if not isinstance(snapshot, dict) or not snapshot.keys() <= SNAPSHOT_KEYS:
        raise NotRebased("its snapshot has fields that are not known")
    snapshot_id, parent_id = _long(snapshot, "snapshot-id"), _long_or_none(snapshot, "parent-snapshot-id")
    ref = moved.get("ref-name")
    if not isinstance(ref, str) or moved.get("type") != "branch" or moved.get("snapshot-id") != snapshot_id:
        raise NotRebased("it does not set a branch to its snapshot")
    _check_values(snapshot)
    sink = _check_summary(snapshot.get("summary"), change, ref)
    others = _check_guard(change.requirements, ref, parent_id)
    ages = {key: age for key in REF_AGES if (age := _long_or_none(moved, key)) is not None}
    sequence = _long(snapshot, "sequence-number")
    return Append(change.name, ref, parent_id, snapshot_id, sequence, snapshot, ages, others, sink)


def _check_values(snapshot: Json) -> None:
    for key in ("timestamp-ms", "schema-id"):
        _long(snapshot, key)
    for key in ("first-row-id", "added-rows"):
        _long_or_none(snapshot, key)
    if not isinstance(snapshot.get("manifest-list"), str):
        raise NotRebased("its snapshot has no manifest list")


def _check_guard(requirements: Sequence[Json], ref: str, parent_id: int | None) -> list[Json]:
    """The requirements besides that of the branch, which must be exactly one and about the parent."""
    if any(str(requirement.get("type")) not in _KNOWN_REQUIREMENTS for requirement in requirements):
        raise NotRebased("it has a requirement that is not known")
    guards = [each for each in requirements if each.get("type") == "assert-ref-snapshot-id"]
    if len(guards) != 1 or guards[0].get("ref") != ref:
        raise NotRebased("it requires something of another branch or tag, or nothing of its own")
    if _long_or_none(guards[0], "snapshot-id") != parent_id:
        raise NotRebased("its parent is not the snapshot that it requires")
    if parent_id is None and ref != MAIN:
        raise NotRebased("it creates a branch")
    if not any(each.get("type") == "assert-table-uuid" for each in requirements):
        raise NotRebased("it does not say which table it was prepared for")
    return [each for each in requirements if each is not guards[0]]


def _check_summary(summary: object, change: Change, ref: str) -> PartCommit | None:
    """The progress that the commit carries, if it is one of a sink."""
    if not isinstance(summary, dict) or not all(isinstance(value, str) for value in summary.values()):
        raise NotRebased("it has no summary")
    if summary.get("operation") != "append":
        raise NotRebased(f"its operation is {str(summary.get('operation'))[:40]}")
    sink = read_part_commit(summary, change.updates[2]["updates"]) if len(change.updates) > 2 else None
    if sink is not None and ref != MAIN:
        raise NotRebased("it carries progress of main, and is for another branch")
    for key, value in summary.items():
        if sink is not None and key in MARKS:
            continue
        if key in NOTHING:
            if value != "0":
                raise NotRebased(f"it has {key} {value[:40]}")
        elif key in METRICS:
            if count_of(value) is None:
                raise NotRebased(f"its summary has {key} {value[:40]!r}")
        elif key not in DESCRIPTIONS and not key.startswith(PARTITION_SUMMARY):
            raise NotRebased(f"its summary has {key[:100]!r}, which may be a mark of the writer's progress")
    return sink


def count_of(text: object) -> int | None:
    """A count in a summary; None if it is none.

    >>> count_of("12"), count_of("-1"), count_of("9" * 40), count_of(None)
    (12, None, None, None)
    """
    if not isinstance(text, str) or not text.isascii() or not text.isdecimal() or len(text) > 19:
        return None
    return int(text)


def _long(source: Json, key: str) -> int:
    value = _long_or_none(source, key)
    if value is None:
        raise NotRebased(f"it has no {key}")
    return value


def _long_or_none(source: Json, key: str) -> int | None:
    value: Any = source.get(key)
    if value is None or (type(value) is int and -LONG_MAX - 1 <= value <= LONG_MAX):
        return value
    raise NotRebased(f"its {key} is no number")
