"""What the metadata of a table says about it in one line: rows, files, sizes, when it was written, and its health. No
manifest is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]

DAY_MS = 86_400_000
DUE, OVERDUE = 1.0, 3.0  # scores of upkeep: a run is worth it; several were left out
# the parts of a table's debt, by the step of upkeep that would pay it
_PARTS = {
    "compact": ("small_files", "delete_files"),
    "deletes": ("delete_files",),
    "manifests": ("commits",),
    "expire": ("expired_snapshots",),
}


def summarise(metadata: Json) -> dict[str, Any]:
    """One line about a table. A number that its snapshot does not tell is null."""
    head = find_head(metadata)
    totals = totals_of(head)
    schema = next((s for s in metadata["schemas"] if s.get("schema-id") == metadata["current-schema-id"]), None)
    kinds = [ref["type"] for ref in metadata["refs"].values()]
    return {
        **totals,
        "average_file_bytes": ratio(totals["bytes"], _sum(totals["data_files"], totals["delete_files"])),
        "delete_ratio": ratio(totals["deleted_rows"], totals["rows"]),
        "committed_ms": head["timestamp-ms"] if head is not None else None,
        "updated_ms": metadata["last-updated-ms"],
        "operation": (head.get("summary") or {}).get("operation") if head is not None else None,
        "snapshots": len(metadata["snapshots"]),
        "branches": kinds.count("branch"),
        "tags": kinds.count("tag"),
        "columns": len(schema["fields"]) if schema is not None else 0,
        "format_version": metadata["format-version"],
    }


def count_commits(metadata: Json, *, now_ms: int, days: int = 14) -> list[int]:
    """How many snapshots were made on each of the last days, the oldest day first.

    >>> count_commits({"snapshots": [{"timestamp-ms": 86_400_000}, {"timestamp-ms": 200_000_000}]}, now_ms=200_000_000, days=3)
    [0, 1, 1]
    """  # noqa: E501
    counts, today = [0] * days, now_ms // DAY_MS
    for snapshot in metadata["snapshots"]:
        back = today - snapshot["timestamp-ms"] // DAY_MS
        if 0 <= back < days:
            counts[days - 1 - back] += 1
    return counts


def find_head(metadata: Json) -> Json | None:
    """The current snapshot of a table; None if it is empty."""
    head_id = metadata.get("current-snapshot-id")
    return next((item for item in reversed(metadata["snapshots"]) if item["snapshot-id"] == head_id), None)


def totals_of(snapshot: Json | None) -> dict[str, int | None]:
    """What a table held as of a snapshot, by the snapshot's own account; `deleted_rows` are those of position deletes.

    >>> totals_of({"summary": {"total-records": "9", "total-files-size": "many"}})["rows"]
    9
    >>> totals_of(None)["rows"], totals_of({"summary": {"total-files-size": "many"}})["bytes"]
    (0, None)
    """
    summary = (snapshot.get("summary") or {}) if snapshot is not None else {}
    keys = {
        "rows": "total-records",
        "data_files": "total-data-files",
        "delete_files": "total-delete-files",
        "bytes": "total-files-size",
        "deleted_rows": "total-position-deletes",
        "equality_deletes": "total-equality-deletes",
    }
    return {name: 0 if snapshot is None else number(summary.get(key)) for name, key in keys.items()}


def number(text: Any) -> int | None:
    """A number of a snapshot's summary: writers may have put anything there."""
    is_number = isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 18
    return int(text) if is_number else None


def ratio(part: int | None, whole: int | None) -> float | None:
    """
    >>> ratio(1, 4), ratio(1, 0), ratio(None, 4)
    (0.25, None, None)
    """
    return None if part is None or not whole else part / whole


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None else first + (second or 0)


def judge(debt: Json, *, empty: bool) -> dict[str, Any]:
    """The health of a table by what upkeep has to say: `fine`, `due`, `overdue`, `off`, `empty` or `error`, with reasons.

    >>> judge({"score": 1.2, "steps": {"compact": 1.2, "expire": 0.2}, "small_files": 6, "expired_snapshots": 4}, empty=False)
    {'level': 'due', 'score': 1.2, 'reasons': ['6 small files per partition']}
    """  # noqa: E501
    if debt.get("error"):
        return {"level": "error", "score": None, "reasons": [debt["error"]]}
    if empty:
        return {"level": "empty", "score": None, "reasons": ["no snapshot yet"]}
    if not debt.get("enabled", True):
        return {"level": "off", "score": None, "reasons": ["upkeep is off for this table"]}
    score, steps = debt["score"], debt.get("steps") or {}
    level = "fine" if score < DUE else "due" if score < OVERDUE else "overdue"
    return {"level": level, "score": score, "reasons": _reasons(debt, steps)}


def _reasons(debt: Json, steps: Mapping[str, float]) -> list[str]:
    """In words, the parts of a debt for which a step is due, the largest first."""
    from frazil.upkeep import Debt

    due = sorted((step for step, score in steps.items() if score >= DUE), key=lambda step: -steps[step])
    parts = dict.fromkeys(part for step in due for part in _PARTS.get(step, ()) if debt.get(part))
    return [reason for part in parts for reason in Debt(**{part: debt[part]}).reasons]
