"""The Python API: `Lake`, its tables, and SQL over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.lake.lake import Lake, QueryEngine
    from frazil.lake.table import LakeTable

__all__ = [
    "Lake",
    "LakeTable",
    "QueryEngine",
]

__getattr__ = lazy_names(__name__)
