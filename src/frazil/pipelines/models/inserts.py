"""New rows of a model in mode upsert whose keys the table cannot have: they are appended, without a MERGE.

A MERGE plans and runs several Spark jobs to find that nothing matches. Manifests know the bounds of every column of a
file, so that keys that grow (numbers of orders, dates) are seen to be new before any row of the table is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, LessThanOrEqual
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, PrimitiveType, StringType

from frazil.pipelines import Files
from frazil.scan.planning import Planner, ScanRequest, Source, TableState
from frazil.write.commit import Overtaken, head

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from frazil.write.files import WrittenFile

ONE_TASK_ROWS = 200_000  # up to as many new rows of the input, one task makes the rows: they are not shuffled by key
# Their values are equal in one way only, and their bounds are compared as they are.
_PLAIN = (IntegerType, LongType, DateType, StringType)
# PyIceberg types the constructors by the model's fields, and takes a name and a value.
_LEAST: Any = GreaterThanOrEqual
_MOST: Any = LessThanOrEqual


@dataclass(frozen=True)
class Inserts(Files):
    """Brings rows of new keys to a stage. They are known to be new in the snapshot `base_id` alone."""

    base_id: int | None = None

    @property
    def counts(self) -> dict[str, int]:
        """What became of the rows, as a merge says it."""
        rows = sum(file.rows for file in self.files)
        return {"inserted": rows, "updated": 0, "deleted": 0, "unchanged": 0, "rows": rows}

    def __call__(self, stage: str) -> int:
        """Commits the files to the branch; `Overtaken` if the branch begins at another snapshot."""
        base = head(self.stages.table_at(stage).metadata, stage)
        if base is None or base.snapshot_id != self.base_id:
            raise Overtaken(f"{self.stages.target.layout.name} has changed since its keys were compared")
        return super().__call__(stage)


def has_plain_key(table: Table, key: Sequence[str]) -> bool:
    """Whether bounds can tell that keys are new."""
    return all(isinstance(table.schema().find_type(name), _PLAIN) for name in key)


def may_have_keys(table: Table, snapshot_id: int, files: Sequence[WrittenFile], key: Sequence[str]) -> bool:
    """Whether a row of the snapshot may have a key of these files, as far as the bounds of both tell."""
    if not files:
        return False
    wanted = key_range(files, [table.schema().find_field(name) for name in key])
    if wanted is None:
        return True
    state = TableState.of(".".join(table.name()), table.metadata)
    return len(Planner(state, Source.of(table.io).cache, ScanRequest(wanted, snapshot_id)).plan()) > 0


def key_range(files: Sequence[WrittenFile], key: Sequence[NestedField]) -> BooleanExpression | None:
    """That each column of the key lies where these files have it; None if a file has a NULL there, or does not say."""
    within: BooleanExpression = AlwaysTrue()
    for field in key:
        number, kind = field.field_id, field.field_type
        assert isinstance(kind, PrimitiveType)  # a key has no other columns
        lower = [file.lower_bounds.get(number) for file in files if file.null_counts.get(number) == 0]
        upper = [file.upper_bounds.get(number) for file in files]
        least = [from_bytes(kind, bound) for bound in lower if bound is not None]
        most = [from_bytes(kind, bound) for bound in upper if bound is not None]
        if not len(least) == len(most) == len(files):
            return None
        within = And(within, And(_LEAST(field.name, min(least)), _MOST(field.name, max(most))))
    return within
