"""The files of a snapshot by their size: read from its manifests when someone asks, as far as there is time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from frazil.catalog import Context, Request, Response, as_bad_request
from frazil.console.answers import console_json, refuse_other_sites
from frazil.console.rows import AT_ONCE, check_installed, whole_number
from frazil.errors import TooBusy, UpkeepError

if TYPE_CHECKING:
    import pyarrow as pa

MB = 1 << 20
EDGES = (64 << 10, MB, 8 * MB, 32 * MB, 128 * MB, 512 * MB)  # the last bucket has no end
COUNTS = ("manifests", "manifests_read", "data_files", "delete_files", "bytes", "rows", "small_files", "small_bytes")
MOST_SECONDS = 3.0
MOST_MANIFESTS = 2_000


def show_files(ctx: Context, request: Request) -> Response:
    """How many data and delete files of each size there are, and how small they are for the table's target."""
    refuse_other_sites(request)
    check_installed()
    from frazil.catalog import open_served
    from frazil.scan.planning import DATA, DELETES

    if not AT_ONCE.acquire(blocking=False):
        raise TooBusy("Too many previews are running", hint="try again")
    deadline = time.monotonic() + MOST_SECONDS
    try:
        snapshot_id = whole_number(request, "snapshot")
        scan = as_bad_request(lambda: open_served(ctx, request, snapshot_id=snapshot_id, limit=1))
        target = _target_bytes(scan.state.properties, scan.state.name)
        if scan.request.snapshot_id is None:
            return console_json({"snapshot_id": None, **_empty(target)})
        planner, counts = scan.planner(), _empty(target)
        units = as_bad_request(lambda: [(kind, unit) for kind in (DATA, DELETES) for unit in planner.units(kind)])
        counts["manifests"] = len(units)
        for kind, unit in units[:MOST_MANIFESTS]:
            request.check_client()
            if time.monotonic() > deadline:
                break
            path = unit.fact("path")
            manifest = as_bad_request(lambda path=path: scan.source.cache.manifest(path))
            _add(counts, manifest.columns["bytes"], manifest.columns["records"], deletes=kind == DELETES)
            counts["manifests_read"] += 1
    finally:
        AT_ONCE.release()
    return console_json({"snapshot_id": str(scan.request.snapshot_id), **counts})


def _empty(target: int) -> dict[str, Any]:
    buckets = [{"below": edge, "data": 0, "deletes": 0, "bytes": 0} for edge in (*EDGES, None)]
    return {"target_bytes": target, "buckets": buckets, **dict.fromkeys(COUNTS, 0)}


def _target_bytes(properties: Any, name: str) -> int:
    from frazil.upkeep import Policy

    try:
        return Policy.of(properties, table=name).target_file_bytes
    except UpkeepError:
        return Policy().target_file_bytes


def _add(counts: dict[str, Any], sizes: pa.Array, rows: pa.Array, *, deletes: bool) -> None:
    """Counts the files of a manifest."""
    import pyarrow.compute as pc

    lower, small = 0, pc.less(sizes, int(counts["target_bytes"] * 0.75))
    for bucket in counts["buckets"]:
        inside = pc.greater_equal(sizes, lower)
        if bucket["below"] is not None:
            inside, lower = pc.and_(inside, pc.less(sizes, bucket["below"])), bucket["below"]
        bucket["deletes" if deletes else "data"] += _sum(inside)
        bucket["bytes"] += _sum(sizes.filter(inside))
    counts["delete_files" if deletes else "data_files"] += len(sizes)
    counts["bytes"] += _sum(sizes)
    if not deletes:
        counts["rows"] += _sum(rows)
        counts["small_files"] += _sum(small)
        counts["small_bytes"] += _sum(sizes.filter(small))


def _sum(values: pa.Array) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(values).as_py() or 0)
