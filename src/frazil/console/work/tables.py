"""Jobs on one table: its past (roll back, branches, tags) and its quarantine (look, replay).

Each change is asked for with the snapshots that its caller has seen. If one of them is no longer the newest, nothing is
changed, and the answer is a conflict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from frazil.errors import CommitConflict, HistoryError
from frazil.protocol import QUARANTINE_SUFFIX

if TYPE_CHECKING:
    from frazil.history import DropPlan, LedgerChange, LogEntry, RollbackPlan
    from frazil.lake import Lake
    from frazil.quarantine import HeldRow, IcebergQuarantine

Arguments = Mapping[str, Any]
MOST_ENTRIES = 10  # snapshots that a plan names
MOST_ROWS = 200_000  # of a quarantine that are looked at
MOST_REASONS, SAMPLES = 50, 5
PAGE_ROWS = 25  # of a reason, that come when one asks for more
MOST_CHARACTERS = 2_000  # of a sample

# --- rollback --------------------------------------------------------------------------------------------------------


def preview_rollback(lake: Lake, arguments: Arguments) -> dict[str, Any]:
    """What it would do to bring a branch back to a snapshot."""
    return _describe_rollback(_plan_rollback(lake, arguments))


def roll_back(lake: Lake, arguments: Arguments) -> dict[str, Any]:
    """The branch is back, as a new snapshot."""
    from frazil.history import perform_rollback

    plan, with_progress = _plan_rollback(lake, arguments), arguments["with_progress"]
    if with_progress is None and plan.has_progress:
        raise HistoryError(
            f"{plan.table}: sinks or pipelines have written since: say what becomes of their progress",
            table=plan.table,
            problem="progress-undecided",
        )
    snapshot_id = perform_rollback(lake.catalog, plan, with_progress=bool(with_progress))
    return {"snapshot_id": str(snapshot_id), "before": str(plan.head_id)}


def _plan_rollback(lake: Lake, arguments: Arguments) -> RollbackPlan:
    plan = lake.table(arguments["table"]).plan_rollback(arguments["snapshot"], ref=arguments["ref"])
    _require(plan.table, plan.ref, arguments["head"], plan.head_id)
    return plan


def _require(table: str, ref: str, seen: int, now: int | None) -> None:
    """Passes when a ref is where the caller has seen it."""
    if seen != now:
        raise CommitConflict(
            f"'{ref}' of {table} is not at snapshot {seen} any more, but at {now}: nothing was changed",
            hint="load the page again, and look at what has changed",
            table=table,
            ref=ref,
        )


def _describe_rollback(plan: RollbackPlan) -> dict[str, Any]:
    removed, added = (plan.diff.sum(sign) for sign in "-+")
    progress = {
        "parts": [{"part": part.part, "now": dict(part.now), "then": dict(part.then)} for part in plan.parts],
        "ledger": _describe_companion(plan.ledger),
        "quarantine": _describe_companion(plan.quarantine),
        "known": plan.progress_known,
        "repeats": plan.repeats,
        "resumes": plan.resumes,
    }
    return {
        "ref": plan.ref,
        "head": str(plan.head_id),
        "target": str(plan.target.snapshot.snapshot_id),
        "target_ms": plan.target.snapshot.timestamp_ms,
        "undone": _describe_entries(plan.undone),
        "restored": _describe_entries(plan.restored),
        "removed": {"files": removed.files, "rows": removed.rows},
        "added": {"files": added.files, "rows": added.rows},
        "schema": list(plan.schema_since),
        "progress": progress if plan.has_progress else None,
    }


def _describe_entries(entries: tuple[LogEntry, ...]) -> dict[str, Any]:
    names = ("time_ms", "operation", "added_rows", "removed_rows", "by")
    shown = [
        {"id": str(entry.snapshot_id), **{name: getattr(entry, name) for name in names}}
        for entry in entries[:MOST_ENTRIES]
    ]
    return {"count": len(entries), "entries": shown}


def _describe_companion(change: LedgerChange | None) -> dict[str, Any] | None:
    if change is None:
        return None
    return {"table": change.table, "forgets": change.forgets, "remembers": change.remembers}


# --- branches and tags -----------------------------------------------------------------------------------------------


def create_ref(lake: Lake, arguments: Arguments) -> dict[str, Any]:
    """A new branch or tag at a snapshot; one that exists is left alone."""
    table, kind = lake.table(arguments["table"]), arguments["kind"]
    create = table.create_branch if kind == "branch" else table.create_tag
    point = create(arguments["name"], at=arguments["snapshot"])
    return {"kind": kind, "name": arguments["name"], "snapshot_id": str(point.snapshot.snapshot_id)}


def preview_drop(lake: Lake, arguments: Arguments) -> dict[str, Any]:
    """What would be lost with a branch or tag."""
    from frazil.history import plan_drop

    return _describe_drop(plan_drop(lake.load(arguments["table"]), arguments["name"], arguments["kind"]), arguments)


def drop_ref(lake: Lake, arguments: Arguments) -> dict[str, Any]:
    """The branch or tag is gone; its snapshots are kept until they expire."""
    from frazil.history import perform_drop, plan_drop

    table = lake.load(arguments["table"])
    plan = plan_drop(table, arguments["name"], arguments["kind"])
    described = _describe_drop(plan, arguments)
    perform_drop(lake.catalog, table, plan)
    return described


def _describe_drop(plan: DropPlan, arguments: Arguments) -> dict[str, Any]:
    _require(plan.table, plan.ref.name, arguments["snapshot"], plan.ref.snapshot_id)
    return {
        "name": plan.ref.name,
        "kind": plan.ref.kind,
        "snapshot_id": str(plan.ref.snapshot_id),
        "unreachable": len(plan.unreachable),
        "parts": list(plan.parts),
    }


# --- quarantine ------------------------------------------------------------------------------------------------------


def show_quarantine(lake: Lake, arguments: Arguments) -> dict[str, Any]:
    """The quarantined rows by reason, the most frequent first, each with the first rows of it."""
    quarantine = _open_quarantine(lake, arguments)
    snapshot_id = quarantine.snapshot_id()
    reasons = Counter[str]()
    samples: dict[str, list[HeldRow]] = {}
    read = 0
    for row in quarantine.iter_rows() if snapshot_id is not None else ():
        reasons[row.kind] += 1
        if len(known := samples.setdefault(row.kind, [])) < SAMPLES:
            known.append(row)
        read += 1
        if read == MOST_ROWS:
            break
    shown = reasons.most_common(MOST_REASONS)
    return {
        "snapshot_id": None if snapshot_id is None else str(snapshot_id),
        "rows": read,
        "complete": read < MOST_ROWS,
        "reasons": [
            {"reason": _cut(reason), "rows": count, "samples": [_describe_row(row) for row in samples[reason]]}
            for reason, count in shown
        ],
        "more_reasons": len(reasons) - len(shown),
    }


def list_quarantined(lake: Lake, arguments: Arguments) -> dict[str, Any]:
    """The next rows of a reason, and whether there are others."""
    quarantine = _open_quarantine(lake, arguments)
    _require(f"{arguments['table']}{QUARANTINE_SUFFIX}", "main", arguments["head"], quarantine.snapshot_id())
    rows = (row for row in islice(quarantine.iter_rows(), MOST_ROWS) if _cut(row.kind) == arguments["reason"])
    page = list(islice(rows, arguments["skip"], arguments["skip"] + PAGE_ROWS + 1))
    return {"rows": [_describe_row(row) for row in page[:PAGE_ROWS]], "more": len(page) > PAGE_ROWS}


def preview_replay(lake: Lake, arguments: Arguments) -> dict[str, Any]:
    """How many rows would come in now, and why the others would not."""
    return _replay(lake, arguments, dry_run=True)


def replay(lake: Lake, arguments: Arguments) -> dict[str, Any]:
    """Rows that pass are in the table and out of the quarantine, in one commit."""
    return _replay(lake, arguments, dry_run=False)


def _replay(lake: Lake, arguments: Arguments, *, dry_run: bool) -> dict[str, Any]:
    from frazil.quarantine import Choice, Rules

    result = _open_quarantine(lake, arguments).replay(
        Rules(extra_fields=arguments["extra_fields"]),
        choice=Choice(arguments["reason"]),
        dry_run=dry_run,
        expected=arguments["head"],
    )
    return {
        "replayed": result.replayed,
        "failed": [{"reason": _cut(reason), "rows": count} for reason, count in result.failed.items()],
        "snapshot_id": None if result.snapshot_id is None else str(result.snapshot_id),
    }


def _open_quarantine(lake: Lake, arguments: Arguments) -> IcebergQuarantine:
    from frazil.quarantine import IcebergQuarantine

    name: str = arguments["table"]
    return IcebergQuarantine(lake.catalog, tuple(name.removesuffix(QUARANTINE_SUFFIX).split(".")))


def _describe_row(row: HeldRow) -> dict[str, Any]:
    texts = {"reason": row.reason, "raw": row.raw, "position": row.position, "part": row.part}
    cut = {name: _cut(text) for name, text in texts.items()}
    return {"id": row.id, "at_ms": int(row.quarantined_at.timestamp() * 1000), **cut}


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}… ({len(text)} characters)"
