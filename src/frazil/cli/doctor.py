"""`frazil doctor`: what this machine has, and what to do about what it lacks."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from frazil.cli.context import Context
from frazil.services import Check, examine

_SIGNS = {"ok": Text("✓", "green"), "note": Text("!", "yellow"), "broken": Text("✗", "red")}


@click.command()
@click.pass_context
def doctor(click_context: click.Context) -> None:
    """Check this machine, the catalog and the local servers."""
    context: Context = click_context.obj
    checks = list(examine(context.settings))
    console = Console()
    (console if console.is_terminal else Console(width=240)).print(_table(checks))
    broken = [check for check in checks if check.state == "broken"]
    for check in broken:
        click.echo(f"broken: {check.section.lower()}, {check.subject}: {check.detail}\n   try: {check.fix}")
    click.echo(f"{len(broken)} broken, {sum(check.state == 'note' for check in checks)} to know, {len(checks)} checked")
    click_context.exit(1 if broken else 0)


def _table(checks: list[Check]) -> Table:
    table = Table("", "", "", "found", box=None, header_style="bold", show_header=False, padding=(0, 1))
    section = ""
    for check in checks:
        text = Text(check.detail)
        if check.fix:
            text.append(f"\n→ {check.fix}", "cyan")
        table.add_row(
            Text("" if check.section == section else check.section, "bold"), _SIGNS[check.state], check.subject, text
        )
        section = check.section
    return table
