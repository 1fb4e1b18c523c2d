"""The decision about an append whose branch has moved: the same snapshot after the head of now, or a refusal. Pure.

    check_base(metadata, append)         what must hold of the table: history, schema, requirements
    check_manifests(...)                 what must hold of the manifests that the client adds
    rebase(metadata, append, ...)  ->    the commit that the client would have sent, had it seen the head

The snapshot keeps the client's id and its manifests. Its manifest list, sequence number, parent, totals and row ids are
those that follow the head. What raises NotRebased here stays the conflict that it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from frazil.catalog.appends.entries import AddedFiles, check_listed
from frazil.catalog.appends.lists import DATA, Listed, ManifestList, describe, encode, write_list
from frazil.catalog.appends.problems import NotRebased
from frazil.catalog.appends.progress import PROPERTY, advance
from frazil.catalog.appends.request import (
    ADDED_BYTES,
    ADDED_FILES,
    ADDED_RECORDS,
    MANIFEST_COUNTS,
    REF_AGES,
    TOTALS,
    Append,
    count_of,
)
from frazil.catalog.commit import Change
from frazil.catalog.fields import LONG_MAX, Json
from frazil.catalog.requirements import check_requirements
from frazil.errors import CatalogError
from frazil.protocol import PROPERTY_REBASE_APPENDS, SUMMARY_PROGRESS, SUMMARY_ROLLBACK

FIRST_VERSION = 2  # format 1 has no sequence numbers, and manifests that say less
ROW_ID_VERSION = 3
MOST_MANIFESTS = 100  # that one append adds
_SNAPSHOT_ID = itemgetter("snapshot-id")


@dataclass(frozen=True, slots=True)
class AddedManifest:
    """A manifest of the append, as its client's list has it, and its files."""

    listed: Listed
    files: AddedFiles


@dataclass(frozen=True, slots=True)
class Rebased:
    """The append after the head: a change whose requirements hold, and the manifest list that it names."""

    append: Append
    change: Change
    location: str
    manifests: ManifestList
    content: bytes

    @property
    def facts(self) -> dict[str, object]:
        """What the log says of it."""
        snapshot = self.change.updates[0]["snapshot"]
        names = {"table": str(self.append.name), "ref": self.append.ref, "snapshot": self.append.snapshot_id}
        parents = {"parent": self.append.parent_id, "head": snapshot["parent-snapshot-id"]}
        return {**names, **parents, "sequence": snapshot["sequence-number"]}


class Base(NamedTuple):
    """The head of the branch as it is now, and as the client saw it (None: there was none). For a sink's append, the
    progress once it is in.
    """

    head: Json
    parent: Json | None
    progress: str | None = None


def is_on(metadata: Json, *, default: bool) -> bool:
    """Whether appends to a table are rebased: as its property says, else as the server does by default.

    >>> is_on({"properties": {"commit.rebase-appends.enabled": "True"}}, default=False)
    True
    """
    text = metadata["properties"].get(PROPERTY_REBASE_APPENDS)
    return default if text is None else text.strip().lower() == "true"


# --- the table -------------------------------------------------------------------------------------------------------


def check_base(metadata: Json, append: Append) -> Base:
    """What the append is to follow; NotRebased if the table is not one that it fits."""
    if metadata["format-version"] < FIRST_VERSION:
        raise NotRebased(f"the table has format version {metadata['format-version']}")
    try:
        check_requirements(metadata, append.others, table="")
    except CatalogError as exc:
        raise NotRebased(f"another requirement does not hold: {exc.message}") from exc
    if append.snapshot["schema-id"] != metadata["current-schema-id"]:
        raise NotRebased("the schema of the table has changed")
    ref = metadata["refs"].get(append.ref)
    if ref is None or ref["type"] != "branch":
        raise NotRebased(f"{append.ref[:100]!r} is not a branch any more")
    if any(ref.get(key) != age for key, age in append.ages.items()):
        raise NotRebased("the rules of retention of the branch have changed, or are to be changed")
    progress = advance(metadata["properties"].get(PROPERTY), append.sink) if append.sink is not None else None
    return _find_head(metadata, append, ref["snapshot-id"])._replace(progress=progress)


def _find_head(metadata: Json, append: Append, head_id: int) -> Base:
    """The head of the branch, if the client's parent is one of its ancestors, and no rollback came in between.

    Snapshots are in the order of their commits, a parent before its children. Where they are not, none is found.
    """
    if append.snapshot_id in map(_SNAPSHOT_ID, metadata["snapshots"]):
        raise NotRebased("the table has a snapshot of this id")
    head, parent, wanted = None, None, head_id
    for snapshot in reversed(metadata["snapshots"]):
        if snapshot["snapshot-id"] != wanted:
            continue
        head = head or snapshot
        if wanted == append.parent_id:
            parent = snapshot
            break
        if SUMMARY_ROLLBACK in (snapshot.get("summary") or {}):
            raise NotRebased("the branch was rolled back")
        wanted = snapshot.get("parent-snapshot-id")
    if head is None or (append.parent_id is not None and parent is None):
        raise NotRebased("its parent is not in the history of the branch any more")
    if not all(isinstance(snapshot.get("manifest-list"), str) for snapshot in (head, parent or head)):
        raise NotRebased("the head or the parent has no manifest list")
    return Base(head, parent)


# --- the manifests ---------------------------------------------------------------------------------------------------


def check_added(metadata: Json, append: Append, records: Sequence[bytes]) -> list[Listed]:
    """What the client's list says of the manifests that it adds, if all are new ones of its own."""
    if not 1 <= len(records) <= MOST_MANIFESTS:
        raise NotRebased(f"it adds {len(records)} manifests")
    added = [describe(record, metadata["format-version"]) for record in records]
    if len({listed.path for listed in added}) != len(added):
        raise NotRebased("it adds a manifest twice")
    for listed in added:
        check_listed(
            listed, snapshot_id=append.snapshot_id, sequence=append.sequence, spec_id=metadata["default-spec-id"]
        )
    return added


def newer_manifests(head: ManifestList, parent: ManifestList, version: int) -> list[Listed]:
    """The manifests of data files that came to the branch since the client looked."""
    before = len(head.records) - len(parent.records)
    if before >= 0 and head.records[before:] == parent.records:  # nothing but appends came
        records = head.records[:before]
    else:
        known = set(parent.records)
        records = tuple(record for record in head.records if record not in known)
    listed = [describe(record, version) for record in records]
    return [manifest for manifest in listed if manifest.content == DATA]


# --- the new snapshot ------------------------------------------------------------------------------------------------


def rebase(
    metadata: Json,
    append: Append,
    added: Sequence[AddedManifest],
    *,
    base: Base,
    manifests: ManifestList,
    location: str,
) -> Rebased:
    """The commit that adds the client's manifests to those of the head, in a list at a new location."""
    head, version, sequence = base.head, metadata["format-version"], metadata["last-sequence-number"] + 1
    row_id, counts = metadata["next-row-id"], _count(added)
    _check_counts(append, counts)
    records, following = _place(added, sequence, row_id if version >= ROW_ID_VERSION else None, version)
    if version >= ROW_ID_VERSION:
        _check_row_ids(manifests, version)
    snapshot: Json = {
        **append.snapshot,
        "parent-snapshot-id": head["snapshot-id"],
        "sequence-number": sequence,
        # The clocks of two writers may differ: time must not run backwards along a branch.
        "timestamp-ms": max(append.snapshot["timestamp-ms"], head["timestamp-ms"]),
        "manifest-list": location,
        "summary": _summarise(append, base, counts, kept=len(manifests.records)),
    }
    head_properties = {
        "snapshot-id": str(append.snapshot_id),
        "parent-snapshot-id": str(head["snapshot-id"]),
        "sequence-number": str(sequence),
        "format-version": str(version),
    }
    if version >= ROW_ID_VERSION:
        snapshot |= {"first-row-id": row_id, "added-rows": following - row_id}
        head_properties["first-row-id"] = str(row_id)
    listed = ManifestList.of((*records, *manifests.records))
    content = write_list(listed, version, head_properties)
    return Rebased(append, _change(append, snapshot, metadata, base.progress), location, listed, content)


def _count(added: Sequence[AddedManifest]) -> dict[str, int]:
    return {
        ADDED_FILES: sum(len(manifest.files.paths) for manifest in added),
        ADDED_RECORDS: sum(manifest.files.rows for manifest in added),
        ADDED_BYTES: sum(manifest.files.bytes for manifest in added),
    }


def _check_counts(append: Append, counts: dict[str, int]) -> None:
    for key, count in counts.items():
        stated = append.summary.get(key)
        if stated is not None and count_of(stated) != count:
            raise NotRebased(f"its summary has {key} {stated[:20]}, its manifests have {count}")


def _place(added: Sequence[AddedManifest], sequence: int, row_id: int | None, version: int) -> tuple[list[bytes], int]:
    """The records of the new manifests, with what they inherit from the snapshot; and the row id after their rows."""
    records, following = [], row_id or 0
    for manifest in added:
        first = following if row_id is not None else None
        placed = manifest.listed._replace(sequence=sequence, min_sequence=sequence, first_row_id=first)
        records.append(encode(placed, version))
        following += manifest.files.rows
    if following > LONG_MAX:
        raise NotRebased("there are not so many row ids")
    return records, following


def _check_row_ids(manifests: ManifestList, version: int) -> None:
    """Passes when all rows of the head have ids: those of a table that was upgraded get them by a writer."""
    for record in manifests.records:
        listed = describe(record, version)
        if listed.content == DATA and listed.first_row_id is None:
            raise NotRebased("rows of the head have no row ids yet")


def _summarise(append: Append, base: Base, counts: dict[str, int], *, kept: int) -> dict[str, str]:
    """The client's summary with the totals of the head carried on; a total that the head lacks is left out."""
    before = base.head.get("summary") or {}
    summary = {key: value for key, value in append.summary.items() if key not in TOTALS and key not in MANIFEST_COUNTS}
    for total, part in TOTALS.items():
        known = count_of(before.get(total))
        if known is not None:
            summary[total] = str(known + (counts[part] if part is not None else 0))
    for key in MANIFEST_COUNTS:
        if key in append.summary:
            summary[key] = str(kept) if key == "manifests-kept" else append.summary[key]
    return summary if base.progress is None else {**summary, SUMMARY_PROGRESS: base.progress}


def _change(append: Append, snapshot: Json, metadata: Json, progress: str | None) -> Change:
    ref = metadata["refs"][append.ref]
    moved: Json = {"action": "set-snapshot-ref", "ref-name": append.ref, "type": "branch"}
    moved |= {"snapshot-id": append.snapshot_id} | {key: ref[key] for key in REF_AGES if key in ref}
    guard = {"type": "assert-ref-snapshot-id", "ref": append.ref, "snapshot-id": ref["snapshot-id"]}
    updates = [{"action": "add-snapshot", "snapshot": snapshot}, moved]
    if progress is not None:
        updates.append({"action": "set-properties", "updates": {PROPERTY: progress}})
    return Change(append.name, [*append.others, guard], updates)
