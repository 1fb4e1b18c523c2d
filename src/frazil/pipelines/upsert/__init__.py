"""Changes by key on Spark: frames of changes merged into a table (frames.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.pipelines.upsert.changes import ChangeSet, change_set
    from frazil.pipelines.upsert.frames import UpsertFrames, upsert_batches, upsert_frame
    from frazil.pipelines.upsert.merge import Merge
    from frazil.pipelines.upsert.task import ChangePlan

__all__ = [
    "ChangePlan",
    "ChangeSet",
    "Merge",
    "UpsertFrames",
    "change_set",
    "upsert_batches",
    "upsert_frame",
]

__getattr__ = lazy_names(__name__)
