"""Upkeep: maintains tables while writers are running. Compaction, delete files, manifests, expiry of snapshots,
orphans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.upkeep.budget import Budget, PacedEngine
    from frazil.upkeep.compact import CompactionPlan, Engine, Finished, LocalEngine, plan_compaction
    from frazil.upkeep.debt import MOST_FACTOR, Debt, Look, debt_of
    from frazil.upkeep.groups import Group
    from frazil.upkeep.halt import Halt, Stopped
    from frazil.upkeep.orphans import Locations
    from frazil.upkeep.others import every_table
    from frazil.upkeep.own_files import OwnFileIO, own_file_io
    from frazil.upkeep.policy import STEPS, Policy
    from frazil.upkeep.rewriting import Rewriter
    from frazil.upkeep.spark import SparkEngine
    from frazil.upkeep.steps import MUCH_BYTES, Keeper, StepPlan, StepReport, now_ms

__all__ = [
    "MOST_FACTOR",
    "MUCH_BYTES",
    "STEPS",
    "Budget",
    "CompactionPlan",
    "Debt",
    "Engine",
    "Finished",
    "Group",
    "Halt",
    "Keeper",
    "LocalEngine",
    "Locations",
    "Look",
    "OwnFileIO",
    "PacedEngine",
    "Policy",
    "Rewriter",
    "SparkEngine",
    "StepPlan",
    "StepReport",
    "Stopped",
    "debt_of",
    "every_table",
    "now_ms",
    "own_file_io",
    "plan_compaction",
]

__getattr__ = lazy_names(__name__)
