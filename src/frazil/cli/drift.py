"""`drift`: what someone changed by hand."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from frazil.cli.complete import complete_tables
from frazil.cli.context import Context
from frazil.cli.models import with_model_tables
from frazil.cli.project import choose_tables, exit_codes, outcome_options
from frazil.cli.show import echo, print_json
from frazil.project import load_project

if TYPE_CHECKING:
    from frazil.tables import Change


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE]...", shell_complete=complete_tables)
@outcome_options
@click.pass_obj
def drift(context: Context, tables: Sequence[str], detailed_exitcode: bool, output: str) -> None:
    """Show what was changed by hand since the last apply."""
    from frazil.tables import all_of, find_drift, find_tables, open_grants

    with exit_codes(detailed_exitcode):
        chosen = choose_tables(with_model_tables(context, load_project(Path.cwd())), tables)
        loaded = list(zip(chosen, find_tables(context.catalog, [table.identifier for table in chosen]), strict=True))
        errors = {table.name: live for table, live in loaded if isinstance(live, Exception)}
        drifts = {table.name: find_drift(table, live) for table, live in loaded if not isinstance(live, Exception)}
        grants = open_grants(chosen, context.catalog)
        for table, live in loaded:
            if not isinstance(live, Exception):
                drifts[table.name] += grants.drift(table, exists=live is not None)
        changed = {name: changes for name, changes in drifts.items() if changes}
        _show(changed, output, all_loaded=not errors)
        if grants.note:
            echo(f"note: {grants.note}", err=True)
        if errors:
            raise all_of(errors)
    sys.exit(2 if detailed_exitcode and changed else 0)


def _show(changed: Mapping[str, Sequence[Change]], output: str, *, all_loaded: bool) -> None:
    if output == "json":
        document = {
            name: [{"sign": c.sign, "about": c.about[0], "text": c.text} for c in changes]
            for name, changes in changed.items()
        }
        print_json({"tables": document})
        return
    lines = [line for name, changes in changed.items() for line in (name, *(f"    {change}" for change in changes))]
    if lines or all_loaded:
        echo("\n".join(lines) or "no drift: no declared table was changed by hand")
