"""What a scan reads of every file: its columns, its filter, and how files are opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from frazil.scan.planning import TableState, Term
from frazil.scan.reading.positions import Open
from frazil.scan.reading.values import arrow_schema

if TYPE_CHECKING:
    from frazil.scan.planning import Planner

BATCH_ROWS = 131_072


@dataclass(frozen=True)
class ReadPlan:
    """What is read of every file: the columns that are given out, the filter, and where to find what it takes."""

    table: TableState
    schema: Schema  # that the filter is bound to
    fields: tuple[NestedField, ...]  # that are given out
    terms: Sequence[Term]
    filter: BooleanExpression
    bound: BooleanExpression
    open: Open
    case_sensitive: bool = True
    batch_rows: int = BATCH_ROWS
    whole: bool = False  # row groups are decoded at once: for callers that keep all rows anyway
    # there are fewer files than processors: what waits for something else to be decoded leaves some of these idle
    spare: bool = False
    arrow: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrow", arrow_schema(Schema(*self.fields)))

    @classmethod
    def of(cls, planner: Planner, open_file: Open, fields: Sequence[NestedField], **more: Any) -> ReadPlan:
        """The plan for the files of a planner."""
        request = planner.request
        return cls(
            table=planner.table,
            schema=planner.schema,
            fields=tuple(fields),
            terms=planner.terms,
            filter=request.filter,
            bound=planner.bound,
            open=open_file,
            case_sensitive=request.case_sensitive,
            **more,
        )
