"""Refreshes the vector indexes of a table: what compaction and writers have left uncovered, and what is damaged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.vector import Coverage, Indexes

if TYPE_CHECKING:
    from frazil.client import FrazilCatalog

STEP = "indexes"


@dataclass(frozen=True)
class IndexPlan:
    """The indexes that a refresh would change."""

    indexes: tuple[Coverage, ...]


def plan_indexes(catalog: FrazilCatalog, table: str) -> IndexPlan:
    """What the indexes of a table do not cover, from their segments and the newest snapshot."""
    indexes = Indexes(catalog, table)
    coverages = (indexes.coverage(record) for record in indexes.records())
    return IndexPlan(tuple(coverage for coverage in coverages if coverage.uncovered or coverage.problems))
