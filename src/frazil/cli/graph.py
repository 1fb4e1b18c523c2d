"""`graph`: pipelines and models, what they read, and the columns that they make of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from frazil.cli.complete import complete_selectors
from frazil.cli.context import Context
from frazil.cli.show import echo, output_option, print_json
from frazil.project import Project, load_project

if TYPE_CHECKING:
    from frazil.pipelines import Pipeline
    from frazil.pipelines.graph import Lineage, NodeState
    from frazil.pipelines.models import Model


@click.command()
@click.argument("selectors", nargs=-1, metavar="[SELECTOR]...", shell_complete=complete_selectors)
@click.option(
    "--exclude", multiple=True, metavar="SELECTOR", shell_complete=complete_selectors, help="Leave these out."
)
@click.option("--columns", is_flag=True, help="Show from which columns those of models are computed.")
@click.option("--state", is_flag=True, help="Show what is out of date, why, since when, and the last run of each.")
@click.option("--env", metavar="NAME", help="With --state: look at the branches of an environment.")
@output_option("text", "mermaid", "dot", "json")
@click.pass_obj
def graph(
    context: Context,
    selectors: Sequence[str],
    exclude: Sequence[str],
    columns: bool,
    state: bool,
    env: str | None,
    output: str,
) -> None:
    """Show what pipelines and models read and fill, in their order.

    A SELECTOR is the name of a pipeline, model or table, or a pattern (gold.*); +NAME adds what it depends on, NAME+
    what depends on it, 1+NAME+2 up to so many steps; tag:NAME and group:NAME select by label; A,B is what both select.
    """
    from frazil.pipelines.graph import as_dot, as_json, as_mermaid, as_text, select

    project = load_project(Path.cwd())
    whole = project.graph
    chosen = whole.part(select(whole, selectors, exclude))
    lineage = _lineage(project) if columns else None
    if (state and output in ("mermaid", "dot")) or (env is not None and not state):
        raise click.UsageError("--state is for --output text and json, and --env for --state")
    states = _states(context, project, env) if state else None
    if output == "json":
        print_json(as_json(whole, chosen, lineage, states))
    elif output == "text":
        echo(as_text(chosen, lineage, states) or "nothing is selected")
    else:
        echo(as_mermaid(chosen) if output == "mermaid" else as_dot(chosen))


def _states(context: Context, project: Project, env: str | None) -> dict[str, NodeState]:
    """The states of all nodes: one that is not selected may be why another one is out of date."""
    from frazil.client import catalog_properties
    from frazil.history import check_environment
    from frazil.pipelines.graph import StateFinder

    if env is not None:
        check_environment(env)
    every: list[Pipeline | Model] = [*project.pipelines, *project.models]
    declared = {each.name: each for each in every}
    now_ms = int(time.time() * 1000)
    io_properties = catalog_properties(context.settings)
    finder = StateFinder(project.graph, declared, context.catalog, project.folder, now_ms, env, io_properties)
    return finder.find()


def _lineage(project: Project) -> dict[str, Lineage]:
    if not project.models:
        return {}  # sqlglot may not be installed
    from frazil.pipelines.graph import trace_columns

    return trace_columns(project.graph, project.models, project.tables)
