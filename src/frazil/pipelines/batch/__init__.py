"""Batch runs: which files are new, staged and committed with the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.pipelines.batch.arrivals import Arrivals, expect_copies, local_digest
    from frazil.pipelines.batch.run import RunPlan, load_target, plan_run, refuse_changes, run_pipeline
    from frazil.pipelines.batch.staging import arrow_schema

__all__ = [
    "Arrivals",
    "RunPlan",
    "arrow_schema",
    "expect_copies",
    "load_target",
    "local_digest",
    "plan_run",
    "refuse_changes",
    "run_pipeline",
]

__getattr__ = lazy_names(__name__)
