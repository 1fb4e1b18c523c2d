"""Refreshes the vector indexes of a table: what compaction and writers have left uncovered, and what is damaged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.errors import VectorError
from frazil.upkeep.policy import INDEXES
from frazil.upkeep.reach import reachable
from frazil.vector import Coverage, Declared, Indexes, IndexRecord

if TYPE_CHECKING:
    from frazil.client import FrazilCatalog

STEP = INDEXES


@dataclass(frozen=True)
class IndexPlan:
    """The indexes that a refresh would change, and those that are declared and not there yet."""

    indexes: tuple[Coverage, ...]
    missing: tuple[Declared, ...] = ()
    other: tuple[str, ...] = ()  # declared in another way than they are, or of a column that is gone
    expired: frozenset[str] = frozenset()  # covered files that no snapshot has any more
    uncopied: tuple[IndexRecord, ...] = ()  # nothing is wrong with them but that the table's statistics lack them
    lost: tuple[IndexRecord, ...] = ()  # nothing is wrong with them but that the catalog has lost their record


def plan_indexes(catalog: FrazilCatalog, table: str) -> IndexPlan:
    """What the indexes of a table do not cover, from their segments and the newest snapshot; and what is declared."""
    indexes = Indexes(catalog, table)
    records, declared = {record.name: record for record in indexes.records()}, indexes.declared()
    coverages, problems = list[Coverage](), list[str]()
    for record in records.values():
        try:
            coverages.append(indexes.coverage(record))
        except VectorError as exc:  # its column was dropped, or is of another type: the other steps go on
            problems.append(f"index {record.name}: {exc.message}; {exc.hint}")
    expired = _expired(catalog, table, {path for coverage in coverages for path in coverage.gone})
    other = (
        f"index {index.name} is declared as {index.metric}, and is {records[index.name].metric}: "
        f"frazil index drop {table} {index.name}, then apply and maintain"
        for index in declared
        if index.name in records and index.metric != records[index.name].metric
    )
    snapshot = catalog.load_table(table).current_snapshot() if declared else None
    missing = (index for index in declared if index.name not in records and snapshot is not None)
    due = [each for each in coverages if each.uncovered or each.problems or each.expired_rows(expired)]
    lost = indexes.lost([each.record for each in coverages if each not in due])
    uncopied = (each.record for each in coverages if not each.copied and each not in due and each.record not in lost)
    return IndexPlan(tuple(due), tuple(missing), (*other, *problems), expired, tuple(uncopied), tuple(lost))


def _expired(catalog: FrazilCatalog, table: str, gone: set[str]) -> frozenset[str]:
    """Of some data files, those that no snapshot has."""
    left = set(gone)
    for paths in reachable(catalog.load_table(table)) if left else ():
        left.difference_update(paths.to_pylist())
    return frozenset(left)
