"""Asks before a command writes to tables of another project."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from frazil.cli.context import Context
from frazil.cli.show import echo
from frazil.errors import OtherProject
from frazil.ownership import claim_tables, companions, existing_tables, ledgered, other_owners, project_name

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

    from frazil.pipelines import Pipeline

Command = TypeVar("Command", bound=Callable[..., Any])


def adopt_option(command: Command) -> Command:
    """`--adopt`, for commands that write to tables."""
    return click.option(
        "--adopt",
        is_flag=True,
        help="Take over tables that another project made; they are this project's from then on.",
    )(command)


def own_tables(context: Context, folder: Path, names: Sequence[Identifier], *, adopt: bool) -> str:
    """Makes the tables that exist belong to the project in `folder`, and gives its name.

    Tables without an owner become the project's. For tables of another project the user at the terminal is asked;
    their companion tables come with them.
    """
    project, others = _check(context, folder, names, adopt=adopt)
    taken = [name for other in others for name in companions(tuple(other.split(".")))]
    claim_tables(lambda: existing_tables(context.catalog, [*names, *taken]), project, context.catalog)
    return project


def ask_pipeline(
    context: Context, folder: Path, pipeline: Pipeline, *, adopt: bool, tables: Sequence[Table] | None = None
) -> tuple[str, bool]:
    """The name of the project, and whether it is to adopt the pipeline's tables. Changes nothing. `tables` are the
    table and its ledger, if they are loaded.

    Asks, or refuses, if the table or its ledger belongs to another project: here, before Spark starts. The run itself
    checks again.
    """
    project, others = _check(context, folder, ledgered(pipeline.target.identifier), adopt=adopt, tables=tables)
    return project, bool(others)


def _check(
    context: Context, folder: Path, names: Sequence[Identifier], *, adopt: bool, tables: Sequence[Table] | None = None
) -> tuple[str, Mapping[str, str]]:
    """The name of the project, and the owners of tables that it takes over."""
    project = project_name(context.settings, folder)
    others = other_owners(existing_tables(context.catalog, names) if tables is None else tables, project)
    if others and not adopt:
        _ask(others, project)
    return project, others


def _ask(others: Mapping[str, str], project: str) -> None:
    if not sys.stdin.isatty():
        raise OtherProject(project, others)
    for table, owner in others.items():
        echo(f"{table} belongs to project '{owner}', and this is '{project}'.", err=True)
    click.confirm("Write to it all the same, and make it this project's?", abort=True, err=True)
