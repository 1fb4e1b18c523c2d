"""Vector search: the index with its segments, exact search, and both over the rows of a scan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.vector.metric import METRICS, Metric
    from frazil.vector.nearest import Nearest, NearestReport, Search

__all__ = ["METRICS", "Metric", "Nearest", "NearestReport", "Search"]

__getattr__ = lazy_names(__name__)
