"""Branches and tags: named places in a table's past, with their own rules of how long snapshots are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pyiceberg.table.update import (
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from frazil.client import Change
from frazil.errors import ArgumentError, HistoryError
from frazil.protocol import SUMMARY_STAGED_BY
from frazil.scan.planning import MAIN, Point, ancestors, find_ref
from frazil.write.commit import PartProgress, Progress, guards, merge, move_ref, property_key, read_progress

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from frazil.client import FrazilCatalog

RefKind = Literal["branch", "tag"]


@dataclass(frozen=True)
class Retention:
    """How long a ref is kept, and how long and how many of a branch's snapshots; None leaves it to the table."""

    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None


@dataclass(frozen=True)
class RefInfo:
    """A branch or tag, where it stands, and its rules."""

    name: str
    kind: RefKind
    snapshot_id: int
    time_ms: int | None
    retention: Retention


def list_refs(metadata: TableMetadata, kind: RefKind | None = None) -> list[RefInfo]:
    """The branches and tags of a table, main first, then by name."""
    refs = []
    for name, ref in sorted(metadata.refs.items(), key=lambda item: (item[0] != MAIN, item[0])):
        snapshot = metadata.snapshot_by_id(ref.snapshot_id)
        rules = Retention(ref.max_ref_age_ms, ref.max_snapshot_age_ms, ref.min_snapshots_to_keep)
        own: RefKind = "branch" if ref.snapshot_ref_type.value == "branch" else "tag"
        refs.append(RefInfo(name, own, ref.snapshot_id, snapshot.timestamp_ms if snapshot else None, rules))
    return [ref for ref in refs if kind in (None, ref.kind)]


def create_ref(
    catalog: FrazilCatalog, table: Table, name: str, kind: RefKind, at: Point, *, retention: Retention | None = None
) -> None:
    """A new branch or tag at a point; one that exists is left alone, and that is an error."""
    label, rules = ".".join(table.name()), retention or Retention()
    if not isinstance(name, str):
        raise ArgumentError("name", name, expected=f"the name of a {kind}")
    if not name.strip() or name.isdigit():
        raise HistoryError(
            f"'{name}' cannot name a {kind}",
            hint="a name with a letter in it: a number would be taken for a snapshot's id",
            name=name,
        )
    if name in table.metadata.refs:
        known = table.metadata.refs[name]
        of_kind = known.snapshot_ref_type.value
        hint = f"drop it first (frazil {of_kind} drop {label} {name}), or choose another name"
        raise HistoryError(
            f"{label} has a {of_kind} '{name}' already, at snapshot {known.snapshot_id}",
            hint=hint,
            snapshot=known.snapshot_id,
            table=label,
            ref=name,
        )
    values: Mapping[str, Any] = {
        "ref-name": name,
        "type": kind,
        "snapshot-id": at.snapshot.snapshot_id,
        "max-ref-age-ms": rules.max_ref_age_ms,
        "max-snapshot-age-ms": rules.max_snapshot_age_ms,
        "min-snapshots-to-keep": rules.min_snapshots_to_keep,
    }
    # The guard requires that the ref does not exist: of two concurrent creators, one fails.
    _commit(catalog, table, name, None, SetSnapshotRefUpdate.model_validate(values))


@dataclass(frozen=True)
class DropPlan:
    """What dropping a ref would leave behind: snapshots that no other ref reaches, and the progress of sinks that wrote
    to it.
    """

    table: str
    ref: RefInfo
    unreachable: tuple[int, ...]
    parts: tuple[str, ...]


def plan_drop(table: Table, name: str, kind: RefKind) -> DropPlan:
    """What would be lost with a branch or tag. Main cannot be dropped."""
    label, metadata = ".".join(table.name()), table.metadata
    point = find_ref(metadata, name, table=label)
    if name == MAIN:
        raise HistoryError(f"main is the table itself: it cannot be dropped from {label}", table=label, ref="main")
    if point.kind != kind:
        raise HistoryError(
            f"'{name}' of {label} is a {point.kind}, not a {kind}",
            hint=f"frazil {point.kind} drop {label} {name}",
            table=label,
            ref=name,
        )
    others = {other for other in metadata.refs if other != name}
    reached = {
        snapshot.snapshot_id for other in others for snapshot in ancestors(metadata, metadata.snapshot_by_name(other))
    }
    lost = tuple(
        snapshot.snapshot_id for snapshot in ancestors(metadata, point.snapshot) if snapshot.snapshot_id not in reached
    )
    (info,) = (ref for ref in list_refs(metadata) if ref.name == name)
    return DropPlan(label, info, lost, tuple(sorted(read_progress(metadata, name).parts)))


def perform_drop(catalog: FrazilCatalog, table: Table, plan: DropPlan) -> None:
    """The ref is gone, if it still is where the plan saw it; and so is the progress that belonged to it."""
    name, updates = (
        plan.ref.name,
        list[TableUpdate]([RemoveSnapshotRefUpdate.model_validate({"ref-name": plan.ref.name})]),
    )
    if property_key(name) in table.metadata.properties:
        updates.append(RemovePropertiesUpdate(removals=[property_key(name)]))
    _commit(catalog, table, name, plan.ref.snapshot_id, *updates)


@dataclass(frozen=True)
class PublishPlan:
    """A branch whose snapshots main would get: those snapshots, and the progress of main afterwards."""

    table: str
    branch: str
    main_id: int | None
    head_id: int
    snapshots: tuple[int, ...]
    progress: Progress
    parts: tuple[str, ...]


def plan_publish(table: Table, branch: str) -> PublishPlan:
    """What it takes to move main forward to a branch that has grown out of it; refused when it has not."""
    label, metadata = ".".join(table.name()), table.metadata
    point = find_ref(metadata, branch, table=label)
    if point.kind != "branch" or branch == MAIN:
        raise HistoryError(
            f"'{branch}' is not a branch of {label}, or is main",
            hint=f"frazil branch list {label}",
            ref=branch,
            table=label,
        )
    main = metadata.snapshot_by_name(MAIN)
    summary = point.snapshot.summary
    if summary is not None and (pipeline := summary.additional_properties.get(SUMMARY_STAGED_BY)):
        hint = f"fix the rows or the check, and run it again: frazil run {pipeline}"
        raise HistoryError(
            f"'{branch}' of {label} holds rows that pipeline '{pipeline}' has staged for its audit: published so, "
            f"they would come again",
            hint=hint,
            pipeline=pipeline,
            ref=branch,
            table=label,
            problem="staged-rows",
        )
    ahead = []
    for snapshot in ancestors(metadata, point.snapshot):
        if main and snapshot.snapshot_id == main.snapshot_id:
            break
        ahead.append(snapshot.snapshot_id)
    else:
        if main:
            hint = "what was written to main since would be lost; write the branch again from main, or merge with Spark"
            raise HistoryError(
                f"'{branch}' of {label} does not contain main's snapshot {main.snapshot_id}",
                hint=hint,
                snapshot=main.snapshot_id,
                ref=branch,
                table=label,
            )
    if not ahead:
        raise HistoryError(
            f"main of {label} is where '{branch}' is already, at snapshot {point.snapshot.snapshot_id}",
            snapshot=point.snapshot.snapshot_id,
            table=label,
            ref=branch,
        )
    theirs = read_progress(metadata, branch)
    after = merge_progress(read_progress(metadata), theirs, branch=branch, table=label)
    main_id = main.snapshot_id if main else None
    return PublishPlan(
        label, branch, main_id, point.snapshot.snapshot_id, tuple(ahead), after, tuple(sorted(theirs.parts))
    )


def perform_publish(catalog: FrazilCatalog, table: Table, plan: PublishPlan) -> None:
    """Main is at the branch's snapshot, with the progress that belongs to it, if neither has moved since the plan."""
    metadata = table.metadata
    both = (*guards(metadata, MAIN, plan.main_id), guards(metadata, plan.branch, plan.head_id)[1])
    updates: list[TableUpdate] = [move_ref(metadata, MAIN, plan.head_id)]
    if plan.parts:
        updates.append(SetPropertiesUpdate(updates={property_key(): plan.progress.dump()}))
    catalog.commit_changes([Change(table.name(), both, tuple(updates))])


def merge_progress(main: Progress, theirs: Progress, *, branch: str, table: str) -> Progress:
    """The branch's word for its own parts, unless main is further: then rows would come in a second time."""
    for name, part in theirs.parts.items():
        if _is_ahead(main.part(name), part):
            raise HistoryError(
                f"{table}: sink part '{name}' is further ahead on main than on '{branch}': "
                f"{dict(main.part(name).offsets)} "
                f"against {dict(part.offsets)}",
                hint="let each sink write to one of the two",
                table=table,
                part=name,
                ref=branch,
            )
    return merge(main, theirs.parts, theirs)


def _is_ahead(main: PartProgress, branch: PartProgress) -> bool:
    further = any(branch.offsets.get(name, -1) < offset for name, offset in main.offsets.items())
    return main.commits > branch.commits or further


def _commit(catalog: FrazilCatalog, table: Table, ref: str, snapshot_id: int | None, *updates: TableUpdate) -> None:
    catalog.commit_changes([Change(table.name(), guards(table.metadata, ref, snapshot_id), tuple(updates))])
