"""A table's past: its snapshots, what differs between two of them, the way back, branches and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.history.diff import TableDiff, diff_points
    from frazil.history.log import LogEntry, between, read_log, read_runs
    from frazil.history.refs import (
        DropPlan,
        PublishPlan,
        RefInfo,
        RefKind,
        Retention,
        create_ref,
        list_refs,
        perform_drop,
        perform_publish,
        plan_drop,
        plan_publish,
    )
    from frazil.history.rollback import RollbackPlan, perform_rollback, plan_rollback
    from frazil.history.rows import RowChange, RowDiff, diff_rows

__all__ = [
    "DropPlan",
    "LogEntry",
    "PublishPlan",
    "RefInfo",
    "RefKind",
    "Retention",
    "RollbackPlan",
    "RowChange",
    "RowDiff",
    "TableDiff",
    "between",
    "create_ref",
    "diff_points",
    "diff_rows",
    "list_refs",
    "perform_drop",
    "perform_publish",
    "perform_rollback",
    "plan_drop",
    "plan_publish",
    "plan_rollback",
    "read_log",
    "read_runs",
]

__getattr__ = lazy_names(__name__)
