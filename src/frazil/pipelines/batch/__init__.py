"""Batch runs: which files are new, staged and committed with the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.pipelines.batch.arrivals import Arrivals
    from frazil.pipelines.batch.run import expect_copies, find_arrivals, load_target, refuse_changes, run_pipeline
    from frazil.pipelines.batch.staging import arrow_schema

__all__ = [
    "Arrivals",
    "arrow_schema",
    "expect_copies",
    "find_arrivals",
    "load_target",
    "refuse_changes",
    "run_pipeline",
]

__getattr__ = lazy_names(__name__)
