"""Upkeep: maintains tables while writers are running. Compaction, delete files, manifests, expiry of snapshots,
orphans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.upkeep.compact import Engine, Finished, LocalEngine
    from frazil.upkeep.groups import Group
    from frazil.upkeep.orphans import Locations
    from frazil.upkeep.others import every_table
    from frazil.upkeep.rewriting import Rewriter
    from frazil.upkeep.spark import SparkEngine
    from frazil.upkeep.steps import STEPS, Keeper, StepPlan, StepReport

__all__ = [
    "STEPS",
    "Engine",
    "Finished",
    "Group",
    "Keeper",
    "LocalEngine",
    "Locations",
    "Rewriter",
    "SparkEngine",
    "StepPlan",
    "StepReport",
    "every_table",
]

__getattr__ = lazy_names(__name__)
