"""`plan` and `apply`: what `lakehouse.py` declares, made true."""

from __future__ import annotations

from pathlib import Path

import click

from frazil.cli.context import Context
from frazil.project import load_project


@click.command()
@click.pass_obj
def plan(context: Context) -> None:
    """Show what apply would change."""
    from frazil.tables.apply import plan as plan_table

    project = load_project(Path.cwd())
    steps = list(dict.fromkeys(str(step) for table in project.tables for step in plan_table(table, context.catalog)))
    click.echo("\n".join(steps) if steps else f"no changes: {len(project.tables)} declared tables are as declared")


@click.command()
@click.pass_obj
def apply(context: Context) -> None:
    """Make the live tables what lakehouse.py declares."""
    from frazil.tables.apply import apply_steps
    from frazil.tables.apply import plan as plan_table

    project = load_project(Path.cwd())
    changed = False
    for table in project.tables:
        for step in apply_steps(plan_table(table, context.catalog), context.catalog):
            changed = True
            click.echo(str(step))
    if not changed:
        click.echo(f"no changes: {len(project.tables)} declared tables are as declared")
