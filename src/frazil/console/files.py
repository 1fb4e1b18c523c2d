"""The files of a snapshot by their size: read from its manifests when someone asks, as far as there is time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.catalog import Context, Request, Response
from frazil.console.answers import console_json
from frazil.console.manifests import Walk, reading_slot
from frazil.errors import UpkeepError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from frazil.upkeep import Policy

MB = 1 << 20
EDGES = (64 << 10, MB, 8 * MB, 32 * MB, 128 * MB, 512 * MB)  # the last bucket has no end
COUNTS = ("data_files", "delete_files", "bytes", "rows", "small_files", "small_bytes")


def show_files(ctx: Context, request: Request) -> Response:
    """How many data and delete files of each size there are, and how small they are for the table's target."""
    from frazil.scan.planning import DELETES

    with reading_slot(request):
        walk = Walk.of(ctx, request)
        counts = _empty(policy_of(walk.scan.state.properties, walk.scan.state.name).target_file_bytes)
        for unit, manifest in walk.manifests():
            columns = manifest.columns
            _add(counts, columns["bytes"], columns["records"], deletes=unit.fact("content") == DELETES)
        return console_json({**walk.progress, **counts})


def bucket_of(size_bytes: int) -> int:
    """The number of the bucket of a file.

    >>> bucket_of(0), bucket_of(64 << 10), bucket_of(1 << 40)
    (0, 1, 6)
    """
    return sum(size_bytes >= edge for edge in EDGES)


def _empty(target: int) -> dict[str, Any]:
    buckets = [{"below": edge, "data": 0, "deletes": 0, "bytes": 0} for edge in (*EDGES, None)]
    return {"target_bytes": target, "buckets": buckets, **dict.fromkeys(COUNTS, 0)}


def policy_of(properties: Mapping[str, str], name: str) -> Policy:
    """The rules of a table for upkeep; the usual ones if its properties make no sense."""
    from frazil.upkeep import Policy

    try:
        return Policy.of(properties, table=name)
    except UpkeepError:
        return Policy()


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
