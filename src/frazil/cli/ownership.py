"""Asks before a command writes to tables of another project."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from frazil.cli.context import Context
from frazil.errors import OtherProject
from frazil.ownership import claim_tables, other_owners, project_name

if TYPE_CHECKING:
    from pyiceberg.table import Table as LiveTable
    from pyiceberg.typedef import Identifier

    from frazil.pipelines.declare import Pipeline

Command = TypeVar("Command", bound=Callable[..., Any])


def adopt_option(command: Command) -> Command:
    """`--adopt`, for commands that write to tables."""
    return click.option("--adopt", is_flag=True, help="Take over tables that another project made; they are this project's from then on.")(
        command
    )


def own_tables(context: Context, folder: Path, names: Sequence[Identifier], *, adopt: bool) -> str:
    """Makes the tables that exist belong to the project in `folder`, and gives its name.

    Tables without an owner become the project's. For tables of another project somebody at the terminal is asked;
    their companion tables come with them.
    """
    project, others = _check(context, folder, names, adopt=adopt)
    taken = [name for other in others for name in _companions(tuple(other.split(".")))]
    claim_tables(lambda: _existing(context, [*names, *taken]), project, context.catalog)
    return project


@dataclass
class PipelineOwner:
    """The project that a pipeline runs for. `claim` makes the pipeline's tables belong to it."""

    context: Context
    project: str
    tables: Sequence[Identifier]
    is_claimed: bool = False

    def claim(self) -> None:
        """To be called before the first write; later calls do nothing."""
        if not self.is_claimed:
            claim_tables(lambda: _existing(self.context, self.tables), self.project, self.context.catalog)
            self.is_claimed = True


def check_pipeline(context: Context, folder: Path, pipeline: Pipeline, *, adopt: bool) -> PipelineOwner:
    """Asks, or refuses, if a pipeline's table or ledger belongs to another project. Changes nothing."""
    from frazil.pipelines.ledger import ledger_of

    target = pipeline.target.identifier
    project, _ = _check(context, folder, [target, ledger_of(pipeline.target).identifier], adopt=adopt)
    return PipelineOwner(context, project, [target, *_companions(target)])


def _check(context: Context, folder: Path, names: Sequence[Identifier], *, adopt: bool) -> tuple[str, Mapping[str, str]]:
    """The name of the project, and the owners of tables that it takes over."""
    project = project_name(context.settings, folder)
    others = other_owners(_existing(context, names), project)
    if others and not adopt:
        _ask(others, project)
    return project, others


def _existing(context: Context, names: Sequence[Identifier]) -> list[LiveTable]:
    from pyiceberg.table import Table

    from frazil.tables.apply import find_tables

    return [table for table in find_tables(context.catalog, names) if isinstance(table, Table)]


def _companions(target: Identifier) -> list[Identifier]:
    """The names of the tables that Frazil keeps for a table."""
    return [(*target[:-1], f"{target[-1]}__{kind}") for kind in ("ledger", "runs", "quarantine")]


def _ask(others: Mapping[str, str], project: str) -> None:
    if not sys.stdin.isatty():
        raise OtherProject(project, others)
    for table, owner in others.items():
        click.echo(f"{table} belongs to project '{owner}', and this is '{project}'.", err=True)
    click.confirm("Write to it all the same, and make it this project's?", abort=True, err=True)
