"""The sink in Spark: `write_frame`, `foreach_batch`, and frames as commits (driver.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.sinks.spark.driver import (
        KAFKA,
        Counts,
        Delta,
        FrameOptions,
        FrameResult,
        FrameSink,
        OffsetColumns,
        Refusal,
        Staged,
        Takeover,
        Through,
        each_batch,
        foreach_batch,
        open,
        write_frame,
    )
    from frazil.sinks.spark.format import register
    from frazil.sinks.spark.job import (
        CHECKPOINT,
        add_up,
        as_staged,
        check_report,
        map_rows,
        query_position,
        read_reports,
        row_schema,
        run_job,
        task_limits,
        tasks_at_once,
    )
    from frazil.sinks.spark.task import Place, Placed, Range, RowSource, TaskPlan, TaskReport, TaskWork

__all__ = [
    "CHECKPOINT",
    "KAFKA",
    "Counts",
    "Delta",
    "FrameOptions",
    "FrameResult",
    "FrameSink",
    "OffsetColumns",
    "Place",
    "Placed",
    "Range",
    "Refusal",
    "RowSource",
    "Staged",
    "Takeover",
    "TaskPlan",
    "TaskReport",
    "TaskWork",
    "Through",
    "add_up",
    "as_staged",
    "check_report",
    "each_batch",
    "foreach_batch",
    "map_rows",
    "open",
    "query_position",
    "read_reports",
    "register",
    "row_schema",
    "run_job",
    "task_limits",
    "tasks_at_once",
    "write_frame",
]

__getattr__ = lazy_names(__name__)
