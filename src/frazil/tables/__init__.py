"""Tables as code: declare -> diff (declared against live gives steps) -> explain or apply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.tables.apply import all_of, apply_steps, find_tables, plan, plan_all
    from frazil.tables.codegen import write_module
    from frazil.tables.compare import Change
    from frazil.tables.declare import Table
    from frazil.tables.drift import find_drift
    from frazil.tables.grants import open_grants
    from frazil.tables.iceberg import column_of
    from frazil.tables.indexes import VectorIndex, vector_index
    from frazil.tables.planfile import dump_plan, load_plan, parse_plan, save_plan
    from frazil.tables.steps import AlterTable, Step, summary
    from frazil.tables.terms import parse_partition
    from frazil.tables.types import Column, column, list_of, map_of, struct
    from frazil.tables.upkeep import Upkeep

__all__ = [
    "AlterTable",
    "Change",
    "Column",
    "Step",
    "Table",
    "Upkeep",
    "VectorIndex",
    "all_of",
    "apply_steps",
    "column",
    "column_of",
    "dump_plan",
    "find_drift",
    "find_tables",
    "list_of",
    "load_plan",
    "map_of",
    "open_grants",
    "parse_partition",
    "parse_plan",
    "plan",
    "plan_all",
    "save_plan",
    "struct",
    "summary",
    "vector_index",
    "write_module",
]

__getattr__ = lazy_names(__name__)
