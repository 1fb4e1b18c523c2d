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
        foreach_batch,
        open,
        write_frame,
    )
    from frazil.sinks.spark.format import register
    from frazil.sinks.spark.job import CHECKPOINT, batch_position, map_rows, row_schema, task_limits, tasks_at_once

__all__ = [
    "CHECKPOINT",
    "KAFKA",
    "Counts",
    "Delta",
    "FrameOptions",
    "FrameResult",
    "FrameSink",
    "OffsetColumns",
    "Refusal",
    "Staged",
    "Takeover",
    "Through",
    "batch_position",
    "foreach_batch",
    "map_rows",
    "open",
    "register",
    "row_schema",
    "task_limits",
    "tasks_at_once",
    "write_frame",
]

__getattr__ = lazy_names(__name__)
