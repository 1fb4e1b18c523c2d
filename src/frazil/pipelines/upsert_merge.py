"""Changes into a table by Spark's MERGE: on a stage branch, where nobody sees it, then to the ref with its progress in one commit.

Spark's own writer commits one table, cannot set a property, and retries by itself: so it never touches the ref. The branch begins at the
ref's head. Publishing moves the ref to what Spark has staged, if it still is at that head, and drops the branch. If it is not, the
changes are merged once more, on the new head. A run that is killed leaves a branch that the next one removes.

Copy-on-write or merge-on-read is the table's own choice, by Iceberg's property `write.merge.mode`.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frazil.errors import CommitUnknown, PipelineError
from frazil.pipelines.function import telling
from frazil.pipelines.load_task import LoadReport
from frazil.pipelines.upsert_task import REPORT
from frazil.sinks.publish import Overtaken, until_decided
from frazil.sinks.snapshots import STAGED_BY, Move, guards, head, move_ref
from frazil.sinks.upsert_keys import ARRIVAL
from frazil.sinks.upsert_rules import DELETED, UpsertRules

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.typedef import Identifier
    from pyspark.sql import DataFrame

    from frazil.client import FrazilCatalog
    from frazil.sinks.iceberg import IcebergTarget
    from frazil.sinks.spark import FrameResult, FrameSink, Staged

STAGE = "frazil_stage"
STAGED_PROPERTY = f"spark.sql.iceberg.snapshot-property.{STAGED_BY}"  # so that the audit knows the staged snapshot for one of ours
ATTEMPTS = 10
Also = Callable[[int], "Mapping[str | Identifier, pa.Table]"]


@dataclass(frozen=True)
class ChangeSet:
    """Changes that are ready to be merged, one for each key, kept by Spark; what was counted of them; and where their keys lie."""

    frame: DataFrame
    report: LoadReport
    rows: int
    ends: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)


@contextmanager
def change_set(frame: DataFrame, rules: UpsertRules) -> Iterator[ChangeSet]:
    """The changes of a frame that tasks have made (`ChangePlan.run`), computed once; they are let go of at the end."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    key = [F.col(_quote(name)) for name in rules.key]
    order = [F.col(_quote(rules.sequence)).desc()] if rules.sequence else []
    latest = Window.partitionBy(*key).orderBy(*order, F.col(ARRIVAL).desc())
    # As many partitions as there are tasks that make the rows: what Spark keeps is not split into its usual 200, a task each.
    tasks = max(frame.rdd.getNumPartitions(), frame.sparkSession.sparkContext.defaultParallelism)
    ranked = frame.repartition(tasks, *key).withColumn("_frazil_rank", F.row_number().over(latest))
    kept = ranked.filter((F.col("_frazil_rank") == 1) | F.col(REPORT).isNotNull()).drop("_frazil_rank", ARRIVAL)
    kept = kept.persist(StorageLevel.MEMORY_AND_DISK)  # a merge reads its source twice
    try:
        ends = [one(F.col(_quote(name))) for name in rules.key for one in (F.min, F.max)]
        reports, rows, *found = kept.agg(F.collect_list(REPORT), F.count(F.when(F.col(REPORT).isNull(), 1)), *ends).collect()[0]
        report = sum((LoadReport.from_json(text) for text in reports), LoadReport())
        pairs = {name: (found[2 * at], found[2 * at + 1]) for at, name in enumerate(rules.key)}
        yield ChangeSet(kept.filter(F.col(REPORT).isNull()).drop(REPORT), report, rows, pairs)
    finally:
        kept.unpersist()


@dataclass(frozen=True)
class Merger:
    """Merges changes into a table, for one part of a stream or a pipeline."""

    catalog: FrazilCatalog
    target: IcebergTarget
    part: str
    rules: UpsertRules
    attempts: int = ATTEMPTS

    @property
    def prefix(self) -> str:
        """How the stage branches of this part begin: names of parts may hold what a branch in SQL may not."""
        return f"{STAGE}_{hashlib.sha256(self.part.encode()).hexdigest()[:10]}_"

    def clean(self) -> list[str]:
        """Removes the branches that killed runs of this part have left; to be called once the part is taken over. Gives their names."""

        def attempt(_: int) -> list[str]:
            from pyiceberg.table.update import RemoveSnapshotRefUpdate

            metadata = self.catalog.load_table(self.target.identifier).metadata
            left = {name: ref.snapshot_id for name, ref in metadata.refs.items() if name.startswith(self.prefix)}
            if left:
                requirements = tuple(dict.fromkeys(one for name, at in left.items() for one in guards(metadata, name, at)))
                self._commit(requirements, tuple(RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in left))
            return list(left)

        return until_decided(attempt, name=self.target.layout.name, patience=self.target.patience)

    def publish(
        self,
        sink: FrameSink,
        staged: Staged,
        changes: ChangeSet,
        *,
        also: Also | None = None,
        done: frozenset[str] = frozenset(),
    ) -> FrameResult:
        """The changes are in the table, with the quarantined rows of `staged`, rows of other tables and the position, when this returns.

        `also` is given the staged snapshot.
        """
        for _ in range(self.attempts):
            stage = f"{self.prefix}{uuid.uuid4().hex[:8]}"
            base = self._begin(stage)
            try:
                snapshot_id = self._merge(changes, stage) if changes.rows else base
                move = Move(self.target.identifier, snapshot_id, base, stage, self.target.ref)
                self.target.patience.on_step("staged")
                return sink.publish(staged, also=also(snapshot_id) if also else None, change=move, done=done)
            except Overtaken:
                self._drop(stage)
            except CommitUnknown:  # it may still come
                raise
            except Exception:
                self._drop(stage)
                raise
        raise PipelineError(
            f"{self.target.layout.name} changed {self.attempts} times while changes were merged into it",
            hint="nothing was committed; run again when fewer others write to the table, or use merge-on-read, which takes less time",
        )

    # --- the stage -----------------------------------------------------------------------------------------------------------------

    def _begin(self, stage: str) -> int:
        """Makes the branch, at the head of the ref."""

        def attempt(_: int) -> int:
            metadata = self.catalog.load_table(self.target.identifier).metadata
            now, known = head(metadata, self.target.ref), head(metadata, stage)
            assert now is not None  # the take-over has made one
            if known is None:
                self._commit(guards(metadata, stage, None), (move_ref(metadata, stage, now.snapshot_id),))
                return now.snapshot_id
            return known.snapshot_id  # the reply was lost, the commit was not

        return until_decided(attempt, name=self.target.layout.name, patience=self.target.patience)

    def _merge(self, changes: ChangeSet, stage: str) -> int:
        """Runs the MERGE on the branch; gives the snapshot that the branch has then."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        spark, view = changes.frame.sparkSession, f"frazil_changes_{uuid.uuid4().hex[:8]}"
        changes.frame.createOrReplaceTempView(view)
        columns = [one.name for one in self.target.layout.schema.fields]
        table = ".".join(_quote(one) for one in (self.catalog.name, *self.target.identifier, f"branch_{stage}"))
        spark.conf.set(STAGED_PROPERTY, self.part)
        try:
            spark.sql(merge_sql(table, view, columns, self.rules, changes.ends))
        except (PySparkException, Py4JError) as exc:
            raise PipelineError(
                f"{self.target.layout.name}: the merge failed: {telling(str(exc))}", hint="nothing was committed; mend it and run again"
            ) from exc
        finally:
            spark.conf.unset(STAGED_PROPERTY)
            spark.catalog.dropTempView(view)
        self.target.patience.on_step("merged")
        found = head(self.catalog.load_table(self.target.identifier).metadata, stage)
        if found is None:
            raise PipelineError(f"{self.target.layout.name}: branch '{stage}' is gone", hint="another run of this pipeline has begun since")
        return found.snapshot_id

    def _drop(self, stage: str) -> None:
        """Removes the branch; one that stays is removed by the next run."""
        from pyiceberg.table.update import RemoveSnapshotRefUpdate

        with suppress(Exception):  # the error that led here is the one to tell
            metadata = self.catalog.load_table(self.target.identifier).metadata
            if (now := head(metadata, stage)) is not None:
                gone = RemoveSnapshotRefUpdate.model_validate({"ref-name": stage})
                self._commit(guards(metadata, stage, now.snapshot_id), (gone,))

    def _commit(self, requirements: tuple[Any, ...], updates: tuple[Any, ...]) -> None:
        from frazil.client.changes import Change

        self.catalog.commit_changes([Change(self.target.identifier, requirements, updates)])


def merge_sql(table: str, view: str, columns: list[str], rules: UpsertRules, ends: Mapping[str, tuple[Any, Any]] | None = None) -> str:
    """The MERGE: older changes do nothing, deletes of unknown keys neither. The bounds of the keys let Iceberg skip files.

    >>> print(merge_sql("t", "v", ["id", "n"], UpsertRules.of("id", "n", "op"), {"id": (3, 7)}))
    MERGE INTO t t USING v s
    ON t.`id` = s.`id` AND t.`id` >= 3 AND t.`id` <= 7
    WHEN MATCHED AND (t.`n` IS NULL OR s.`n` >= t.`n`) AND s._frazil_deleted THEN DELETE
    WHEN MATCHED AND (t.`n` IS NULL OR s.`n` >= t.`n`) THEN UPDATE SET t.`id` = s.`id`, t.`n` = s.`n`
    WHEN NOT MATCHED AND NOT s._frazil_deleted THEN INSERT (`id`, `n`) VALUES (s.`id`, s.`n`)
    """
    names = [_quote(name) for name in columns]
    keys = [f"t.{_quote(name)} = s.{_quote(name)}" for name in rules.key]
    for name, (least, most) in (ends or {}).items():
        if (low := _literal(least)) is not None and (high := _literal(most)) is not None:
            keys += [f"t.{_quote(name)} >= {low}", f"t.{_quote(name)} <= {high}"]
    sequence = _quote(rules.sequence) if rules.sequence else None
    newer = f" AND (t.{sequence} IS NULL OR s.{sequence} >= t.{sequence})" if sequence else ""
    lines = [f"MERGE INTO {table} t USING {view} s", f"ON {' AND '.join(keys)}"]
    if rules.op is not None:
        lines.append(f"WHEN MATCHED{newer} AND s.{DELETED} THEN DELETE")
    lines.append(f"WHEN MATCHED{newer} THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in names)}")
    given = ", ".join(f"s.{name}" for name in names)
    lines.append(f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN INSERT ({', '.join(names)}) VALUES ({given})")  # noqa: S608  # quoted names
    return "\n".join(lines)


def _literal(value: Any) -> str | None:
    """A value as SQL; None for one that is better left out."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str) and value.isascii() and value.isprintable() and "\\" not in value and "'" not in value:
        return f"'{value}'"
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return f"DATE '{value.isoformat()}'"
    return None


def _quote(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
