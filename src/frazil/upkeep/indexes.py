"""Refreshes the vector indexes of a table: what compaction and writers have left uncovered, and what is damaged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.vector import Coverage, Declared, Indexes

if TYPE_CHECKING:
    from frazil.client import FrazilCatalog

STEP = "indexes"


@dataclass(frozen=True)
class IndexPlan:
    """The indexes that a refresh would change, and those that are declared and not there yet."""

    indexes: tuple[Coverage, ...]
    missing: tuple[Declared, ...] = ()
    other: tuple[str, ...] = ()  # declared in another way than they are


def plan_indexes(catalog: FrazilCatalog, table: str) -> IndexPlan:
    """What the indexes of a table do not cover, from their segments and the newest snapshot; and what is declared."""
    indexes = Indexes(catalog, table)
    records, declared = {record.name: record for record in indexes.records()}, indexes.declared()
    coverages = (indexes.coverage(record) for record in records.values())
    other = (
        f"index {index.name} is declared as {index.metric}, and is {records[index.name].metric}: "
        f"frazil index drop {table} {index.name}, then apply and maintain"
        for index in declared
        if index.name in records and index.metric != records[index.name].metric
    )
    snapshot = catalog.load_table(table).current_snapshot() if declared else None
    missing = (index for index in declared if index.name not in records and snapshot is not None)
    return IndexPlan(
        tuple(coverage for coverage in coverages if coverage.uncovered or coverage.problems),
        tuple(missing),
        tuple(other),
    )
