"""The snapshots of a table, the newest first: when, what, how much, by whom, and which refs stand there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from frazil.protocol import RUNS_SUFFIX, SUMMARY_COMMIT, SUMMARY_PROGRESS, SUMMARY_ROLLBACK, SUMMARY_UPKEEP
from frazil.scan.planning import MAIN, Named, ancestors, find_point, find_ref, time_of
from frazil.scan.reading import scan_rows
from frazil.write.commit import count_marked

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from frazil.client import FrazilCatalog

# How engines sign their commits: the property in the snapshot's summary, and what to call it.
_SIGNATURES = {"trino_query_id": "trino query", "spark.app.id": "spark", "engine-name": "engine"}


@dataclass(frozen=True)
class LogEntry:
    """A snapshot. Totals count the rows of data files; `total_deletes` of them, at most, are deleted by
    delete files. `inputs` are the tables that a model or pipeline made its rows from, with their snapshots.
    """

    snapshot_id: int
    parent_id: int | None
    time_ms: int
    operation: str
    added_rows: int
    removed_rows: int
    added_files: int
    removed_files: int
    total_rows: int | None
    total_deletes: int
    total_files: int | None
    by: str
    refs: tuple[str, ...]
    is_ancestor: bool
    inputs: Mapping[str, int | None] = field(default_factory=dict)


def read_log(
    metadata: TableMetadata,
    *,
    table: str,
    ref: str = MAIN,
    all: bool = False,
    limit: int | None = None,
    runs: Mapping[int, str] | None = None,
) -> list[LogEntry]:
    """The snapshots of a ref, the newest first; with `all`, every one that is kept, also those that were undone or are
    on other refs.

    `runs` tells which run of a pipeline made a snapshot.
    """
    if not metadata.snapshots and ref == MAIN:
        return []
    line = list(
        ancestors(metadata, metadata.snapshot_by_name(ref) if all else find_ref(metadata, ref, table=table).snapshot)
    )
    on_line = {snapshot.snapshot_id for snapshot in line}
    shown = (
        sorted(metadata.snapshots, key=lambda entry: (entry.timestamp_ms, entry.sequence_number or 0), reverse=True)
        if all
        else line
    )
    refs = refs_by_snapshot(metadata)
    return [
        describe(
            snapshot,
            refs=refs.get(snapshot.snapshot_id, ()),
            is_ancestor=snapshot.snapshot_id in on_line,
            run=(runs or {}).get(snapshot.snapshot_id, ""),
        )
        for snapshot in islice(shown, limit)
    ]


def between(
    metadata: TableMetadata, entries: Sequence[LogEntry], since: Named | None, until: Named | None, *, table: str
) -> list[LogEntry]:
    """The entries after `since`, up to and including `until`: by time, or along the line of a snapshot, branch or
    tag.
    """
    older = _up_to(metadata, since, entries, table=table) if since is not None else frozenset()
    kept = _up_to(metadata, until, entries, table=table) if until is not None else None
    return [
        entry for entry in entries if entry.snapshot_id not in older and (kept is None or entry.snapshot_id in kept)
    ]


def _up_to(metadata: TableMetadata, named: Named, entries: Sequence[LogEntry], *, table: str) -> frozenset[int]:
    """The snapshots that were there at a time, or that lead to a snapshot, branch or tag."""
    if (time_ms := time_of(metadata, named)) is not None:
        return frozenset(entry.snapshot_id for entry in entries if entry.time_ms <= time_ms)
    line = ancestors(metadata, find_point(metadata, named, table=table).snapshot)
    return frozenset(snapshot.snapshot_id for snapshot in line)


def read_runs(catalog: FrazilCatalog, table: Table) -> dict[int, str]:
    """The runs of pipelines that made snapshots of a table, by snapshot."""
    from pyiceberg.exceptions import NoSuchTableError

    *namespace, name = table.name()
    try:
        runs = catalog.load_table((*namespace, f"{name}{RUNS_SUFFIX}"))
    except NoSuchTableError:
        return {}
    columns = ("snapshot_id", "pipeline", "run_id")
    if not set(columns) <= set(runs.schema().column_names):
        return {}  # a table of that name that is the user's own
    rows = scan_rows(runs, columns, filter="snapshot_id IS NOT NULL").to_arrow().to_pylist()
    return {row["snapshot_id"]: f"{row['pipeline']} run {row['run_id']}" for row in rows}


def refs_by_snapshot(metadata: TableMetadata) -> dict[int, tuple[str, ...]]:
    """The branches, and the tags as `tag: name`, by the snapshot where they stand."""
    snapshot: dict[int, tuple[str, ...]] = {}
    for name, ref in sorted(metadata.refs.items(), key=lambda item: (item[0] != MAIN, item[0])):
        label = name if ref.snapshot_ref_type.value == "branch" else f"tag: {name}"
        snapshot[ref.snapshot_id] = (*snapshot.get(ref.snapshot_id, ()), label)
    return snapshot


def describe(snapshot: Snapshot, *, refs: tuple[str, ...] = (), is_ancestor: bool = True, run: str = "") -> LogEntry:
    """What a snapshot's summary says."""
    summary = dict(snapshot.summary.additional_properties) if snapshot.summary else {}
    return LogEntry(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        time_ms=snapshot.timestamp_ms,
        operation="rollback"
        if SUMMARY_ROLLBACK in summary
        else snapshot.summary.operation.value
        if snapshot.summary
        else "unknown",
        added_rows=_number(summary, "added-records"),
        removed_rows=sum(_number(summary, key) for key in ("deleted-records", "added-equality-deletes"))
        + count_marked(summary),
        added_files=_number(summary, "added-data-files"),
        removed_files=_number(summary, "deleted-data-files"),
        total_rows=_total(summary, "total-records"),
        total_deletes=_number(summary, "total-position-deletes") + _number(summary, "total-equality-deletes"),
        total_files=_total(summary, "total-data-files"),
        by=", ".join(filter(None, [run, signed_by(summary)])),
        refs=refs,
        is_ancestor=is_ancestor,
        inputs=made_from(summary),
    )


def made_from(summary: Mapping[str, str]) -> Mapping[str, int | None]:
    """The tables that rows were made from, by the commit that brought them in: a snapshot each, None if it had none.

    >>> made_from({"frazil.commit": '{"part":"gold.x/part-0","commit":3,"inputs":{"silver.y":7}}'})
    {'silver.y': 7}
    """
    inputs: Mapping[str, int | None] = json.loads(summary.get(SUMMARY_COMMIT, "{}")).get("inputs", {})
    return inputs


def signed_by(summary: Mapping[str, str]) -> str:
    """Who made a snapshot, as far as it says: a part of a sink and its commit's number, or an engine.

    >>> signed_by({"frazil.commit": '{"part":"uplink/part-0","generation":1,"commit":7,"from":{},"to":{}}'})
    'uplink/part-0 commit 7'
    >>> signed_by({"frazil.rollback-to": "12"}), signed_by({"spark.app.id": "local-1"}), signed_by({})
    ('back to 12', 'spark local-1', '')
    """
    if SUMMARY_ROLLBACK in summary:
        return f"back to {summary[SUMMARY_ROLLBACK]}"
    said = []
    if SUMMARY_COMMIT in summary:
        claim = json.loads(summary[SUMMARY_COMMIT])
        said.append(f"{claim['part']} commit {claim['commit']}")
    if SUMMARY_UPKEEP in summary:
        said.append(f"upkeep: {summary[SUMMARY_UPKEEP]}")
    if SUMMARY_PROGRESS in summary and not said:
        said.append("a writer took over")
    engine = next((f"{name} {summary[key]}" for key, name in _SIGNATURES.items() if key in summary), None)
    return ", ".join(said) or engine or ""


def _number(summary: Mapping[str, str], key: str) -> int:
    return int(summary.get(key, 0))


def _total(summary: Mapping[str, str], key: str) -> int | None:
    return int(summary[key]) if key in summary else None
