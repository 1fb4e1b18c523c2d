"""Loads of files by `frazil run`: what is new, the load itself, and what is printed of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frazil.cli.context import Context
from frazil.cli.ownership import ask_pipeline
from frazil.cli.run_result import Report, RunOptions, on_branch, result_as_json
from frazil.pipelines import Pipeline, RunResult
from frazil.project import Project
from frazil.protocol import QUARANTINE_SUFFIX
from frazil.units import count, size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.pipelines.batch import Arrivals

SHOWN_FILES = 20


@dataclass(frozen=True)
class Load:
    """A load of files that are new; it waits for Spark."""

    pipeline: Pipeline
    run: Callable[[SparkSession], RunResult]


def plan_load(
    context: Context, project: Project, pipeline: Pipeline, report: Report, options: RunOptions
) -> Load | None:
    """The load of a pipeline's new files. None if there is nothing to load, or in a dry run: the report has it."""
    from frazil.client import catalog_properties
    from frazil.pipelines.batch import expect_copies, local_digest, plan_run, refuse_changes, run_pipeline

    name, dry_run, env = pipeline.name, options.dry_run, options.env
    listed = pipeline.files.list_files(project.folder, catalog_properties(context.settings))
    if not listed:
        nothing = f"{name}: no file matches '{pipeline.files.pattern}' in {project.folder}; {pipeline.target.name} is "
        nothing += "unchanged"
        report.add(nothing, result_as_json(RunResult(name, pipeline.target.name), dry_run=dry_run))
        return None
    catalog = context.announce()
    plan = plan_run(pipeline, catalog, project.folder, listed, env=env)
    arrived = plan.arrived
    if not arrived.files:  # Spark takes seconds to start: not for nothing
        result = RunResult(name, pipeline.target.name, touched=tuple(file.path for file in arrived.touched))
        report.add(describe(result), result_as_json(result, dry_run=dry_run))
        return None
    if dry_run:
        copies = expect_copies(arrived, local_digest(project.folder))
        report.add(describe_files(pipeline, arrived, copies), pending_as_json(pipeline, arrived, copies))
        return None
    owner, adopts = ask_pipeline(context, project.folder, pipeline, adopt=options.adopt, tables=plan.tables)
    refuse_changes(pipeline, arrived, catalog, ref=env or "main")
    return Load(
        pipeline,
        lambda spark: run_pipeline(
            pipeline, spark=spark, catalog=catalog, folder=project.folder, owner=owner, adopt=adopts, plan=plan, env=env
        ),
    )


def describe_load(result: RunResult, env: str | None = None) -> str:
    """The result in lines, with what became of the rows."""
    return describe(result, env) + ("" if result.snapshot_id is None else f"\n{describe_counts(result)}")


def pending_as_json(pipeline: Pipeline, arrived: Arrivals, copies: Mapping[str, str]) -> dict[str, Any]:
    """What a run would load, in the same shape."""
    refused = arrived.changed and pipeline.on_change == "error"
    result = RunResult(
        pipeline.name,
        pipeline.target.name,
        changed=tuple(file.path for file in arrived.changed),
        unverified=tuple(arrived.unverified),
        touched=tuple(file.path for file in arrived.touched),
        copies=copies,
    )
    pending = [{"path": file.path, "bytes": file.size} for file in arrived.files]
    ended = {"status": "refused" if refused else "pending", "pending": pending}
    return result_as_json(result, dry_run=True) | ended


def describe(result: RunResult, env: str | None = None) -> str:
    """The result in a line.

    >>> describe(RunResult("daily", "l.sales", files=2, rows=1200, snapshot_id=7))
    'daily: 1,200 rows from 2 files are in l.sales, snapshot 7'
    >>> describe(RunResult("daily", "l.sales"))
    'daily: no new files; l.sales is unchanged'
    >>> describe(RunResult("daily", "l.sales", touched=("landing/a.csv",)))
    'daily: no new files (1 file was touched, its content is loaded); l.sales is unchanged'
    """
    if result.snapshot_id is None:
        return f"{result.pipeline}: no new files{_touched(result)}; {result.table} is unchanged"
    return (
        f"{result.pipeline}: {result.rows:,} rows from {count(result.files, 'file')} are in "
        f"{result.table}{on_branch(env)}, snapshot {result.snapshot_id}"
    )


def describe_counts(result: RunResult) -> str:
    """What became of the rows, a line each."""
    values = {
        "files": f"{result.files:,} ({size(result.bytes)})",
        "rows read": f"{result.rows_in:,}",
        **_written(result),
        "duplicates": f"{result.duplicates:,}",
        "quarantined": f"{result.quarantined:,}"
        + (f"  see {result.table}{QUARANTINE_SUFFIX}" if result.quarantined else ""),
        "seconds": f"{result.seconds:.1f}",
    }
    notes = [*describe_changes(result.changed, result.unverified), *describe_copies(result.copies)]
    return "\n".join(
        [*(f"  {name:<12} {value}" for name, value in values.items()), *_shorten([f"  {note}" for note in notes])]
    )


def _written(result: RunResult) -> dict[str, str]:
    """
    >>> _written(RunResult("daily", "l.sales", rows=1200))
    {'written': '1,200'}
    >>> _written(RunResult("daily", "l.sales", rows=3, inserted=1, updated=2, deleted=1, unchanged=0))
    {'inserted': '1', 'updated': '2', 'deleted': '1', 'unchanged': '0'}
    """
    counts = {name: getattr(result, name) for name in ("inserted", "updated", "deleted", "unchanged")}
    if result.inserted is None:
        counts = {"written": result.rows}
    return {name: f"{count:,}" for name, count in counts.items()}


def describe_changes(paths: Sequence[str], unverified: Sequence[str] = ()) -> list[str]:
    """A line per file that was loaded before, with what is known of its content.

    >>> describe_changes(["landing/a.csv", "landing/b.csv"], ["landing/b.csv"])[1]
    'landing/b.csv was loaded before; it is as long as then, and the ledger has no hash that tells whether its content is the same'
    """  # noqa: E501
    unknown = "; it is as long as then, and the ledger has no hash that tells whether its content is the same"
    return [f"{path} was loaded before{unknown if path in unverified else ' with other content'}" for path in paths]


def describe_copies(copies: Mapping[str, str]) -> list[str]:
    """A line per file with content that was loaded from another path, too.

    >>> describe_copies({"landing/b.csv": "landing/a.csv"})
    ['landing/b.csv has the same content as landing/a.csv']
    """
    return [f"{copy} has the same content as {path}" for copy, path in copies.items()]


def describe_files(pipeline: Pipeline, arrived: Arrivals, copies: Mapping[str, str]) -> str:
    """The files that a run would load; changed files and copies of loaded ones are named."""
    files = arrived.files
    total = size(sum(file.size for file in files))
    refused = arrived.changed and pipeline.on_change == "error"
    would = "would refuse to load" if refused else "would load"
    lines = [f"{pipeline.name}: {would} {count(len(files), 'file')} ({total}) into {pipeline.target.name}"]
    lines += _shorten([f"  {size(file.size):>9}  {file.path}" for file in files])
    notes = [*describe_changes([file.path for file in arrived.changed], arrived.unverified), *describe_copies(copies)]
    return "\n".join(lines + _shorten([f"  {note}" for note in notes]))


def _shorten(lines: Sequence[str]) -> list[str]:
    more = [f"  and {len(lines) - SHOWN_FILES:,} more"] if len(lines) > SHOWN_FILES else []
    return [*lines[:SHOWN_FILES], *more]


def _touched(result: RunResult) -> str:
    """
    >>> _touched(RunResult("daily", "l.sales", touched=("a", "b")))
    ' (2 files were touched, their content is loaded)'
    """
    if not result.touched:
        return ""
    verb, whose = ("was", "its") if len(result.touched) == 1 else ("were", "their")
    return f" ({count(len(result.touched), 'file')} {verb} touched, {whose} content is loaded)"
