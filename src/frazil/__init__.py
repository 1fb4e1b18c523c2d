"""Frazil: an open lakehouse for Python data teams. Importing it loads none of the heavy libraries."""

from frazil.pipelines import sources
from frazil.pipelines.declare import pipeline
from frazil.tables.declare import Table, column

__version__ = "0.1.0"

__all__ = ["Table", "__version__", "column", "pipeline", "sources"]
