"""`run`: pipelines and models of a project, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.complete import complete_selectors
from frazil.cli.context import Context
from frazil.cli.ownership import adopt_option, ask_pipeline
from frazil.cli.progress import spark_progress
from frazil.cli.run_result import result_as_json
from frazil.cli.show import OUTPUT, echo, print_json
from frazil.cli.spark import pipeline_session
from frazil.errors import ProjectError
from frazil.pipelines import Pipeline, RunResult
from frazil.project import Project, load_project
from frazil.protocol import QUARANTINE_SUFFIX
from frazil.units import count, size

if TYPE_CHECKING:
    from frazil.pipelines.batch import Arrivals
    from frazil.pipelines.models import Derivation, Model

SHOWN_FILES = 20


@click.command()
@click.argument("names", nargs=-1, metavar="[SELECTOR]...", shell_complete=complete_selectors)
@click.option("--dry-run", is_flag=True, help="Say what would be loaded or computed, and why; change nothing.")
@click.option("--atomic", is_flag=True, help="Publish all tables that are computed in one commit, or none of them.")
@click.option("--full-refresh", is_flag=True, help="Compute the named tables from all rows of their inputs.")
@click.option("--env", metavar="NAME", help="Read and write the branches of an environment, and leave main alone.")
@adopt_option
@OUTPUT
@click.pass_obj
def run(
    context: Context,
    names: Sequence[str],
    dry_run: bool,
    atomic: bool,
    full_refresh: bool,
    env: str | None,
    adopt: bool,
    output: str,
) -> None:
    """Load and compute what is new: pipelines and models, once.

    A SELECTOR is a pipeline, model or table, or a pattern (gold.*); +NAME adds what it depends on, NAME+ what depends
    on it; tag:NAME and group:NAME select by label. Without any, all run, in the order of the graph. A pipeline over
    Kafka is run only if it is named.
    """
    project = load_project(Path.cwd())
    loaders, derivations = _choose(project, names)
    if env is not None:
        check_env(env, loaders)
    if len(loaders) == 1 and not derivations and not (atomic or full_refresh):
        _run_loader(context, project, loaders[0], dry_run=dry_run, adopt=adopt, output=output, env=env)
        return
    if full_refresh and (loaders or not names):
        raise ProjectError(
            "--full-refresh is for models and pipelines over tables, by name",
            hint="frazil run NAME --full-refresh; files are loaded once",
            option="full-refresh",
        )
    if output == "json" and loaders and derivations:
        raise ProjectError(
            "with --output json, run loads and models by two commands",
            hint=f"frazil run {loaders[0].name} --output json",
            option="output",
        )
    for loader in loaders:
        _run_loader(context, project, loader, dry_run=dry_run, adopt=adopt, output=output, env=env)
    if derivations:
        from frazil.cli.run_graph import GraphOptions, run_graph

        run_graph(context, project, derivations, GraphOptions(dry_run, atomic, full_refresh, adopt, output, env))


def check_env(env: str, loaders: Sequence[Pipeline]) -> None:
    """Refuses a name that no environment can have, and pipelines that cannot run in one."""
    from frazil.history import check_environment
    from frazil.pipelines.sources import KafkaSource

    check_environment(env)
    if streams := [each.name for each in loaders if isinstance(each.source, KafkaSource)]:
        raise ProjectError(
            f"pipeline '{streams[0]}' reads Kafka, which has no environments",
            hint="run it on main; models in the environment read what it has written there",
            pipeline=streams[0],
            option="env",
        )


def _choose(project: Project, names: Sequence[str]) -> tuple[list[Pipeline], list[Derivation]]:
    """The pipelines that load, and what reads tables, both in order."""
    if len(names) == 1 and any(pipeline.name == names[0] and not pipeline.inputs for pipeline in project.pipelines):
        return [project.pipeline(names[0])], []  # without a library that reads SQL
    from frazil.pipelines.graph import select
    from frazil.pipelines.models import derivation_of
    from frazil.pipelines.sources import KafkaSource

    every: list[Pipeline | Model] = [*project.pipelines, *project.models]
    declared = {each.name: each for each in every}
    chosen = [declared[node.name] for node in select(project.graph, names)]
    derived = [each for each in chosen if not isinstance(each, Pipeline) or each.inputs]
    loaders = [each for each in chosen if isinstance(each, Pipeline) and not each.inputs]
    named = {name for name in names if name in declared}
    loaders = [each for each in loaders if each.name in named or not isinstance(each.source, KafkaSource)]
    return loaders, [derivation_of(each) for each in derived]


def _run_loader(
    context: Context,
    project: Project,
    pipeline: Pipeline,
    *,
    dry_run: bool,
    adopt: bool,
    output: str,
    env: str | None = None,
) -> None:
    """Runs a pipeline that loads files or a topic."""
    from frazil.client import catalog_properties
    from frazil.pipelines.batch import expect_copies, local_digest, plan_run, refuse_changes, run_pipeline
    from frazil.pipelines.sources import KafkaSource

    name = pipeline.name
    if isinstance(pipeline.source, KafkaSource):
        from frazil.cli.stream import run_once, show_waiting

        if dry_run:
            show_waiting(context, project, pipeline, output=output)
        else:
            run_once(context, project, pipeline, adopt=adopt, output=output)
        return
    listed = pipeline.files.list_files(project.folder, catalog_properties(context.settings))
    if not listed:
        nothing = f"{name}: no file matches '{pipeline.files.pattern}' in {project.folder}; {pipeline.target.name} is "
        nothing += "unchanged"
        _print_result(RunResult(name, pipeline.target.name), nothing, output, dry_run=dry_run)
        return
    catalog = context.announce()
    plan = plan_run(pipeline, catalog, project.folder, listed, env=env)
    arrived = plan.arrived
    if not arrived.files:  # Spark takes seconds to start: not for nothing
        result = RunResult(name, pipeline.target.name, touched=tuple(file.path for file in arrived.touched))
        _print_result(result, describe(result), output, dry_run=dry_run)
    elif dry_run:
        copies = expect_copies(arrived, local_digest(project.folder))
        if output == "json":
            print_json(pending_as_json(pipeline, arrived, copies))
        else:
            echo(describe_files(pipeline, arrived, copies))
    else:
        owner, adopts = ask_pipeline(context, project.folder, pipeline, adopt=adopt, tables=plan.tables)
        refuse_changes(pipeline, arrived, catalog, ref=env or "main")
        with pipeline_session(context, project, pipeline) as spark, spark_progress(spark, name, context.talk):
            result = run_pipeline(
                pipeline,
                spark=spark,
                catalog=catalog,
                folder=project.folder,
                owner=owner,
                adopt=adopts,
                plan=plan,
                env=env,
            )
        text = describe(result, env) + ("" if result.snapshot_id is None else f"\n{describe_counts(result)}")
        _print_result(result, text, output)


def _print_result(result: RunResult, text: str, output: str, *, dry_run: bool = False) -> None:
    if output == "json":
        print_json(result_as_json(result, dry_run=dry_run))
    else:
        echo(text)


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
    branch = f" (branch '{env}')" if env else ""
    return (
        f"{result.pipeline}: {result.rows:,} rows from {count(result.files, 'file')} are in {result.table}{branch}, "
        f"snapshot {result.snapshot_id}"
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
