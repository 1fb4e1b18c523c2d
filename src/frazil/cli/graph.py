"""`graph`: pipelines and models, what they read, and the columns that they make of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from frazil.cli.complete import complete_selectors
from frazil.cli.show import echo, output_option, print_json
from frazil.project import Project, load_project

if TYPE_CHECKING:
    from frazil.pipelines.graph import Lineage


@click.command()
@click.argument("selectors", nargs=-1, metavar="[SELECTOR]...", shell_complete=complete_selectors)
@click.option(
    "--exclude", multiple=True, metavar="SELECTOR", shell_complete=complete_selectors, help="Leave these out."
)
@click.option("--columns", is_flag=True, help="Show from which columns those of models are computed.")
@output_option("text", "mermaid", "dot", "json")
def graph(selectors: Sequence[str], exclude: Sequence[str], columns: bool, output: str) -> None:
    """Show what pipelines and models read and fill, in their order.

    A SELECTOR is the name of a pipeline, model or table, or a pattern (gold.*); +NAME adds what it depends on, NAME+
    what depends on it, 1+NAME+2 up to so many steps; tag:NAME and group:NAME select by label; A,B is what both select.
    """
    from frazil.pipelines.graph import as_dot, as_json, as_mermaid, as_text, select

    project = load_project(Path.cwd())
    whole = project.graph
    chosen = whole.part(select(whole, selectors, exclude))
    lineage = _lineage(project) if columns else None
    if output == "json":
        print_json(as_json(whole, chosen, lineage))
    elif output == "text":
        echo(as_text(chosen, lineage) or "nothing is selected")
    else:
        echo(as_mermaid(chosen) if output == "mermaid" else as_dot(chosen))


def _lineage(project: Project) -> dict[str, Lineage]:
    if not project.models:
        return {}  # sqlglot may not be installed
    from frazil.pipelines.graph import trace_columns

    return trace_columns(project.graph, project.models, project.tables)
