"""Changes into a table by Spark's MERGE, on a stage.

Spark's own writer commits one table, cannot set a property, and retries by itself: so it never touches the ref, but a
branch (`stages`). Copy-on-write or merge-on-read is the table's own choice, by Iceberg's property `write.merge.mode`.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frazil.errors import PipelineError
from frazil.pipelines import Stages
from frazil.pipelines.upsert.changes import ChangeSet, settings
from frazil.protocol import SUMMARY_STAGED_BY
from frazil.spark import quoted, spark_error, spark_errors
from frazil.write.commit import head
from frazil.write.upsert import DELETED, UpsertRules

# so that the audit knows the staged snapshot for one of ours
STAGED_PROPERTY = f"spark.sql.iceberg.snapshot-property.{SUMMARY_STAGED_BY}"
MERGED = "spark.merge-into.num-target-rows-"  # in the summary of a snapshot that a MERGE made
# Without it the table's rows pass by a hash table of the changes where these are much smaller; with it both sides are
# sorted.
PREFER_SORTING = "spark.sql.join.preferSortMergeJoin"


@dataclass
class Merge:
    """Brings changes to a stage; a `publishing.Write`. `counts` says what became of them in the last attempt, if Spark
    does.
    """

    stages: Stages
    changes: ChangeSet
    rules: UpsertRules
    counts: Mapping[str, int] | None = None

    def __call__(self, stage: str) -> int:
        """Runs the MERGE on the branch; gives the snapshot that the branch has then."""
        target, spark, view = (
            self.stages.target,
            self.changes.frame.sparkSession,
            f"frazil_changes_{uuid.uuid4().hex[:8]}",
        )
        self.changes.frame.createOrReplaceTempView(view)
        columns = [field.name for field in target.layout.schema.fields]
        table = ".".join(quoted(name) for name in (self.stages.catalog.name, *target.identifier, f"branch_{stage}"))
        wanted = {STAGED_PROPERTY: self.stages.pipeline, **({PREFER_SORTING: "false"} if self.changes.fits else {})}
        try:
            with settings(spark, wanted):
                spark.sql(merge_sql(table, view, columns, self.rules, self.changes.ends))
        except spark_errors() as exc:
            self.stages.table_at(stage)  # if the branch is gone, that is what to tell
            raise PipelineError(
                f"{target.layout.name}: the merge failed: {spark_error(str(exc))}",
                hint="nothing was committed; fix it and run again",
                table=target.layout.name,
            ) from exc
        finally:
            spark.catalog.dropTempView(view)
        target.retry.on_step("merged")
        response = head(self.stages.table_at(stage).metadata, stage)
        assert response is not None
        self.counts = merge_counts(
            response.summary.additional_properties if response.summary else {}, self.changes.rows
        )
        return response.snapshot_id


def merge_sql(
    table: str, view: str, columns: list[str], rules: UpsertRules, ends: Mapping[str, tuple[Any, Any]] | None = None
) -> str:
    """The MERGE: older changes do nothing, deletes of unknown keys neither. The bounds of the keys let Iceberg skip
    files.

    >>> print(merge_sql("t", "v", ["id", "n"], UpsertRules.of("id", "n", "op"), {"id": (3, 7)}))
    MERGE INTO t t USING v s
    ON t.`id` = s.`id` AND t.`id` >= 3 AND t.`id` <= 7
    WHEN MATCHED AND (t.`n` IS NULL OR s.`n` >= t.`n`) AND s._frazil_deleted THEN DELETE
    WHEN MATCHED AND (t.`n` IS NULL OR s.`n` >= t.`n`) THEN UPDATE SET t.`id` = s.`id`, t.`n` = s.`n`
    WHEN NOT MATCHED AND NOT s._frazil_deleted THEN INSERT (`id`, `n`) VALUES (s.`id`, s.`n`)
    """
    names = [quoted(name) for name in columns]
    keys = [f"t.{quoted(name)} = s.{quoted(name)}" for name in rules.key]
    for name, (least, most) in (ends or {}).items():
        if (low := _literal(least)) is not None and (high := _literal(most)) is not None:
            keys += [f"t.{quoted(name)} >= {low}", f"t.{quoted(name)} <= {high}"]
    sequence = quoted(rules.sequence) if rules.sequence else None
    newer = f" AND (t.{sequence} IS NULL OR s.{sequence} >= t.{sequence})" if sequence else ""
    lines = [f"MERGE INTO {table} t USING {view} s", f"ON {' AND '.join(keys)}"]
    if rules.op is not None:
        lines.append(f"WHEN MATCHED{newer} AND s.{DELETED} THEN DELETE")
    lines.append(f"WHEN MATCHED{newer} THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in names)}")
    values = ", ".join(f"s.{name}" for name in names)
    lines.append(f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN INSERT ({', '.join(names)}) VALUES ({values})")  # noqa: S608  # quoted names
    return "\n".join(lines)


def merge_counts(summary: Mapping[str, str | None], changes: int) -> dict[str, int] | None:
    """What became of the changes, as Iceberg's Spark writer says in the snapshot's summary; None where it does not.

    >>> prefix = "spark.merge-into.num-target-rows-"
    >>> merge_counts({f"{prefix}inserted": "1", f"{prefix}updated": "2", f"{prefix}deleted": "0"}, changes=5)
    {'inserted': 1, 'updated': 2, 'deleted': 0, 'unchanged': 2, 'rows': 3}
    >>> merge_counts({f"{prefix}inserted": "-1"}, changes=5)
    """
    counts = {name: int(summary.get(f"{MERGED}{name}") or -1) for name in ("inserted", "updated", "deleted")}
    if min(counts.values()) < 0:  # not known
        return None
    return {
        **counts,
        "unchanged": max(changes - sum(counts.values()), 0),
        "rows": counts["inserted"] + counts["updated"],
    }


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
