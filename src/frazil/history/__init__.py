"""A table's past: its snapshots, what differs between two of them, the way back, branches and tags, and where rows came
from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.history.bisect import AddedBy, Bisection, BisectRequest, BisectStep, Culprit, Flip, bisect_table
    from frazil.history.blame import Blame, BlameRequest, RowBlame, RowSource, Upstream, blame_rows
    from frazil.history.diff import TableDiff, diff_points
    from frazil.history.log import LogEntry, between, read_log, read_runs
    from frazil.history.origins import InputTable, LandingFile, OffsetRange, OriginReader, Origins, Run
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
    from frazil.history.row_checks import Effort, FoundRow
    from frazil.history.rows import RowChange, RowDiff, diff_rows

__all__ = [
    "AddedBy",
    "BisectRequest",
    "BisectStep",
    "Bisection",
    "Blame",
    "BlameRequest",
    "Culprit",
    "DropPlan",
    "Effort",
    "Flip",
    "FoundRow",
    "InputTable",
    "LandingFile",
    "LogEntry",
    "OffsetRange",
    "OriginReader",
    "Origins",
    "PublishPlan",
    "RefInfo",
    "RefKind",
    "Retention",
    "RollbackPlan",
    "RowBlame",
    "RowChange",
    "RowDiff",
    "RowSource",
    "Run",
    "TableDiff",
    "Upstream",
    "between",
    "bisect_table",
    "blame_rows",
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
