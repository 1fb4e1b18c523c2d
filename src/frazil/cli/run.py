"""`run`: pipelines and models of a project, once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from frazil.cli.complete import complete_selectors
from frazil.cli.context import Context
from frazil.cli.ownership import adopt_option
from frazil.cli.progress import spark_progress
from frazil.cli.run_files import Load, describe_load, plan_load
from frazil.cli.run_result import Report, RunOptions, result_as_json
from frazil.cli.show import OUTPUT
from frazil.cli.spark import project_session
from frazil.errors import FrazilError, ProjectError
from frazil.openlineage import lineage_events
from frazil.pipelines import Pipeline
from frazil.project import Project, load_project

if TYPE_CHECKING:
    from frazil.pipelines.models import Days, Derivation, Model

DAY = click.DateTime(["%Y-%m-%d"])


@click.command()
@click.argument("names", nargs=-1, metavar="[SELECTOR]...", shell_complete=complete_selectors)
@click.option("--dry-run", is_flag=True, help="Say what would be loaded or computed, and why; change nothing.")
@click.option("--atomic", is_flag=True, help="Publish all tables that are computed in one commit, or none of them.")
@click.option("--full-refresh", is_flag=True, help="Compute the named tables from all rows of their inputs.")
@click.option("--since", type=DAY, metavar="DAY", help="Compute the partitions from this day on again.")
@click.option("--until", type=DAY, metavar="DAY", help="Compute the partitions up to this day again.")
@click.option("--env", metavar="NAME", help="Read and write the branches of an environment, and leave main alone.")
@click.option(
    "--threads", type=click.IntRange(min=1), help="How many tables to compute at the same time; default: spark.threads."
)
@adopt_option
@OUTPUT
@click.pass_obj
def run(
    context: Context,
    names: Sequence[str],
    dry_run: bool,
    atomic: bool,
    full_refresh: bool,
    since: dt.datetime | None,
    until: dt.datetime | None,
    env: str | None,
    threads: int | None,
    adopt: bool,
    output: str,
) -> None:
    """Load and compute what is new: pipelines and models, once.

    A SELECTOR is a pipeline, model or table, or a pattern (gold.*); +NAME adds what it depends on, NAME+ what depends
    on it; tag:NAME and group:NAME select by label. Without any, all run, in the order of the graph. A pipeline over
    Kafka is run only if it is named. If one fails, what depends on it is skipped; the others run.
    """
    project = load_project(Path.cwd())
    loaders, derivations = _choose(project, names)
    click.get_current_context().with_resource(lineage_events(project, lambda: context.catalog))
    if env is not None:
        check_env(env, loaders)
    if full_refresh and (loaders or not names):
        raise ProjectError(
            "--full-refresh is for models and pipelines over tables, by name",
            hint="frazil run NAME --full-refresh; files are loaded once",
            option="full-refresh",
        )
    days = _days(since, until, loaders, names, full_refresh=full_refresh)
    options = RunOptions(dry_run, atomic, full_refresh, adopt, threads or context.settings.spark.threads, env, days)
    report = Report(output, dry_run)
    try:
        _run_all(context, project, loaders, derivations, options, report)
    finally:
        if report.results or report.models:
            report.print_document(single=len(loaders) == 1 and not derivations)


def _days(
    since: dt.datetime | None,
    until: dt.datetime | None,
    loaders: Sequence[Pipeline],
    names: Sequence[str],
    *,
    full_refresh: bool,
) -> Days | None:
    """The days of a backfill; None if there is none."""
    if since is None and until is None:
        return None
    if full_refresh or loaders or not names or (since and until and since > until):
        raise ProjectError(
            "--since and --until compute partitions of models again, by name, and --since comes first",
            hint="frazil run gold.revenue --since 2024-01-01 --until 2024-01-31",
            option="since",
        )
    from frazil.pipelines.models import Days

    return Days(since.date() if since else None, until.date() if until else None)


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


def _run_all(
    context: Context,
    project: Project,
    loaders: Sequence[Pipeline],
    derivations: Sequence[Derivation],
    options: RunOptions,
    report: Report,
) -> None:
    """Loads in turn what waits in topics, then everything else side by side."""
    from frazil.pipelines.sources import KafkaSource

    of_topics = [loader for loader in loaders if isinstance(loader.source, KafkaSource)]
    for loader in of_topics:
        _run_stream(context, project, loader, options, report)
    loads, errors = list[Load](), dict[str, FrazilError]()
    for loader in loaders:
        if loader not in of_topics:
            try:
                load = plan_load(context, project, loader, report, options)
            except FrazilError as exc:
                if len(loaders) == 1 and not derivations:
                    raise
                errors[loader.name] = exc
            else:
                loads += [load] if load else []
    if derivations or errors or len(loads) > 1:
        from frazil.cli.run_graph import GraphCommand

        GraphCommand(context, project, options, report, loads, errors).run(derivations)
    elif loads:
        _run_load(context, project, loads[0], report, env=options.env)


def _run_load(context: Context, project: Project, load: Load, report: Report, *, env: str | None) -> None:
    name = load.pipeline.name
    with ExitStack() as stack:
        spark = stack.enter_context(project_session(context, project, name))
        stack.enter_context(spark_progress(spark, name, context.talk))
        result = load.run(spark)
    report.add(describe_load(result, env), result_as_json(result))


def _run_stream(context: Context, project: Project, pipeline: Pipeline, options: RunOptions, report: Report) -> None:
    from frazil.cli.stream import run_once, show_waiting

    if options.dry_run:
        report.add(*show_waiting(context, project, pipeline))
    else:
        report.add(*run_once(context, project, pipeline, adopt=options.adopt))
