"""Changes into a table by Spark's MERGE, on a stage.

Spark's own writer commits one table, cannot set a property, and retries by itself: so it never touches the ref, but a branch (`stages`).
Copy-on-write or merge-on-read is the table's own choice, by Iceberg's property `write.merge.mode`.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frazil.errors import PipelineError
from frazil.pipelines.function import telling
from frazil.pipelines.load_task import LoadReport
from frazil.pipelines.stages import Stages
from frazil.pipelines.upsert_task import REPORT
from frazil.sinks.snapshots import STAGED_BY, head
from frazil.sinks.upsert_keys import ARRIVAL
from frazil.sinks.upsert_rules import DELETED, UpsertRules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STAGED_PROPERTY = f"spark.sql.iceberg.snapshot-property.{STAGED_BY}"  # so that the audit knows the staged snapshot for one of ours
# Without it the table's rows pass by a hash table of the changes where these are much smaller; with it both sides are sorted.
PREFER_SORTING = "spark.sql.join.preferSortMergeJoin"
HASHED_ROWS = 1_000_000  # what a task may hold in such a table, which cannot spill


@dataclass(frozen=True)
class ChangeSet:
    """Changes that are ready to be merged, one for each key, kept by Spark; what was counted of them; and where their keys lie.

    They `fit` if the tasks that merge them can hold them in memory.
    """

    frame: DataFrame
    report: LoadReport
    rows: int
    ends: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    fits: bool = False


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
        yield ChangeSet(kept.filter(F.col(REPORT).isNull()).drop(REPORT), report, rows, pairs, fits=rows <= tasks * HASHED_ROWS)
    finally:
        kept.unpersist()


@dataclass(frozen=True)
class Merge:
    """Brings changes to a stage; a `stages.Write`."""

    stages: Stages
    changes: ChangeSet
    rules: UpsertRules

    def __call__(self, stage: str) -> int:
        """Runs the MERGE on the branch; gives the snapshot that the branch has then."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        target, spark, view = self.stages.target, self.changes.frame.sparkSession, f"frazil_changes_{uuid.uuid4().hex[:8]}"
        self.changes.frame.createOrReplaceTempView(view)
        columns = [one.name for one in target.layout.schema.fields]
        table = ".".join(_quote(one) for one in (self.stages.catalog.name, *target.identifier, f"branch_{stage}"))
        settings = {STAGED_PROPERTY: self.stages.pipeline, **({PREFER_SORTING: "false"} if self.changes.fits else {})}
        for one, value in settings.items():
            spark.conf.set(one, value)
        try:
            spark.sql(merge_sql(table, view, columns, self.rules, self.changes.ends))
        except (PySparkException, Py4JError) as exc:
            self.stages.table_at(stage)  # if the branch is gone, that is what to tell
            raise PipelineError(
                f"{target.layout.name}: the merge failed: {telling(str(exc))}", hint="nothing was committed; mend it and run again"
            ) from exc
        finally:
            for one in settings:
                spark.conf.unset(one)
            spark.catalog.dropTempView(view)
        target.patience.on_step("merged")
        found = head(self.stages.table_at(stage).metadata, stage)
        assert found is not None
        return found.snapshot_id


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
