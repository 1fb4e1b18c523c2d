"""The totals in a snapshot's summary: carried over from the parent, and counted again where the parent lacks one.

Some writers leave totals out (Sail has no `total-files-size`), and some readers demand them (ClickHouse refuses to
write on top of such a snapshot). Once one is missing, no later sum can be right: it is counted from the manifests.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from frazil.errors import ScanError, Unavailable
from frazil.scan.manifests import EntryColumns, ManifestList, decode_list, read_entries
from frazil.scan.planning import Files

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.snapshots import Snapshot

TOTALS = (
    "total-data-files",
    "total-delete-files",
    "total-records",
    "total-files-size",
    "total-position-deletes",
    "total-equality-deletes",
)
FEW_MANIFESTS = 64  # that a commit may read to count; upkeep reads all of them anyway
DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
_UNKNOWN = {"totals": "unknown"}  # not empty: PyIceberg begins at zero when nothing is known

log = logging.getLogger("frazil.write")


def totals_before(
    io: FileIO, parent: Snapshot | None, *, most_manifests: int | None = FEW_MANIFESTS
) -> Mapping[str, str] | None:
    """What the totals of the next snapshot are added to; None without a parent. To count, at most `most_manifests` are
    read.
    """
    if parent is None:
        return None
    known = {name: value for name, value in _stated(parent).items() if name in TOTALS and value.isdecimal()}
    if len(known) == len(TOTALS):
        return known
    try:
        return known | count_totals(io, parent, most_manifests=most_manifests) or _UNKNOWN
    except (ScanError, Unavailable) as exc:
        log.warning("the totals of snapshot %s cannot be counted: %s", parent.snapshot_id, exc)
        return known or _UNKNOWN


def count_marked(summary: Mapping[str, str]) -> int:
    """How many rows a snapshot has marked as deleted, by position. A deletion vector names again what the one that it
    replaces named.

    >>> count_marked({"added-position-deletes": "5", "removed-position-deletes": "3"})
    2
    """
    added, removed = (int(summary.get(f"{verb}-position-deletes", 0)) for verb in ("added", "removed"))
    return max(added - removed, 0)


def _stated(snapshot: Snapshot) -> Mapping[str, str]:
    return snapshot.summary.additional_properties if snapshot.summary else {}


def count_totals(io: FileIO, snapshot: Snapshot, *, most_manifests: int | None = None) -> dict[str, str]:
    """The totals of a snapshot from its manifests; nothing when there are more of these than may be read."""
    files = Files(io)
    listed = decode_list(snapshot.manifest_list, files.read(snapshot.manifest_list))
    if most_manifests is not None and len(listed) > most_manifests:
        return {}
    totals = dict.fromkeys(TOTALS, 0)
    for path in _live_manifests(listed):
        _count(EntryColumns(path, read_entries(path, files.read(path))), totals)
    log.info("counted the totals of snapshot %s from %s manifests", snapshot.snapshot_id, len(listed))
    return {name: str(value) for name, value in totals.items()}


def _live_manifests(listed: ManifestList) -> list[str]:
    return [path for at, path in enumerate(listed.columns["path"]) if listed.live(at) != 0]


def _count(entries: EntryColumns, totals: dict[str, int]) -> None:
    content, records = entries["content"], entries["records"]
    # The size of a deletion vector is that of its blob: many share a Puffin file.
    sizes = pc.coalesce(entries["content_bytes"], entries["bytes"])
    totals["total-files-size"] += pc.sum(sizes).as_py() or 0
    for kind, rows in (
        (DATA, "total-records"),
        (POSITION_DELETES, "total-position-deletes"),
        (EQUALITY_DELETES, "total-equality-deletes"),
    ):
        filter_ = records.filter(pc.equal(content, kind))
        totals[rows] += pc.sum(filter_).as_py() or 0
        totals["total-data-files" if kind == DATA else "total-delete-files"] += len(filter_)
