"""The Python API: `connect`, `Lake`, its tables, and SQL over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.lake.connecting import open_catalog as open_catalog
    from frazil.lake.declared import find_embedder as find_embedder
    from frazil.lake.lake import Lake, QueryEngine, connect
    from frazil.lake.printing import is_number as is_number
    from frazil.lake.printing import print_rows as print_rows
    from frazil.lake.query import OpenQuery as OpenQuery
    from frazil.lake.query import open_query as open_query
    from frazil.lake.result import Result
    from frazil.lake.table import LakeTable

__all__ = [
    "Lake",
    "LakeTable",
    "QueryEngine",
    "Result",
    "connect",
]

__getattr__ = lazy_names(__name__)
