"""`run` over models and pipelines: what is out of date, in order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frazil.cli.context import Context
from frazil.cli.ownership import own_tables
from frazil.cli.progress import spark_progress, starting_spark
from frazil.cli.run_result import result_as_json
from frazil.cli.show import echo, print_json
from frazil.cli.spark import spark_log
from frazil.pipelines import Pipeline, RunResult
from frazil.pipelines.models import Action, Decision, Derivation, GraphRun, Outlook, foresee, split_units
from frazil.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class GraphOptions:
    """How a graph is run."""

    dry_run: bool = False
    atomic: bool = False
    full_refresh: bool = False
    adopt: bool = False
    output: str = "text"
    env: str | None = None


def run_graph(
    context: Context, project: Project, derivations: Sequence[Derivation], options: GraphOptions
) -> list[RunResult]:
    """Runs derivations that are in order, and prints what became of each."""
    catalog = context.announce()
    refreshed = frozenset(each.name for each in derivations) if options.full_refresh else frozenset[str]()
    expected = foresee(derivations, catalog, full_refresh=refreshed, env=options.env)
    if options.dry_run or not any(outlook.does_something for outlook in expected):
        _print_outlook(expected, options)
        return []
    identifiers = [outlook.derivation.identifier for outlook in expected if outlook.does_something]
    owner = own_tables(context, project.folder, identifiers, adopt=options.adopt)
    results: list[RunResult] = []
    with ExitStack() as stack:
        spark = _start(context, project, stack)
        for unit in split_units(derivations, together=options.atomic):
            name = unit[0].name if len(unit) == 1 else f"{unit[0].name} and {len(unit) - 1} more"
            run = GraphRun(
                unit,
                spark,
                catalog,
                project.folder,
                owner=owner,
                full_refresh=refreshed,
                env=options.env,
                on_step=lambda step, decision: _tell(context, step, decision),
            )
            with spark_progress(spark, name, context.talk):
                done = run.run_together()
            results += done
            if options.output == "text":
                for result in done:
                    echo(describe_result(result, options.env))
    if options.output == "json":
        print_json({"results": [result_as_json(result) for result in results]})
    return results


def _start(context: Context, project: Project, stack: ExitStack) -> SparkSession:
    from frazil.spark import spark_session

    with starting_spark("run", context.talk):
        return stack.enter_context(
            spark_session(
                context.settings,
                app_name="frazil run",
                log=spark_log(context),
                project=project.folder,
                tell=lambda line: context.talk.note(f"run: {line}"),
            )
        )


def _tell(context: Context, name: str, decision: Decision) -> None:
    if decision.does_something:
        context.talk.note(f"{name}: {decision.action.value}: {decision.reason}")


def describe_result(result: RunResult, env: str | None = None) -> str:
    """A result in lines.

    >>> describe_result(RunResult("gold.revenue", "gold.revenue"))
    'gold.revenue: is up to date'
    """
    if result.snapshot_id is None:
        return f"{result.pipeline}: is up to date"
    rows = f"{result.pipeline}: {result.rows:,} rows"
    changed = "" if result.inserted is None else f" ({result.inserted:,} new, {result.deleted or 0:,} deleted)"
    where = f"{result.table}{on_branch(env)}, snapshot {result.snapshot_id}"
    return f"{rows}{changed} are in {where}, in {result.seconds:.1f} s"


def on_branch(env: str | None) -> str:
    """Where the rows are, after the name of the table.

    >>> on_branch("dev"), on_branch(None)
    (" (branch 'dev')", '')
    """
    return f" (branch '{env}')" if env else ""


def _print_outlook(expected: Sequence[Outlook], options: GraphOptions) -> None:
    if options.output == "json":
        print_json({"dry_run": options.dry_run, "models": [_as_json(outlook) for outlook in expected]})
        return
    for outlook in expected:
        echo(describe_outlook(outlook))


def describe_outlook(outlook: Outlook) -> str:
    """What would be done about a derivation, and why, in a line."""
    name, decision = outlook.derivation.name, outlook.decision
    if not decision.does_something:
        return f"{name}: is up to date: {decision.reason}"
    return f"{name}: would {decision.action.value}: {decision.reason}"


def _as_json(outlook: Outlook) -> dict[str, Any]:
    derivation, decision = outlook.derivation, outlook.decision
    return {
        "name": derivation.name,
        "table": derivation.target,
        "mode": derivation.mode,
        "action": "nothing" if decision.action is Action.NOTHING else decision.action.value,
        "reason": decision.reason,
    }


def is_loader(pipeline: Pipeline) -> bool:
    """Whether a pipeline loads files or a topic, and not tables."""
    return not pipeline.inputs
