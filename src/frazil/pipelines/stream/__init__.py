"""Streams from Kafka: where to begin, a commit for each batch, progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.pipelines.stream.progress import StreamProgress, serving_metrics
    from frazil.pipelines.stream.run import StreamOptions, run_stream, waiting
    from frazil.pipelines.stream.watch import watch_files

__all__ = [
    "StreamOptions",
    "StreamProgress",
    "run_stream",
    "serving_metrics",
    "waiting",
    "watch_files",
]

__getattr__ = lazy_names(__name__)
