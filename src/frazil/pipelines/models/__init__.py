"""Models: tables that queries over other tables make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.pipelines.models.columns import output_names
    from frazil.pipelines.models.declare import Model, ModelMode, model
    from frazil.pipelines.models.files import load_models
    from frazil.pipelines.models.rename import rename_tables
    from frazil.pipelines.models.sql import find_tables, normalise_sql, parse_query

__all__ = [
    "Model",
    "ModelMode",
    "find_tables",
    "load_models",
    "model",
    "normalise_sql",
    "output_names",
    "parse_query",
    "rename_tables",
]

__getattr__ = lazy_names(__name__)
