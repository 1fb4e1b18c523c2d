"""`frazil doctor`: what this machine has, and what to do about what it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import groupby

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from frazil.cli.context import Context
from frazil.cli.show import OUTPUT, echo, print_json
from frazil.services import Check, examine
from frazil.terminal import visible

MOST_LINES = 20
SIGNS = {"ok": "✓", "note": "!", "broken": "✗"}
_COLOURS = {"ok": "green", "note": "yellow", "broken": "red"}
_WORST_FIRST = ("broken", "note", "ok")
_TELLING = ("Python", "Disk", "Cache", "Catalog")  # sections of which one check says what there is to know


@click.command()
@OUTPUT
@click.pass_context
def doctor(click_context: click.Context, output: str) -> None:
    """Check this machine, the catalog and the local servers.

    Python, extras, Java, disks, ports, cache, services, and what answers at catalog.uri. Prints a line per section and
    how to repair what is broken; with -v, every check.
    """
    context: Context = click_context.obj
    checks = list(examine(context.settings))
    counts = {"broken": _count(checks, "broken"), "notes": _count(checks, "note")}
    if output == "json":
        print_json({"checks": [asdict(check) for check in checks], **counts})
    else:
        _print(list(map(_printable, checks)), every=bool(context.talk.verbosity))
    click_context.exit(1 if counts["broken"] else 0)


def _print(checks: Sequence[Check], *, every: bool) -> None:
    if every:
        _console().print(_table(checks))
        echo("\n".join([*_broken(checks), _last_line(checks)]))
        return
    for line in summarise(checks):
        _console().print(line, soft_wrap=True)


def _printable(check: Check) -> Check:
    """The check without control characters: it may quote what a server or a file says."""
    return replace(check, detail=visible(check.detail), fix=visible(check.fix) if check.fix else None)


def summarise(checks: Sequence[Check], *, most_lines: int = MOST_LINES) -> list[Text]:
    """A line per section, then what is broken, then as many notes as there is room for."""
    lines = [_section_line(name, list(some)) for name, some in groupby(checks, key=lambda check: check.section)]
    lines += [Text(line, "red") for text in _broken(checks) for line in text.split("\n")]
    notes = [check for check in checks if check.state == "note"]
    room = max(most_lines - len(lines) - 1, 0)
    shown = notes if len(notes) <= room else notes[: max(room - 1, 0)]
    lines += [_note_line(check) for check in shown]
    if len(shown) < len(notes) and room:
        lines.append(Text(f"  and {len(notes) - len(shown)} more to know: frazil doctor -v"))
    return [*lines[: most_lines - 1], Text(_last_line(checks))]


def _section_line(name: str, checks: Sequence[Check]) -> Text:
    state = next(state for state in _WORST_FIRST if any(check.state == state for check in checks))
    fine = [check for check in checks if check.state == "ok"]
    facts = [check.detail for check in fine[: 2 if name == "Disk" else 1]] if name in _TELLING else []
    if name == "Services":
        facts = [f"{check.subject} {check.detail.rpartition(', ')[2]}" for check in fine]
    facts = facts or list(dict.fromkeys(check.subject for check in fine)) or ["see below"]
    line = Text(f"{SIGNS[state]} ", _COLOURS[state])
    return line.append(f"{name:<9}", "bold").append(", ".join(facts), "default")


def _note_line(check: Check) -> Text:
    line = Text(f"{SIGNS['note']} ", _COLOURS["note"]).append(f"{check.section.lower()}, {check.subject}: ", "default")
    line.append(check.detail, "default")
    return line.append(f" → {check.fix}", "cyan") if check.fix else line


def _broken(checks: Sequence[Check]) -> Iterator[str]:
    for check in checks:
        if check.state == "broken":
            yield f"broken: {check.section.lower()}, {check.subject}: {check.detail}\n   try: {check.fix}"


def _last_line(checks: Sequence[Check]) -> str:
    return f"{_count(checks, 'broken')} broken, {_count(checks, 'note')} to know, {len(checks)} checked"


def _count(checks: Sequence[Check], state: str) -> int:
    return sum(check.state == state for check in checks)


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=240)


def _table(checks: Sequence[Check]) -> Table:
    table = Table("", "", "", "found", box=None, header_style="bold", show_header=False, padding=(0, 1))
    section = ""
    for check in checks:
        text = Text(check.detail)
        if check.fix:
            text.append(f"\n→ {check.fix}", "cyan")
        sign = Text(SIGNS[check.state], _COLOURS[check.state])
        table.add_row(Text("" if check.section == section else check.section, "bold"), sign, check.subject, text)
        section = check.section
    return table
