"""New rows of a Spark source by a high-water mark: a column whose values rise.

The progress of the target has the highest value that was read, and how many rows had it. A run reads the rows from that
value on, not above it: the count says whether rows with that value came later. Everything that would lose or repeat
rows without a word is an error here: NULL in the column, values that are lower than what was read, another column.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.errors import PipelineError
from frazil.pipelines.models.decide import Action, Decision
from frazil.pipelines.models.inputs import Arrived
from frazil.pipelines.models.reading import INSERT
from frazil.pipelines.sources import CHANGE, SparkSource
from frazil.spark import quoted
from frazil.write.commit import Mark

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Types by what they can be compared with. Floating point is not among them: two values that print the same may differ.
_FAMILIES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "decimal"), "number"),
    **{name: name for name in ("string", "date", "timestamp", "timestamp_ntz")},
}
_INCREMENTAL = {"append": Action.APPEND, "upsert": Action.MERGE, "replace-partition": Action.PARTITIONS}


@dataclass(frozen=True)
class MarkedInput:
    """An input that is read from a mark on, by a pipeline in some mode; `mark` is None before the first run."""

    pipeline: str
    name: str
    source: SparkSource
    mode: str
    mark: Mark | None

    def error(self, what: str, *, problem: str, hint: str = "") -> PipelineError:
        refresh = f"compute it again from all rows: frazil run {self.pipeline} --full-refresh"
        return PipelineError(
            f"{self.pipeline}: input '{self.name}' ({self.source}): {what}",
            hint=f"{hint}, or {refresh}" if hint else refresh,
            pipeline=self.pipeline,
            column=self.source.high_water_mark or "",
            problem=problem,
        )


def decide_marked(marked: MarkedInput, inputs: Mapping[str, Arrived]) -> Decision:
    """What to do; whether the source has new rows is not known before it is read. `inputs` are tables, read in full."""
    mark, column = marked.mark, marked.source.high_water_mark
    if mark is None:
        return Decision(Action.ALL, f"{marked.name} ({marked.source}) was never read")
    if mark.column != column:
        raise marked.error(
            f"its rows were read by column '{mark.column}', and now it would be '{column}'", problem="mark-column"
        )
    new = [arrived.reason for arrived in inputs.values() if arrived.is_new]
    if new and marked.mode != "append":  # any row may depend on them
        return Decision(Action.ALL, "; ".join(new))
    return Decision(_INCREMENTAL[marked.mode], f"{marked.name} ({marked.source}) is read from {column} = {mark} on")


@dataclass(frozen=True)
class MarkedReader:
    """The rows of one run: `rows` are held by Spark, so that all that is computed has seen the same."""

    source: SparkSource
    rows: DataFrame
    mark: Mark | None  # after this run
    is_new: bool
    spark: SparkSession

    def all(self) -> DataFrame:
        """All rows of the source up to the mark of this run."""
        frame = load(self.source, self.spark)
        return frame if self.mark is None else frame.where(_column(self.source) <= literal(self.mark))

    def appended(self) -> DataFrame:
        """The rows that are new."""
        return self.rows

    def changed(self) -> DataFrame:
        """The same as changes."""
        from pyspark.sql import functions as F

        return self.rows.withColumn(CHANGE, F.lit(INSERT))


def read_marked(marked: MarkedInput, spark: SparkSession, kept: ExitStack, *, everything: bool) -> MarkedReader:
    """Reads what is new, or everything, and finds the mark that the target has then."""
    since = None if everything else marked.mark
    frame = load(marked.source, spark)
    kind = _kind(marked, frame, since)
    if since is not None:
        frame = frame.where(condition(marked.source, since))
    held = frame.persist()
    kept.callback(held.unpersist)
    mark, ties = _look(marked, held, kind, since)
    if since is None:
        return MarkedReader(marked.source, held, mark, mark is not None, spark)
    if mark is None:
        _check_went_back(marked, spark, kind, since)
        return MarkedReader(marked.source, held, since, is_new=False, spark=spark)
    late = ties - since.rows
    if late > 0 and marked.mode == "append":
        raise marked.error(
            f"{late:,} rows with {since.column} = {since} came after a run had read that value",
            problem="late-rows",
            hint="mode='upsert' with a key, which reads the rows of the last value again; a column without ties",
        )
    rows = held.where(_column(marked.source) > literal(since)) if marked.mode == "append" else held
    is_new = mark.value != since.value or late > 0
    return MarkedReader(marked.source, rows, mark, is_new, spark)


def load(source: SparkSource, spark: SparkSession) -> DataFrame:
    """What Spark's reader gives."""
    if source.data_source is not None:
        spark.dataSource.register(source.data_source)
    return spark.read.format(source.format).options(**source.options).load()


def condition(source: SparkSource, since: Mark) -> Column:
    """Which rows a run asks for: from the mark on, and those that have no value."""
    column = _column(source)
    return (column >= literal(since)) | column.isNull()


def _look(marked: MarkedInput, rows: DataFrame, kind: str, since: Mark | None) -> tuple[Mark | None, int]:
    """The mark after these rows, and how many of them have the value of the mark before; None without rows."""
    from pyspark.sql import functions as F

    column = _column(marked.source)
    before = F.lit(False) if since is None else column == literal(since)
    highest, nulls, ties = rows.agg(
        _as_text(F.max(column), kind), F.count_if(column.isNull()), F.count_if(before)
    ).collect()[0]
    if nulls:
        raise marked.error(
            f"{nulls:,} rows have NULL in {marked.source.high_water_mark}, and would never be read",
            problem="null",
            hint="leave them out, or give them a value, in the option 'query' of the source or in a view",
        )
    if highest is None:
        return None, 0
    mark = Mark(marked.source.high_water_mark or "", kind, highest)
    return Mark(mark.column, kind, highest, rows.where(column == literal(mark)).count()), ties


def _check_went_back(marked: MarkedInput, spark: SparkSession, kind: str, since: Mark) -> None:
    """Refuses a source whose values all are lower than what was read: an empty one has just no rows."""
    from pyspark.sql import functions as F

    highest = load(marked.source, spark).agg(_as_text(F.max(_column(marked.source)), kind)).collect()[0][0]
    if highest is not None:
        raise marked.error(
            f"the highest {since.column} is {Mark(since.column, kind, highest)}, and {since} was read before: the "
            "source was restored, or made again",
            problem="went-back",
        )


def _kind(marked: MarkedInput, frame: DataFrame, since: Mark | None) -> str:
    """The type of the column, if it can be a mark and be compared with the mark before."""
    name = marked.source.high_water_mark
    fields = {field.name: field for field in frame.schema.fields}
    if name not in fields:
        raise marked.error(f"it has no column '{name}'; it has {', '.join(fields)}", problem="missing")
    kind = fields[name].dataType.simpleString()
    family, before = family_of(kind), family_of(since.kind) if since else None
    if family is None:
        raise marked.error(
            f"{name} is of type {kind}, expected whole numbers, decimals, text, dates or times", problem="type"
        )
    if before not in (None, family):
        assert since is not None
        raise marked.error(f"{name} is of type {kind} now, and was {since.kind}", problem="type")
    return kind


def family_of(kind: str) -> str | None:
    """What values of a type can be compared with; None for a type that cannot be a mark.

    >>> family_of("decimal(12,2)"), family_of("bigint"), family_of("double")
    ('number', 'number', None)
    """
    return _FAMILIES.get(kind.partition("(")[0])


def _as_text(value: Column, kind: str) -> Column:
    """The value in full, whatever the time zone of the session is."""
    from pyspark.sql import functions as F

    return (F.unix_micros(value) if kind == "timestamp" else value).cast("string")


def literal(mark: Mark) -> Column:
    """The mark as a constant, which Spark pushes down to the source."""
    from pyspark.sql import functions as F

    if mark.kind == "timestamp":
        return F.timestamp_micros(F.lit(int(mark.value)))
    return F.lit(mark.value).cast(mark.kind)


def _column(source: SparkSource) -> Column:
    from pyspark.sql import functions as F

    return F.col(quoted(source.high_water_mark or ""))
