"""Lists that print themselves: snapshots, maintenance steps. For people at a prompt or in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.markup import html_table
from frazil.terminal import visible

if TYPE_CHECKING:
    from frazil.history import LogEntry
    from frazil.upkeep import StepPlan, StepReport


class History(list["LogEntry"]):
    """The snapshots of a table, newest first."""

    def __repr__(self) -> str:
        """One snapshot per line: time, id, operation, rows, and the branches and tags that are there."""
        return "\n".join(visible(_snapshot(entry)) for entry in self) or "no snapshots"

    def _repr_html_(self) -> str:
        from frazil.scan.planning import show_time

        columns = ("time", "snapshot", "operation", "rows added", "rows removed", "by", "refs")
        rows = [
            (
                show_time(entry.time_ms),
                entry.snapshot_id,
                entry.operation,
                f"{entry.added_rows:,}",
                f"{entry.removed_rows:,}",
                entry.by,
                ", ".join(entry.refs),
            )
            for entry in self
        ]
        return html_table(columns, rows, right=("rows added", "rows removed"))


class Maintenance(list["StepPlan | StepReport"]):
    """What the steps of maintenance would do, or have done."""

    def __repr__(self) -> str:
        """One line for each thing that a step does."""
        lines = [f"{step.table}  {step.step}: {line}" for step in self for line in step.lines]
        return "\n".join(lines) or "nothing to do"


def _snapshot(entry: LogEntry) -> str:
    from frazil.scan.planning import show_time

    rows = f"+{entry.added_rows:,} -{entry.removed_rows:,} rows"
    refs = f"({', '.join(entry.refs)})" if entry.refs else ""
    parts = [show_time(entry.time_ms), str(entry.snapshot_id), entry.operation, rows, entry.by, refs]
    return "  ".join(part for part in parts if part)
