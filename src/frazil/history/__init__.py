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
    from frazil.history.env_diff import TableDifference, diff_environment
    from frazil.history.env_publish import (
        EnvironmentPublication,
        TableMove,
        plan_environment_publication,
        publish_environment,
    )
    from frazil.history.environments import (
        DroppedBranch,
        EnvironmentDrop,
        EnvironmentInfo,
        branch_table,
        check_environment,
        find_members,
        list_environments,
        no_environment,
        perform_environment_drop,
        plan_environment_drop,
        ref_in,
    )
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
    from frazil.history.rollback import LedgerChange, RollbackPlan, perform_rollback, plan_rollback
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
    "DroppedBranch",
    "Effort",
    "EnvironmentDrop",
    "EnvironmentInfo",
    "EnvironmentPublication",
    "Flip",
    "FoundRow",
    "InputTable",
    "LandingFile",
    "LedgerChange",
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
    "TableDifference",
    "TableMove",
    "Upstream",
    "between",
    "bisect_table",
    "blame_rows",
    "branch_table",
    "check_environment",
    "create_ref",
    "diff_environment",
    "diff_points",
    "diff_rows",
    "find_members",
    "list_environments",
    "list_refs",
    "no_environment",
    "perform_drop",
    "perform_environment_drop",
    "perform_publish",
    "perform_rollback",
    "plan_drop",
    "plan_environment_drop",
    "plan_environment_publication",
    "plan_publish",
    "plan_rollback",
    "publish_environment",
    "read_log",
    "read_runs",
    "ref_in",
]

__getattr__ = lazy_names(__name__)
