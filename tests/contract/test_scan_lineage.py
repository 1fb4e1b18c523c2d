"""Rows of format 3 tell which they are and when they changed last: counted from their file, or as it lies in one that
was rewritten.
"""

from __future__ import annotations

from frazil.client import FrazilCatalog
from frazil.lake import Lake
from tests.contract.upkeep_format3 import Kept3, Lineage

COLUMNS = ("id", "_row_id", "_last_updated_sequence_number")


def lineage(kept: Kept3, where: str = "id >= 0") -> Lineage:
    """As a scan tells it, in a table and in a stream."""
    scan = Lake(catalog=kept.catalog).table(kept.name).scan(where, COLUMNS)
    result, streamed = scan.to_arrow().to_pylist(), [row for batch in scan.iter_batches() for row in batch.to_pylist()]
    assert sorted(result, key=str) == sorted(streamed, key=str)
    return {number: (row_id, changed) for number, row_id, changed in (row.values() for row in result)}


def test_rows_have_the_ids_of_the_specification_before_and_after_a_rewrite(catalog: FrazilCatalog) -> None:
    kept = Kept3(catalog).create("day")
    for number in range(4):
        kept.append(number, number + 10)
    kept.delete(11, 13)
    before = {number: value for number, value in kept.lineage().items() if number not in (11, 13)}
    assert (lineage(kept), before[2]) == (before, (4, 3))
    assert lineage(kept, "id = 2") == {2: (4, 3)}
    assert kept.compact().files_after == 1
    kept.append(20)  # a file without ids of its own next to one that has them
    assert {number: value for number, value in lineage(kept).items() if number != 20} == before
    assert lineage(kept) == kept.lineage()
