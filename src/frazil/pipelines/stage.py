"""A stage branch: Spark writes to it natively, and one guarded commit makes it the table's main line."""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.errors import CommitConflict, PipelineError
from frazil.pipelines.declare import Pipeline
from frazil.pipelines.sources import SourceFile

if TYPE_CHECKING:
    from pyiceberg.table import Table as LiveTable
    from pyiceberg.table import Transaction
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


NOT_DONE = "nothing was committed; mend it and run again"


@dataclass(frozen=True)
class Stage:
    """Rows that are written but not published: the branch that holds them, and the main snapshot that they build on."""

    branch: str
    base_id: int | None
    snapshot_id: int
    rows: int


def write_stage(
    pipeline: Pipeline,
    files: Sequence[SourceFile],
    *,
    live: LiveTable,
    spark: SparkSession,
    catalog_name: str,
    run_id: str,
    folder: Path,
) -> Stage:
    """Reads the files, applies the pipeline's function, and appends the rows to a stage branch that starts at main."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    name = ".".join(f"`{part}`" for part in (catalog_name, *pipeline.target.identifier))
    branch = f"frazil_stage_{run_id.replace('-', '_')}"
    base = live.current_snapshot()
    at_base = f" AS OF VERSION {base.snapshot_id}" if base else ""
    try:
        frame = spark.read.format(pipeline.source.format).options(**pipeline.source.options)
        given = transform(pipeline, frame.load([_literal(folder / file.path) for file in files]))
        rows = conform(given, spark.table(name).schema, pipeline.target.name)
        spark.sql(f"ALTER TABLE {name} CREATE OR REPLACE BRANCH `{branch}`{at_base}")
        # Nulls in required columns are refused by `conform`, with a message; Spark's own check refuses every nullable column.
        rows.writeTo(f"{name}.branch_{branch}").option("check-nullability", "false").append()
    except (PySparkException, Py4JError) as exc:
        with contextlib.suppress(Exception):  # the run's own error is the one to tell
            live.refresh().manage_snapshots().remove_branch(branch).commit()
        raise PipelineError(f"pipeline '{pipeline.name}': {_first_line(exc)}", hint=NOT_DONE) from exc
    live.refresh()
    staged = live.snapshot_by_name(branch)
    assert staged is not None
    added = int(staged.summary["added-records"] or 0) if staged.summary else 0
    return Stage(branch, base.snapshot_id if base else None, staged.snapshot_id, added)


def transform(pipeline: Pipeline, frame: DataFrame) -> DataFrame:
    """What the user's function makes of the frame; its faults name the line."""
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

    try:
        given: object = pipeline(frame)
    except PySparkException:
        raise  # told as those of the run are
    except Exception as exc:
        found = f"{type(exc).__name__}: {exc}"
        raise PipelineError(f"pipeline '{pipeline.name}' failed{_line_of(exc, pipeline)}: {found}", hint=NOT_DONE) from exc
    if not isinstance(given, DataFrame):
        hint = "end the function with: return <a DataFrame>"
        raise PipelineError(f"pipeline '{pipeline.name}' returned {type(given).__name__}, not a Spark DataFrame", hint=hint)
    return given


def _line_of(exc: Exception, pipeline: Pipeline) -> str:
    """Where in the user's file it happened."""
    file = getattr(getattr(pipeline.transform, "__code__", None), "co_filename", None)
    lines = [number for frame, number in traceback.walk_tb(exc.__traceback__) if frame.f_code.co_filename == file]
    return f" at {file}:{lines[-1]}" if lines else ""


def _literal(path: Path) -> str:
    """The path for Spark, which reads some signs as a pattern.

    >>> _literal(Path("/a [1]/b.csv"))
    '/a \\\\[1\\\\]/b.csv'
    """
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", str(path))


def publish_stage(stage: Stage, transaction: Transaction) -> None:
    """Adds to the transaction: main becomes the staged snapshot if it still is what the stage was built on."""
    from pyiceberg.table.update import AssertRefSnapshotId, RemoveSnapshotRefUpdate, SetSnapshotRefUpdate

    main = transaction.table_metadata.refs.get("main")
    if (main.snapshot_id if main else None) != stage.base_id:
        raise CommitConflict(f"main moved away from snapshot {stage.base_id} while rows were staged on it")
    move = SetSnapshotRefUpdate.model_validate({"ref-name": "main", "type": "branch", "snapshot-id": stage.snapshot_id})
    drop = RemoveSnapshotRefUpdate.model_validate({"ref-name": stage.branch})
    guard = AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": stage.base_id})
    # PyIceberg has no public call for a ref that moves under a guard of our choosing.
    transaction._stage((move, drop), (guard,))


def conform(frame: DataFrame, schema: StructType, table: str) -> DataFrame:
    """The frame with the table's columns, in its order and types; a NULL in a required column stops the run by name."""
    from pyspark.sql import functions as F

    wanted, found = schema.fieldNames(), frame.columns
    if missing := [name for name in wanted if name not in found and not schema[name].nullable]:
        raise PipelineError(f"{table}: the pipeline gives no column '{missing[0]}', which is required; it gives: {', '.join(found)}")
    if extra := [name for name in found if name not in wanted]:
        raise PipelineError(f"{table}: the pipeline gives column '{extra[0]}', which the table does not have; it has: {', '.join(wanted)}")

    def shape(name: str) -> Column:
        value = (F.col(name) if name in found else F.lit(None)).cast(schema[name].dataType)
        if not schema[name].nullable:
            value = F.coalesce(value, F.raise_error(F.lit(f"{table}.{name} is NULL, but the column is required")))
        return value.alias(name)

    return frame.select(*(shape(name) for name in wanted))


def _first_line(exc: Exception) -> str:
    """The sentence that says what is wrong, and its cause, out of a Spark message that may hold a whole stack trace.

    >>> _first_line(Exception("An error occurred.\\n: x.RESTException: failed\\n\\tat x.Y(Z.java:1)\\nCaused by: x.Io: refused"))
    'x.RESTException: failed (x.Io: refused)'
    """
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    telling = [line for line in lines if "[" in line and "]" in line and "SQLSTATE" in line]
    thrown = [line for line in lines if line.startswith(": ")]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    told = (telling[-1] if telling else next(iter(thrown or lines), type(exc).__name__)).removeprefix("Caused by: ").removeprefix(": ")
    return f"{told} ({causes[-1]})" if causes and causes[-1] not in told else told
