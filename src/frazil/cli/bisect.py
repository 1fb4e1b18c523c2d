"""`frazil bisect`: the first snapshot of a table that fails a check."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.complete import complete_any_ref, complete_tables
from frazil.cli.context import Context
from frazil.cli.log import as_json as entry_as_json
from frazil.cli.origins import describe_entry, describe_origins, describe_values, origins_as_json
from frazil.cli.show import OUTPUT, REFERENCE, echo, print_json
from frazil.units import count, size

if TYPE_CHECKING:
    from frazil.history import Bisection, BisectStep, Culprit, FoundRow

NOT_FOUND = 3  # exit code
EVERY = 100  # steps between notes, when all snapshots are checked


@click.command()
@click.argument("table", shell_complete=complete_tables)
@click.option(
    "--check",
    "checks",
    multiple=True,
    required=True,
    metavar="SQL",
    help="A condition that rows must meet, or a query that finds wrong rows: SELECT ... FROM {table} ... "
    "Several: a row must meet all of them.",
)
@click.option(
    "--good",
    metavar="REFERENCE",
    shell_complete=complete_any_ref,
    help=f"A state that passes: {REFERENCE}. The oldest snapshot that is kept, unless given.",
)
@click.option(
    "--bad",
    metavar="REFERENCE",
    shell_complete=complete_any_ref,
    help="A state that fails; that of --ref unless given.",
)
@click.option(
    "--ref",
    default="main",
    shell_complete=complete_any_ref,
    show_default=True,
    help="A branch or tag: its history is searched.",
)
@click.option("--all", "everything", is_flag=True, help="Check every snapshot, and list each one where it changes.")
@click.option(
    "--samples", type=click.IntRange(min=0), default=5, show_default=True, help="How many wrong rows to show."
)
@OUTPUT
@click.pass_obj
def bisect(
    context: Context,
    table: str,
    checks: tuple[str, ...],
    good: str | None,
    bad: str | None,
    ref: str,
    everything: bool,
    samples: int,
    output: str,
) -> None:
    """Find the first snapshot of a table that fails a check.

    A binary search along the history of a branch: about log2(n) of n snapshots are checked, by the statistics of data
    files first. It assumes that the check changes once; --all does not. The exit code is 0 if a snapshot was found, and
    3 if not.
    """
    from frazil.lake import Lake

    def note(step: BisectStep) -> None:
        if not everything or step.number % EVERY == 0:
            verdict = "fails" if step.fails else "passes"
            context.talk.note(f"snapshot {step.snapshot_id} ({step.number} of {step.total}) {verdict}")

    live = Lake(context.settings, catalog=context.catalog).table(table)
    result = live.bisect(checks, ref=ref, good=good, bad=bad, all=everything, samples=samples, on_step=note)
    if output == "json":
        print_json(as_json(result))
    else:
        for line in describe(result):
            echo(line)
    if result.outcome != "found":
        sys.exit(NOT_FOUND)


def describe(result: Bisection) -> Iterator[str]:
    """The result for people: the verdict, the snapshot, its rows, what it took, and what to do next."""
    checks = " AND ".join(f"({check})" for check in result.checks) if len(result.checks) > 1 else result.checks[0]
    if result.outcome == "passes":
        where = "every snapshot passes" if result.flips is not None else f"snapshot {result.bad.snapshot_id} passes"
        yield f"{result.table}: {where}: {checks}"
    elif result.culprit is not None:
        verdict = (
            "is the first that fails" if result.outcome == "found" else "is the oldest to look at, and fails already"
        )
        yield f"{result.table}: snapshot {result.culprit.entry.snapshot_id} {verdict}: {checks}"
        yield from (f"  {line}" for line in _describe_culprit(result.culprit))
    for flip in result.flips or ():
        yield f"  {'fails' if flip.fails else 'passes'} from {describe_entry(flip.entry)}"
    for source in result.sources:
        state = "" if source.is_kept else " (expired)"
        yield f"  rows that fail are in files that were added by snapshot {source.snapshot_id}{state}"
        yield from (f"    {line}" for line in describe_origins(source.origins))
    yield from (f"  {note}" for note in result.notes)
    yield f"  {_describe_effort(result)}"
    if commands := result.commands():
        yield "  next:"
        yield from (f"    {command}" for command in commands)


def _describe_culprit(culprit: Culprit) -> Iterator[str]:
    yield describe_entry(culprit.entry)
    yield from (f"  {line}" for line in describe_origins(culprit.origins))
    yield f"{count(culprit.bad_rows, 'row')} {'fails' if culprit.bad_rows == 1 else 'fail'}" + (
        ":" if culprit.samples else ""
    )
    yield from (f"  {_describe_row(row)}" for row in culprit.samples)
    if culprit.samples and (hidden := culprit.bad_rows - len(culprit.samples)) > 0:
        yield f"  ... and {hidden:,} more (--samples)"


def _describe_row(row: FoundRow) -> str:
    place = "" if row.file is None else f"  ({row.file}, row {row.position})"
    return describe_values(row.values) + place


def _describe_effort(result: Bisection) -> str:
    effort = result.effort
    files = [f"{count(effort.by_statistics, 'file')} by statistics"] if effort.by_statistics else []
    files += [f"{count(effort.known, 'file')} read before"] if effort.known else []
    files += [f"{count(effort.files_read, 'file')} read ({size(effort.bytes_read)})"]
    return f"checked {effort.snapshots:,} of {count(result.snapshots, 'snapshot')}: {', '.join(files)}"


def as_json(result: Bisection) -> dict[str, Any]:
    """The same for programs: docs/cli-json.md has its shape."""
    return {
        "table": result.table,
        "ref": result.ref,
        "checks": list(result.checks),
        "outcome": result.outcome,
        "good": None if result.good is None else entry_as_json(result.good),
        "bad": entry_as_json(result.bad),
        "culprit": None if result.culprit is None else _culprit_as_json(result.culprit),
        "flips": None
        if result.flips is None
        else [{"snapshot": entry_as_json(flip.entry), "fails": flip.fails} for flip in result.flips],
        "added_by": [
            {"snapshot_id": source.snapshot_id, "is_kept": source.is_kept, "origins": origins_as_json(source.origins)}
            for source in result.sources
        ],
        "notes": list(result.notes),
        "snapshots": result.snapshots,
        "effort": asdict(result.effort),
        "commands": list(result.commands()),
    }


def _culprit_as_json(culprit: Culprit) -> dict[str, Any]:
    return {
        "snapshot": entry_as_json(culprit.entry),
        "summary": dict(culprit.summary),
        "origins": origins_as_json(culprit.origins),
        "bad_rows": culprit.bad_rows,
        "samples": [asdict(row) for row in culprit.samples],
    }
