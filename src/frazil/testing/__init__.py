"""Tests of models and pipelines: given rows for the inputs, expected rows out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.testing.cases import Case, read_cases
    from frazil.testing.compare import Difference, compare_rows
    from frazil.testing.models import Computed, ModelRunner
    from frazil.testing.run import Outcome, run_case
    from frazil.testing.session import shared_session, spark_for_tests

__all__ = [
    "Case",
    "Computed",
    "Difference",
    "ModelRunner",
    "Outcome",
    "compare_rows",
    "read_cases",
    "run_case",
    "shared_session",
    "spark_for_tests",
]

__getattr__ = lazy_names(__name__)
