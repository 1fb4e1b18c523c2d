"""Models: tables that queries over other tables make; and what runs them, and pipelines over tables, on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.pipelines.models.backfill import Days
    from frazil.pipelines.models.columns import output_names
    from frazil.pipelines.models.decide import Action, Decision
    from frazil.pipelines.models.declare import Model, ModelMode, model
    from frazil.pipelines.models.derivation import Derivation, derivation_of
    from frazil.pipelines.models.files import load_models
    from frazil.pipelines.models.outlook import Outlook, foresee, in_order
    from frazil.pipelines.models.rename import rename_tables
    from frazil.pipelines.models.run import GraphRun
    from frazil.pipelines.models.schedule import Outcome, Schedule
    from frazil.pipelines.models.schema import ModelSchemas, infer_columns, input_schemas
    from frazil.pipelines.models.sql import find_tables, normalise_sql, parse_query
    from frazil.pipelines.models.units import split_units

__all__ = [
    "Action",
    "Days",
    "Decision",
    "Derivation",
    "GraphRun",
    "Model",
    "ModelMode",
    "ModelSchemas",
    "Outcome",
    "Outlook",
    "Schedule",
    "derivation_of",
    "find_tables",
    "foresee",
    "in_order",
    "infer_columns",
    "input_schemas",
    "load_models",
    "model",
    "normalise_sql",
    "output_names",
    "parse_query",
    "rename_tables",
    "split_units",
]

__getattr__ = lazy_names(__name__)
