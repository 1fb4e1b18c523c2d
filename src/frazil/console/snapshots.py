"""The snapshots of a table, column by column: ten thousand of them are one answer of some hundred kB."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any

import orjson

from frazil.catalog import Context, Request, Response, load_version
from frazil.console.answers import console_json, refuse_other_sites
from frazil.console.lanes import draw_lines
from frazil.console.summary import number, totals_of
from frazil.protocol import SUMMARY_COMMIT, SUMMARY_ROLLBACK, SUMMARY_UPKEEP

MOST_KEPT, MOST_BYTES = 16, 4 << 20  # answers; a larger one is not kept
MOST_CHARACTERS = 80  # of a name that a client has chosen
# how those who make snapshots sign them, and what to call them
SIGNED = {SUMMARY_UPKEEP: "upkeep", SUMMARY_ROLLBACK: "rollback", "trino_query_id": "Trino", "spark.app.id": "Spark"}

_lock = Lock()
_kept: OrderedDict[tuple[str, str], bytes] = OrderedDict()  # by location and UUID


def list_snapshots(ctx: Context, request: Request) -> Response:
    """All snapshots, the newest first, with the lines of the graph and the refs. It follows from the metadata file."""
    refuse_other_sites(request)
    version = load_version(ctx, request)
    key = (version.location, version.metadata["table-uuid"])
    with _lock:
        body = _kept.get(key)
    if body is None:
        body = orjson.dumps(to_columns(version.metadata))
        if len(body) <= MOST_BYTES:
            with _lock:
                _kept[key] = body
                while len(_kept) > MOST_KEPT:
                    _kept.popitem(last=False)
    return console_json(body)


def to_columns(metadata: dict[str, Any]) -> dict[str, Any]:
    """Lists of equal length, one per property; ids are text, for a browser's numbers end at 53 bits."""
    snapshots = sorted(metadata["snapshots"], key=_age)[::-1]
    lines, line_of = draw_lines(snapshots, metadata["refs"])
    row_of = {snapshot["snapshot-id"]: row for row, snapshot in enumerate(snapshots)}
    summaries = [snapshot.get("summary") or {} for snapshot in snapshots]
    totals = [totals_of(snapshot) for snapshot in snapshots]

    def numbers(key: str) -> list[int | None]:
        return [number(summary.get(key)) for summary in summaries]

    return {
        "id": [str(snapshot["snapshot-id"]) for snapshot in snapshots],
        "parent": [row_of.get(snapshot.get("parent-snapshot-id"), -1) for snapshot in snapshots],
        "time_ms": [snapshot["timestamp-ms"] for snapshot in snapshots],
        "schema_id": [snapshot.get("schema-id") for snapshot in snapshots],
        "operation": [summary.get("operation", "")[:MOST_CHARACTERS] for summary in summaries],
        "by": [_signed_by(summary) for summary in summaries],
        "added_rows": numbers("added-records"),
        "removed_rows": numbers("deleted-records"),
        "added_files": numbers("added-data-files"),
        "removed_files": numbers("deleted-data-files"),
        "rows": [total["rows"] for total in totals],
        "data_files": [total["data_files"] for total in totals],
        "delete_files": [total["delete_files"] for total in totals],
        "bytes": [total["bytes"] for total in totals],
        "line": line_of,
        "lines": [[line.first, line.last, -1 if line.joins is None else line.joins, line.lane] for line in lines],
        "refs": [
            {"name": name, "type": ref["type"], "row": row_of[ref["snapshot-id"]]}
            for name, ref in sorted(metadata["refs"].items(), key=lambda item: (item[0] != "main", item[0]))
            if ref["snapshot-id"] in row_of
        ],
    }


def _age(snapshot: dict[str, Any]) -> tuple[int, int]:
    return snapshot["timestamp-ms"], snapshot.get("sequence-number") or 0


def _signed_by(summary: dict[str, str]) -> str:
    """Who made a snapshot, as far as it says.

    >>> _signed_by({"spark.app.id": "local-1"}), _signed_by({"engine-name": "Flink"}), _signed_by({})
    ('Spark', 'Flink', '')
    """
    name = next((name for key, name in SIGNED.items() if key in summary), None)
    return name or ("Frazil" if SUMMARY_COMMIT in summary else summary.get("engine-name", "")[:MOST_CHARACTERS])
