"""`drift`: what someone changed by hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from frazil.cli.context import Context
from frazil.cli.project import choose_tables, exit_codes, outcome_options
from frazil.project import load_project


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@outcome_options
@click.pass_obj
def drift(context: Context, tables: Sequence[str], detailed_exitcode: bool, output: str) -> None:
    """Show what someone changed by hand since the last apply."""
    from frazil.tables.apply import find_table
    from frazil.tables.drift import find_drift

    with exit_codes(detailed_exitcode):
        chosen = choose_tables(load_project(Path.cwd()), tables)
        found = {table.name: find_drift(table, find_table(context.catalog, table.identifier)) for table in chosen}
    changed = {name: changes for name, changes in found.items() if changes}
    if output == "json":
        document = {name: [{"sign": c.sign, "about": c.about[0], "text": c.text} for c in changes] for name, changes in changed.items()}
        click.echo(json.dumps({"tables": document}, indent=2))
    else:
        lines = [line for name, changes in changed.items() for line in (name, *(f"    {change}" for change in changes))]
        click.echo("\n".join(lines) or "no drift: nobody changed a declared table by hand")
    sys.exit(2 if detailed_exitcode and changed else 0)
