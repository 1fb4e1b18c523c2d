"""Frazil: an open lakehouse for Python data teams. Importing it loads none of the heavy libraries."""

import logging as _logging
from typing import TYPE_CHECKING

from frazil.lazy import lazy_names as _lazy_names
from frazil.moved import install as _install_former_names

if TYPE_CHECKING:
    from frazil.lake import Lake, connect
    from frazil.pipelines import pipeline, sources
    from frazil.pipelines.models import model
    from frazil.tables import Column, Table, Upkeep, column, list_of, map_of, struct, transforms, vector_index

__version__ = "0.1.0"

__all__ = [
    "Column",
    "Lake",
    "Table",
    "Upkeep",
    "__version__",
    "column",
    "connect",
    "list_of",
    "map_of",
    "model",
    "pipeline",
    "sources",
    "struct",
    "transforms",
    "vector_index",
]

_install_former_names()
_logging.getLogger("frazil").addHandler(_logging.NullHandler())  # silent, unless the program configures logging
__getattr__ = _lazy_names(__name__)


def __dir__() -> list[str]:
    return __all__
