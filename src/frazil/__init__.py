"""Frazil: an open lakehouse for Python data teams. Importing it loads none of the heavy libraries."""

from frazil.lake import Lake
from frazil.pipelines import sources
from frazil.pipelines.declare import pipeline
from frazil.tables import transforms
from frazil.tables.declare import Table
from frazil.tables.types import Column, column, list_of, map_of, struct
from frazil.tables.upkeep import Upkeep

__version__ = "0.1.0"

__all__ = ["Column", "Lake", "Table", "Upkeep", "__version__", "column", "list_of", "map_of", "pipeline", "sources", "struct", "transforms"]
