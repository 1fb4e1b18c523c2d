"""Backfills: the partitions of a range of days are computed again, from all rows of the inputs."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.errors import PipelineError
from frazil.pipelines.models.decide import Action, Decision
from frazil.spark import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

    from frazil.pipelines.models.derivation import Derivation
    from frazil.write.files import TableLayout


@dataclass(frozen=True)
class Days:
    """From a day to another, both included; None is open.

    >>> str(Days(dt.date(2024, 1, 1), dt.date(2024, 1, 31))), str(Days(since=dt.date(2024, 1, 1)))
    ('from 2024-01-01 to 2024-01-31', 'from 2024-01-01')
    """

    since: dt.date | None = None
    until: dt.date | None = None

    def __str__(self) -> str:
        ends = (("from", self.since), ("to", self.until))
        return " ".join(f"{word} {day}" for word, day in ends if day is not None)

    def holds(self, column: str) -> Column:
        """The condition that a column is in the range."""
        from pyspark.sql import functions as F

        condition = F.lit(True)
        if self.since is not None:
            condition = condition & (F.col(quoted(column)) >= F.lit(self.since))
        return condition if self.until is None else condition & (F.col(quoted(column)) <= F.lit(self.until))


@dataclass(frozen=True)
class Backfill:
    """The days of one derivation, by the column of its partitions that holds them."""

    days: Days
    column: str

    @property
    def decision(self) -> Decision:
        return Decision(Action.PARTITIONS, f"a backfill of {self.column} {self.days} was asked for")


def plan_backfill(derivation: Derivation, layout: TableLayout, days: Days) -> Backfill:
    """The backfill of a table; raises `PipelineError` if its days cannot be computed by themselves."""
    is_plain = all(str(part.transform) == "identity" for part in layout.spec.fields)
    fields = [layout.schema.find_field(part.source_id) for part in layout.spec.fields]
    dates = [field.name for field in fields if str(field.field_type) == "date"]
    if derivation.mode != "replace-partition":
        raise _cannot(derivation, f"its mode is '{derivation.mode}', and only 'replace-partition' computes single days")
    if len(dates) != 1 or not is_plain:
        raise _cannot(derivation, f"{derivation.target} is not partitioned by plain columns with one date among them")
    return Backfill(days, dates[0])


def _cannot(derivation: Derivation, why: str) -> PipelineError:
    return PipelineError(
        f"{derivation.name} has no backfill: {why}",
        hint=f"frazil run {derivation.name} --full-refresh computes all of it again",
        pipeline=derivation.name,
        option="since",
        problem="backfill",
    )
