"""Vector search: the index with its segments, exact search, and both over the rows of a scan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.vector.builder import Builder
    from frazil.vector.disk import DiskCache, index_cache_folder
    from frazil.vector.engines import Engine, LocalEngine, SparkEngine
    from frazil.vector.indexes import Coverage, Declared, IndexCheck, Indexes, index_files
    from frazil.vector.join import nearest_join
    from frazil.vector.metric import METRICS, Metric
    from frazil.vector.nearest import Nearest, Search, open_nearest
    from frazil.vector.opened import OpenIndexes
    from frazil.vector.pinned import pinned_records
    from frazil.vector.portable import with_copies
    from frazil.vector.record import IndexRecord, SegmentInfo
    from frazil.vector.report import NearestReport
    from frazil.vector.texts import embed_texts, no_embedder, texts_of

__all__ = [
    "METRICS",
    "Builder",
    "Coverage",
    "Declared",
    "DiskCache",
    "Engine",
    "IndexCheck",
    "IndexRecord",
    "Indexes",
    "LocalEngine",
    "Metric",
    "Nearest",
    "NearestReport",
    "OpenIndexes",
    "Search",
    "SegmentInfo",
    "SparkEngine",
    "embed_texts",
    "index_cache_folder",
    "index_files",
    "nearest_join",
    "no_embedder",
    "open_nearest",
    "pinned_records",
    "texts_of",
    "with_copies",
]

__getattr__ = lazy_names(__name__)
