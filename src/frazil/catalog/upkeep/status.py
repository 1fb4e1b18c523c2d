"""`frazil upkeep status`: the debt of every table, who works on it, what the last run did, and when the next may be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from frazil.catalog.store import upkeep as store
from frazil.catalog.store.database import Database
from frazil.catalog.store.upkeep import Kept

_RUN = ("outcome", "owner", "at_ms", "seconds", "message", "conflicts")
_ASKED = ("by", "steps", "at_ms")
_SAVED = ("saved_files", "removed_files", "removed_bytes", "expired_snapshots", "did", "problems")


def list_upkeep(database: Database) -> list[dict[str, Any]]:
    """Every table of the database, the largest debt first, as plain values."""
    return [describe_table(table) for table in store.list_all(database.read())]


def describe_table(table: Kept) -> dict[str, Any]:
    """One table. What is not known is null: `score` of a table that no worker has scored yet. `outdated` says that the
    table was committed to since it was scored.
    """
    debt = json.loads(table.debt) if table.debt else {}
    run = json.loads(table.run) if table.run else None
    holder = table.holder
    waits_ms = max(table.next_ms - table.now_ms, 0)
    return {
        "table": table.label,
        "warehouse": table.warehouse,
        "state": _state(table, debt),
        "score": debt.get("score") if table.debt else None,
        "outdated": table.debt is not None and table.scored_location != table.metadata_location,
        "reasons": debt.get("reasons", []),
        "error": debt.get("error"),
        "data_files": debt.get("data_files"),
        "bytes": debt.get("bytes"),
        "lease": {"owner": holder, "seconds_left": (table.expires_ms - table.now_ms) / 1000} if holder else None,
        "request": _pick(json.loads(table.request), _ASKED) if table.request else None,
        "last_run": _describe_run(run) if run else None,
        "next_seconds": waits_ms / 1000,
    }


def _describe_run(run: dict[str, Any]) -> dict[str, Any]:
    asked = run.get("asked")
    return {**_pick(run, (*_RUN, *_SAVED)), "asked": _pick(asked, _ASKED) if asked else None}


def _pick(document: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: document.get(key) for key in keys}


def _state(table: Kept, debt: dict[str, Any]) -> str:
    """`working`, `queued` (someone asked for it), `error`, `off` (by the property upkeep.enabled or the settings),
    `unknown`, `due`, `waiting` (due, but it was worked on a moment ago) or `fine`.
    """
    if table.holder:
        return "working"
    if table.request:
        return "queued"
    if debt.get("error"):
        return "error"
    if not debt:
        return "unknown"
    if not debt.get("enabled", True):
        return "off"
    if table.score < store.DUE:
        return "fine"
    return "due" if table.next_ms <= table.now_ms else "waiting"
