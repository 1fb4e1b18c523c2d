"""`frazil audit`: the proof that every row came in exactly once, or what speaks against it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from frazil.cli.complete import complete_any_ref, complete_tables
from frazil.cli.context import Context
from frazil.cli.delta import delta_options, is_delta
from frazil.cli.show import OUTPUT, echo, to_json
from frazil.units import count

if TYPE_CHECKING:
    from frazil.sinks.audit import AuditReport, PartReport


@click.command()
@click.argument("table", shell_complete=complete_tables)
@click.option(
    "--ref",
    default="main",
    shell_complete=complete_any_ref,
    show_default=True,
    help="A branch or tag: the commits that lead to it.",
)
@click.option("--delta", is_flag=True, help="TABLE is the folder or address of a Delta table.")
@OUTPUT
@click.pass_obj
def audit(context: Context, table: str, ref: str, delta: bool, output: str) -> None:
    """Prove that every row of a table's sinks is in exactly once.

    Walks over the kept commits and checks that the ranges which the sinks have consumed abut and never overlap, down to
    a base that is named. Ends with 0 if that is so, and with 1 if something speaks against it.
    """
    report = _audit(context, table, ref, delta)
    if output == "json":
        echo(to_json({"table": table, "ref": ref, "clean": not report.problems, **asdict(report)}))
    else:
        echo("\n".join(describe(table, report)))
    sys.exit(1 if report.problems else 0)


def _audit(context: Context, table: str, ref: str, delta: bool) -> AuditReport:
    from frazil.sinks.audit import audit as audit_table
    from frazil.sinks.audit import audit_delta

    if is_delta(table, delta):
        if ref != "main":
            raise click.UsageError("a Delta table has no branches: --ref is for Iceberg tables")
        return audit_delta(table, delta_options(context.settings, table))
    from frazil.lake import Lake

    return audit_table(Lake(context.settings, catalog=context.catalog).load(table).metadata, ref)


def describe(table: str, report: AuditReport) -> Iterator[str]:
    """The report for people: the verdict first, then what is proved of each part, then what was seen on the way."""
    if not report.parts and not report.problems:
        yield f"{table}: no sink has written to it; there is nothing to prove"
        return
    verdict = (
        f"{count(len(report.problems), 'problem')}"
        if report.problems
        else "every range follows the one before; none overlap"
    )
    since = "from the first one on" if report.from_first else "the older ones have expired"
    yield f"{table}: {verdict}"
    yield f"{count(report.commits, 'commit')} of sinks and {count(report.others, 'other')} were looked at, {since}"
    for part in report.parts:
        yield f"  {part.part}: {count(part.commits, 'commit')} that consumed" + (
            f"; {part.finished:,} finished" if part.finished else ""
        )
        yield from (f"    {line}" for line in _ranges(part))
    for title, texts in (("problems", report.problems), ("notes", report.notes)):
        if texts:
            yield f"{title}:"
            yield from (f"  {text}" for text in texts)


def _ranges(part: PartReport) -> Iterator[str]:
    """
    >>> from frazil.sinks.audit import PartReport
    >>> list(_ranges(PartReport("s/part-0", 2, {"events/0": 120}, {"events/0": 900, "events/1": 7})))
    ['events/0: 120 -> 900', 'events/1: its beginning -> 7']
    """
    for source in sorted({*part.base, *part.reached}):
        yield f"{source}: {_at(part.base, source, 'its beginning')} -> {_at(part.reached, source, 'finished')}"


def _at(offsets: Mapping[str, int], source: str, otherwise: str) -> str:
    return str(offsets[source]) if source in offsets else otherwise
