"""The rows of a derivation on a staging branch of its table, which no reader sees yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.errors import PipelineError, RowRefused, TooManyBadRows
from frazil.pipelines import Files
from frazil.pipelines.models.backfill import Backfill
from frazil.pipelines.models.decide import Action
from frazil.pipelines.models.derivation import OP, Derivation, TableInput
from frazil.pipelines.models.inputs import News, only_grew_last
from frazil.pipelines.models.inserts import ONE_TASK_ROWS, Inserts, has_plain_key, may_have_keys
from frazil.pipelines.models.marks import MarkedReader, load
from frazil.pipelines.models.reading import DELETE, InputReader, fields_by_name
from frazil.pipelines.sources import CHANGE, SparkSource
from frazil.sinks.spark import Counts, Staged, TaskPlan, row_schema, task_limits, tasks_at_once
from frazil.spark import quoted, spark_error, spark_errors
from frazil.write.commit import Append, Overwrite, Replace, head
from frazil.write.files import BufferLimits, partition_keys, split
from frazil.write.upsert import DELETED

if TYPE_CHECKING:
    from pyiceberg.table import Table as LiveTable
    from pyspark.sql import Column, DataFrame, SparkSession

    from frazil.pipelines import Kind, Stages, Write
    from frazil.pipelines.upsert import ChangeSet
    from frazil.sinks import IcebergTarget
    from frazil.sinks.spark import FrameSink
    from frazil.write.files import Partition

MOST_PARTITIONS = 10_000  # that are recomputed one by one; from there on it is the whole table
CAME = "_frazil_came"  # whether the changes of a key have one that is no delete
MOST_LITERALS = 500  # partitions that a filter names; more are joined


@dataclass
class Work:
    """What one derivation has computed: files or changes that wait to be brought to a branch."""

    staged: Staged
    write: Write
    counts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Computing:
    """Computes the rows of one derivation. `kept` lets go of what Spark holds for it."""

    derivation: Derivation
    action: Action
    spark: SparkSession
    readers: Mapping[str, InputReader]  # by table
    target: IcebergTarget
    live: LiveTable  # the table as the run has planned with it
    sink: FrameSink
    stages: Stages
    kept: ExitStack
    marked: MarkedReader | None = None
    backfill: Backfill | None = None

    def compute(self) -> Work:
        """The rows as staged files, or as changes to be merged; nothing is in the table yet."""
        try:
            if self.derivation.rules is not None and self.action is not Action.OVERWRITE:
                return self._changes()
            return self._files()
        except RowRefused as exc:  # only a model's rows: those of a pipeline are quarantined
            exc.hint = "nothing was committed; let the query leave such rows out, or change the check that they break"
            raise
        except spark_errors() as exc:
            raise PipelineError(
                f"'{self.derivation.name}': {spark_error(str(exc))}",
                hint="nothing was committed; fix it and run again",
                pipeline=self.derivation.name,
            ) from exc

    # --- files -------------------------------------------------------------------------------------------------------

    def _files(self) -> Work:
        frame, kind = self._rows()
        if self.derivation.rules is not None and not self.derivation.is_model:
            return self._last_of_each(frame, kind)
        staged = self.sink.stage(self._of_table(frame))
        self._check_bad(staged)
        return Work(staged, Files(self.stages, staged.files, kind))

    def _last_of_each(self, frame: DataFrame, kind: Kind) -> Work:
        """All rows of an upsert, in place of those of the table: of each key the last change, and no deleted ones."""
        from pyspark.sql import functions as F

        changes, judged = self._change_set(frame)
        rows = changes.frame.where(~F.col(DELETED)).select(*map(_column, self.target.layout.arrow.names))
        staged = self.sink.stage(rows)
        counts = replace(judged.counts, rows=staged.counts.rows)
        staged = replace(staged, quarantine_files=judged.quarantine_files, counts=counts)
        return Work(staged, Files(self.stages, staged.files, kind))

    def _rows(self) -> tuple[DataFrame, Kind]:
        """The rows to write, and how they are published."""
        if self.action is Action.APPEND:
            return self._computed(self._new_rows()), Append
        if self.action is Action.PARTITIONS and (touched := self._touched()) is not None:
            rows = _in_partitions(self._computed(), touched.column_names, touched)
            return rows, partial(Replace, emptied={self.target.layout.spec.spec_id: self._partitions(touched)})
        if self.action is Action.OVERWRITE or (self.action is Action.PARTITIONS and self.derivation.is_model):
            return self._computed(), Overwrite
        return self._computed(), Replace if self.derivation.mode == "replace-partition" else Append

    def _touched(self) -> pa.Table | None:
        """The partitions of the rows that the changes make; None if they are too many, or not of plain columns."""
        names = self._partition_columns()
        if not names:
            return None
        if (values := self._listed(names)) is None:
            if self.backfill is not None:
                touched = self._of_range(self.backfill)
            else:
                touched = self._computed(self._driving().changed().drop(CHANGE)).select(*map(_column, names))
            values = touched.distinct().limit(MOST_PARTITIONS + 1).toArrow()
        kinds = pa.schema([self.target.layout.arrow.field(name) for name in names])
        if values.num_rows > MOST_PARTITIONS and self.backfill is not None:
            raise PipelineError(
                f"'{self.derivation.name}': the backfill has more than {MOST_PARTITIONS:,} partitions",
                hint="choose fewer days, or --full-refresh",
                pipeline=self.derivation.name,
                problem="backfill",
            )
        return values.cast(kinds) if values.num_rows <= MOST_PARTITIONS else None

    def _listed(self, names: Sequence[str]) -> pa.Table | None:
        """The same from manifests, without a query: those of the files that were appended to the driving input. They
        are as many or more, where the query leaves rows out. None where only the query tells.
        """
        plain, reader = self.derivation.plain, self.readers.get(self.derivation.driving or "")
        if self.backfill is not None or reader is None or any(name.lower() not in plain for name in names):
            return None
        source, target = fields_by_name(reader.table.schema()), fields_by_name(self.target.layout.schema)
        columns = {name: plain[name.lower()] for name in names}
        same = all(
            column in source and source[column].field_type == target[name.lower()].field_type
            for name, column in columns.items()
        )
        return reader.appended_values(columns) if same else None

    def _of_range(self, backfill: Backfill) -> DataFrame:
        """The partitions of a range of days: those that the table has, and those that the query gives."""
        columns = list(map(_column, self._partition_columns()))
        within = backfill.days.holds(backfill.column)
        rows = self._computed().where(within).select(*columns)
        base = head(self.stages.catalog.load_table(self.target.identifier).metadata, self.target.ref)
        if base is None:
            return rows
        name = ".".join(quoted(part) for part in (self.stages.catalog.name, *self.target.identifier))
        held = self.spark.sql(f"SELECT * FROM {name} VERSION AS OF {base.snapshot_id}")  # noqa: S608  # a number
        return rows.union(held.where(within).select(*columns))

    def _partitions(self, touched: pa.Table) -> frozenset[Partition]:
        """The same as manifests hold them."""
        keys = partition_keys(self.target.layout.schema, self.target.layout.spec)
        return frozenset(split(touched, keys).partitions)

    def _partition_columns(self) -> list[str]:
        """The columns that the table is partitioned by, if it is by their plain values."""
        layout = self.target.layout
        if any(str(part.transform) != "identity" for part in layout.spec.fields):
            return []
        return [layout.schema.find_field(part.source_id).name for part in layout.spec.fields]

    # --- changes -----------------------------------------------------------------------------------------------------

    def _changes(self) -> Work:
        from frazil.pipelines.upsert import Merge

        if (work := self._inserted()) is not None:
            return work
        rules = self.derivation.rules
        assert rules is not None
        changes, staged = self._change_set(self._changed_rows())
        return Work(staged, Merge(self.stages, changes, rules))

    def _change_set(self, frame: DataFrame) -> tuple[ChangeSet, Staged]:
        """The rows of a frame as changes, one for each key; what was counted, and the files of bad rows."""
        from frazil.pipelines.upsert import ChangePlan, change_set

        derivation, rules = self.derivation, self.derivation.rules
        assert rules is not None
        # Computed for good: a MERGE plans its source several times, and Spark (4.1.3) fails to plan some of the tables
        # that a temporary view reads ("No plan for TableReference").
        frame = frame.localCheckpoint()
        quarantine = (
            self.target.open_quarantine(self.sink.part).layout if derivation.max_bad_share is not None else None
        )
        limits = task_limits(BufferLimits(), tasks_at_once(self.spark))
        load = TaskPlan(self.target.layout, self.sink.part, limits, _rows_of_frame(), quarantine, derivation.checks)
        plan = ChangePlan(load, rules)
        plan.check_fields(row_schema(frame.schema, None, table=derivation.target))
        changes = self.kept.enter_context(change_set(frame, plan))
        counts = changes.report.counts
        duplicates = counts.rows - changes.rows
        counts = counts + Counts(rows=-duplicates, duplicates=duplicates)
        staged = Staged((), changes.report.quarantine_files, counts)
        self._check_bad(staged)
        return changes, staged

    def _inserted(self) -> Work | None:
        """The new rows as files to be appended, if bounds tell that the table has none of their keys, and no key comes
        twice; None where a merge has to find out. Tried where the last change of the table only added rows, too.
        """
        rules, base = self.derivation.rules, head(self.live.metadata, self.target.ref)
        reader = self.readers.get(self.derivation.driving or "")
        if not self.derivation.is_model or self.action is not Action.MERGE or rules is None or base is None:
            return None
        if reader is None or reader.arrived.news is not News.APPENDED or not has_plain_key(self.live, rules.key):
            return None
        if not only_grew_last(self.live.metadata, self.target.ref):
            return None
        rows, key = self._of_table(self._computed(reader.appended())), [_column(name) for name in rules.key]
        rows = rows.coalesce(1) if reader.arrived.rows_added <= ONE_TASK_ROWS else rows.repartition(*key)
        staged = self.sink.stage(rows.sortWithinPartitions(*key), key=rules.key)
        if staged.counts.duplicates or may_have_keys(self.live, base.snapshot_id, staged.files, rules.key):
            self.sink.discard(staged)
            return None
        return Work(staged, Inserts(self.stages, staged.files, Append, base.snapshot_id))

    def _changed_rows(self) -> DataFrame:
        """The rows to be merged; for a model with `OP`, which tells the keys that are gone."""
        from pyspark.sql import functions as F

        if not self.derivation.is_model:
            return self._without_replaced(self._computed(self._driving_rows()))
        if self.action is Action.ALL:
            return self._of_table(self._computed()).withColumn(OP, F.lit("u"))
        if self.readers[self.derivation.driving or ""].arrived.news is News.APPENDED:
            return self._of_table(self._computed(self._driving().appended())).withColumn(OP, F.lit("u"))
        changed = self._driving().changed().persist()
        self.kept.callback(changed.unpersist)
        came = self._of_table(self._computed(changed.where(F.col(CHANGE) != DELETE).drop(CHANGE)))
        went = self._of_table(self._computed(changed.where(F.col(CHANGE) == DELETE).drop(CHANGE)))
        rules = self.derivation.rules
        assert rules is not None
        gone = went.join(came, on=[went[quoted(n)].eqNullSafe(came[quoted(n)]) for n in rules.key], how="left_anti")
        return came.withColumn(OP, F.lit("u")).unionByName(gone.withColumn(OP, F.lit("d")))

    def _driving_rows(self) -> DataFrame | None:
        """What a pipeline's function gets of its driving input: what it asks for, or all of it."""
        if self.action is Action.ALL or (self.marked is None and self.derivation.driving is None):
            return None
        return self._new_rows()

    def _without_replaced(self, frame: DataFrame) -> DataFrame:
        """The changes without the deletes of keys that came again: of a row that was updated the old values are
        deleted, and which of the two arrives last is left to Spark.
        """
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        rules = self.derivation.rules
        if not self.derivation.takes_changes or rules is None or rules.op is None:
            return frame
        if not {*rules.key, rules.op.column} <= set(frame.columns):  # which is refused with the rules
            return frame
        deleted = F.lower(_column(rules.op.column)).isin([word.lower() for word in rules.op.deletes])
        came = F.max(~deleted).over(Window.partitionBy(*map(_column, rules.key)))
        return frame.withColumn(CAME, came).where(~deleted | ~F.col(CAME)).drop(CAME)

    # --- both --------------------------------------------------------------------------------------------------------

    def _driving(self) -> InputReader | MarkedReader:
        if self.marked is not None:
            return self.marked
        assert self.derivation.driving is not None
        return self.readers[self.derivation.driving]

    def _new_rows(self) -> DataFrame:
        """What is new in the driving input, as the function asks for it."""
        reader = self._driving()
        return reader.changed() if self.derivation.takes_changes else reader.appended()

    def _computed(self, driving: DataFrame | None = None) -> DataFrame:
        """What the derivation gives; `driving` takes the place of all rows of the driving input."""
        frames = {name: self._frame(name, source, driving) for name, source in self.derivation.inputs.items()}
        return self.derivation.compute(self.spark, frames)

    def _frame(self, name: str, source: TableInput, driving: DataFrame | None) -> DataFrame:
        if self.marked is not None and name == self.derivation.marked:
            return self.marked.all() if driving is None else driving
        if isinstance(source, SparkSource):
            return load(source, self.spark)
        if driving is not None and source.name == self.derivation.driving and not source.full:
            return driving
        reader = self.readers[source.name]
        if source.changes and self.derivation.takes_changes:
            return reader.all_as_changes(gone=self.action is Action.ALL)
        return reader.all()

    def _of_table(self, frame: DataFrame) -> DataFrame:
        """The frame in the order of the table's columns; unknown ones of a pipeline are refused by the sink."""
        unknown = [name for name in frame.columns if name not in self.target.layout.arrow.names]
        if unknown and self.derivation.is_model:
            raise PipelineError(
                f"{self.derivation.name}: the query gives column '{unknown[0]}', which the table does not have",
                hint="frazil plan shows the change of the table, frazil apply makes it",
                pipeline=self.derivation.name,
                column=unknown[0],
                problem="schema",
            )
        names = [name for name in self.target.layout.arrow.names if name in frame.columns]
        return frame.select(*map(_column, [*names, *(name for name in frame.columns if name not in names)]))

    def _check_bad(self, staged: Staged) -> None:
        counts, limit = staged.counts, self.derivation.max_bad_share
        rows = counts.rows + counts.duplicates + counts.refused
        if counts.refused <= (limit or 0) * rows:
            return
        self.sink.discard(staged)
        if limit is None and (refusal := counts.first_refusal) is not None:
            raise RowRefused(self.derivation.target, refusal.reason, position=refusal.position, row=refusal.raw)
        raise TooManyBadRows(self.derivation.name, bad=counts.refused, rows=rows, limit=limit or 0, reasons={})


def _rows_of_frame() -> Any:
    from frazil.pipelines.files import FileRows

    return FileRows(())


def _column(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(quoted(name))


def _in_partitions(frame: DataFrame, names: Sequence[str], touched: pa.Table) -> DataFrame:
    """The rows of some partitions. Few are named in a filter, which Spark pushes down to the files of the inputs."""
    from pyspark.sql import functions as F

    if not touched.num_rows:
        return frame.where(F.lit(False))
    if touched.num_rows <= MOST_LITERALS:
        conditions = (
            reduce(and_, (_column(name).eqNullSafe(F.lit(value)) for name, value in row.items()))
            for row in touched.to_pylist()
        )
        return frame.where(reduce(or_, conditions))
    wanted = frame.sparkSession.createDataFrame(touched).toDF(*(f"_frazil_{at}" for at in range(len(names))))
    on = [_column(name).eqNullSafe(wanted[f"_frazil_{at}"]) for at, name in enumerate(names)]
    return frame.join(F.broadcast(wanted), on=on, how="left_semi")
