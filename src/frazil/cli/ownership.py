"""Asks before a command writes to tables of another project."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from frazil.cli.context import Context
from frazil.errors import OtherProject
from frazil.ownership import claim_tables, other_owners, project_name

if TYPE_CHECKING:
    from pyiceberg.typedef import Identifier

    from frazil.pipelines.declare import Pipeline

Command = TypeVar("Command", bound=Callable[..., Any])


def adopt_option(command: Command) -> Command:
    """`--adopt`, for commands that write to tables."""
    return click.option("--adopt", is_flag=True, help="Take over tables that another project made; they are this project's from then on.")(
        command
    )


def own_tables(context: Context, folder: Path, names: Sequence[Identifier], *, adopt: bool) -> str:
    """Makes sure that the tables that exist belong to the project in `folder`, and gives its name.

    Tables without an owner become the project's. For tables of another project somebody at the terminal is asked.
    """
    from pyiceberg.table import Table as LiveTable

    from frazil.tables.apply import find_tables

    project = project_name(context.settings, folder)
    tables = [table for table in find_tables(context.catalog, names) if isinstance(table, LiveTable)]
    others = other_owners(tables, project)
    if others and not adopt:
        _ask(others, project)
    claim_tables(tables, project, context.catalog)
    return project


def own_pipeline(context: Context, folder: Path, pipeline: Pipeline, *, adopt: bool) -> str:
    """The same for the table of a pipeline and its ledger."""
    from frazil.pipelines.ledger import ledger_of

    return own_tables(context, folder, [pipeline.target.identifier, ledger_of(pipeline.target).identifier], adopt=adopt)


def _ask(others: Mapping[str, str], project: str) -> None:
    if not sys.stdin.isatty():
        raise OtherProject(project, others)
    for table, owner in others.items():
        click.echo(f"{table} belongs to project '{owner}', and this is '{project}'.", err=True)
    click.confirm("Write to it all the same, and make it this project's?", abort=True, err=True)
