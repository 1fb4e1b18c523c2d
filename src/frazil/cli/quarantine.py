"""`frazil quarantine`: rows that a table did not take; look at them, bring them in, give them up."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from frazil.cli.complete import complete_tables
from frazil.cli.context import Context
from frazil.cli.delta import delta_options, is_delta
from frazil.cli.show import OUTPUT, echo, print_rows, to_json
from frazil.protocol import QUARANTINE_SUFFIX
from frazil.terminal import visible
from frazil.units import count

if TYPE_CHECKING:
    from frazil.quarantine import DeltaQuarantine, HeldRow, Holding, IcebergQuarantine, ReplayResult, Rules

F = TypeVar("F", bound=Callable[..., Any])
DELTA = click.option("--delta", is_flag=True, help="The name is the folder or address of a Delta table.")
REASON = click.option("--reason", metavar="TEXT", help="Only rows whose reason has this text in it.")
PART = click.option("--part", help="Only rows of this part of a sink, such as uplink/part-0.")
SHOWN_ROWS = 20


@click.group()
def quarantine() -> None:
    """List, replay and drop rows that broke a table's contract."""


@quarantine.command("list")
@click.argument("name", required=False, shell_complete=complete_tables)
@DELTA
@OUTPUT
@click.pass_obj
def list_(context: Context, name: str | None, delta: bool, output: str) -> None:
    """Show what is in quarantine: how much, since when, why.

    NAME is a namespace, a table or a Delta table; without it, every table of the catalog.
    """
    holdings = _holdings(context, name, delta)
    if output == "json":
        echo(to_json([_holding_as_json(holding) for holding in holdings]))
        return
    if not holdings:
        echo(f"nothing was ever quarantined in {name or 'this catalog'}")
        return
    print_rows(
        ("table", "rows", "oldest (UTC)", "newest (UTC)", "reasons"), map(_holding_as_row, holdings), right=("rows",)
    )


@quarantine.command()
@click.argument("table", shell_complete=complete_tables)
@click.option("--limit", type=click.IntRange(min=1), help=f"Number of rows.  [default: {SHOWN_ROWS}; all as JSON]")
@REASON
@PART
@DELTA
@OUTPUT
@click.pass_obj
def show(
    context: Context, table: str, limit: int | None, reason: str | None, part: str | None, delta: bool, output: str
) -> None:
    """Print quarantined rows, the oldest first, with the reason and where they came from.

    With --output json they can be edited, and given to replay --from.
    """
    from frazil.quarantine import Choice

    rows = _open(context, table, delta).rows(Choice(reason, part))
    shown = rows[: limit or (len(rows) if output == "json" else SHOWN_ROWS)]
    if output == "json":
        echo(to_json([row.to_json() for row in shown]))
        return
    lines = [text for row in shown for text in (*_row_as_lines(row), "")]
    rest = f"; --limit shows more than {len(shown)}" if len(shown) < len(rows) else ""
    text = "\n".join([*lines, f"{table}: {count(len(rows), 'row')} in quarantine{rest}"])
    click.echo_via_pager(visible(text)) if len(lines) > 40 else echo(text)


@quarantine.command()
@click.argument("table", shell_complete=complete_tables)
@click.option(
    "--check",
    "checks",
    multiple=True,
    metavar="SQL",
    help="A condition to hold, such as 'amount >= 0'; may be repeated.",
)
@click.option(
    "--extra-fields",
    type=click.Choice(["error", "ignore"]),
    default="error",
    show_default=True,
    help="What to do with fields that the table does not have.",
)
@click.option(
    "--from",
    "file",
    type=click.File(),
    help="Replay the edited rows of a file that show --output json wrote.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be replayed, and change nothing.")
@click.option(
    "--append",
    is_flag=True,
    help="Also where the table is upserted by a key: rows are then added even if the table has rows of the same key.",
)
@REASON
@PART
@DELTA
@OUTPUT
@click.pass_obj
def replay(context: Context, /, table: str, output: str, **options: Any) -> None:
    """Bring in the quarantined rows that the table takes now.

    Rows are checked against the table's current types, the checks that lakehouse.py declares, and those of --check. If
    there are neither, the checks that rejected rows still hold. Rows that pass enter the table and leave the quarantine
    in one commit; the others remain, with the reason.
    """
    from frazil.quarantine import Choice, edited_rows

    file = options["file"]
    result = _open(context, table, options["delta"]).replay(
        _rules(table, options["checks"], options["extra_fields"], append=options["append"]),
        choice=Choice(options["reason"], options["part"]),
        edits=edited_rows(file.read(), name=file.name) if file else None,
        dry_run=options["dry_run"],
    )
    echo(to_json(_result_as_json(table, result)) if output == "json" else _result_as_text(table, result))


@quarantine.command()
@click.argument("table", shell_complete=complete_tables)
@click.option("--all", "everything", is_flag=True, help="All rows.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@REASON
@PART
@DELTA
@OUTPUT
@click.pass_obj
def drop(
    context: Context, /, table: str, everything: bool, yes: bool, delta: bool, output: str, **options: str | None
) -> None:
    """Give up quarantined rows; shows first which.

    They are gone from a new snapshot on; older snapshots hold them until they expire.
    """
    from frazil.quarantine import Choice

    choice = Choice(options["reason"], options["part"])
    if everything == bool(choice.reason or choice.part):
        raise click.UsageError("say which rows: --reason TEXT, --part PART, or --all")
    opened = _open(context, table, delta)
    preview = opened.drop(choice, dry_run=True)
    context.talk.note(f"{table}: {count(preview.dropped, 'row')} would be dropped" + _reasons(preview.reasons))
    dropped = 0
    if preview.dropped and output == "json" and not yes:
        raise click.UsageError("--output json does not ask: add --yes")
    if preview.dropped and (yes or click.confirm("drop them?", err=True)):
        dropped = opened.drop(choice).dropped
    if output == "json":
        echo(to_json({"table": table, "dropped": dropped}))
    elif dropped:
        older = (
            "versions hold them until a vacuum" if is_delta(table, delta) else "snapshots hold them until they expire"
        )
        echo(f"{table}: {count(dropped, 'row')} dropped; older {older}")


def _open(context: Context, name: str, delta: bool) -> IcebergQuarantine | DeltaQuarantine:
    """The quarantine of a table; the name of the quarantine table itself does as well."""
    name = name.rstrip("/").removesuffix(QUARANTINE_SUFFIX)
    if is_delta(name, delta):
        from frazil.quarantine import DeltaQuarantine

        return DeltaQuarantine(name, delta_options(context.settings, name))
    from frazil.lake import Lake
    from frazil.quarantine import IcebergQuarantine

    Lake(context.settings, catalog=context.catalog).load(name)  # its error names near ones
    return IcebergQuarantine(context.catalog, tuple(name.split(".")))


def _holdings(context: Context, name: str | None, delta: bool) -> list[Holding]:
    if name is not None and is_delta(name, delta):
        return [holding for holding in [_open(context, name, delta).holding()] if holding is not None]
    from frazil.lake import Lake
    from frazil.quarantine import IcebergQuarantine

    known = Lake(context.settings, catalog=context.catalog).table_names()
    plain = (name or "").removesuffix(QUARANTINE_SUFFIX)
    inside = [name_ for name_ in known if name is None or name_.startswith(f"{plain}.")]
    if name is not None and not inside and not context.catalog.namespace_exists(plain):
        return [holding for holding in [_open(context, plain, delta).holding()] if holding is not None]
    tables = [
        table_name.removesuffix(QUARANTINE_SUFFIX) for table_name in inside if table_name.endswith(QUARANTINE_SUFFIX)
    ]
    holdings = [IcebergQuarantine(context.catalog, tuple(table.split("."))).holding() for table in tables]
    return [holding for holding in holdings if holding is not None]


def _rules(table: str, checks: Sequence[str], extra_fields: Any, *, append: bool) -> Rules:
    """The checks that lakehouse.py declares for the table, and the given ones; unknown, if there are neither."""
    from frazil.project import FILE_NAME, load_project
    from frazil.quarantine import Rules

    declared = load_project(Path.cwd()).tables if (Path.cwd() / FILE_NAME).exists() else ()
    own = next(
        (tuple(getattr(declaration, "checks", ())) for declaration in declared if declaration.name == table), None
    )
    return Rules(None if own is None and not checks else (*(own or ()), *checks), extra_fields, append)


def _row_as_lines(row: HeldRow) -> list[str]:
    shown = row.to_json()
    raw = json.dumps(shown["raw"], ensure_ascii=False, indent=2 if len(row.raw) > 100 else None)
    when = row.quarantined_at.strftime("%Y-%m-%d %H:%M:%S")
    return [
        f"{row.id}  {when}  {row.part}  {row.position}",
        f"  {row.reason}",
        *(f"  {line}" for line in raw.splitlines()),
    ]


def _holding_as_row(holding: Holding) -> tuple[object, ...]:
    from frazil.quarantine import TOP_REASONS

    top = list(holding.reasons.items())[:TOP_REASONS]
    more = [f"and {len(holding.reasons) - TOP_REASONS} other reasons"] if len(holding.reasons) > TOP_REASONS else []
    return (
        holding.table,
        f"{holding.rows:,}",
        _time(holding.oldest),
        _time(holding.newest),
        "\n".join([*(f"{n:,} x {text}" for text, n in top), *more]),
    )


def _holding_as_json(holding: Holding) -> dict[str, object]:
    return {
        "table": holding.table,
        "rows": holding.rows,
        "oldest": holding.oldest,
        "newest": holding.newest,
        "reasons": dict(holding.reasons),
    }


def _result_as_json(table: str, result: ReplayResult) -> dict[str, object]:
    return {
        "table": table,
        "dry_run": result.dry_run,
        "replayed": result.replayed,
        "snapshot_id": result.snapshot_id,
        "failed": dict(result.failed),
        "missing": list(result.missing),
    }


def _result_as_text(table: str, result: ReplayResult) -> str:
    """
    >>> from frazil.quarantine.judging import ReplayResult
    >>> print(_result_as_text("l.t", ReplayResult(2, {"check 'x > 0' failed": 1}, snapshot_id=7)))
    l.t: 2 rows are in the table now, snapshot 7; 1 row stays in quarantine
           1 x check 'x > 0' failed
    >>> print(_result_as_text("l.t", ReplayResult(dry_run=True)))
    l.t: 0 rows would come in
    """
    verb, stay = ("would come in", "would stay") if result.dry_run else ("are in the table now", "stay")
    left = sum(result.failed.values())
    if not result.dry_run and result.replayed == 1:
        verb = "is in the table now"
    if not result.dry_run and left == 1:
        stay = "stays"
    at = f", snapshot {result.snapshot_id}" if result.snapshot_id else ""
    rest = f"; {count(left, 'row')} {stay} in quarantine{_reasons(result.failed)}" if left else ""
    lines = f"{table}: {count(result.replayed, 'row')} {verb}{at}{rest}"
    gone = (
        f"\n{count(len(result.missing), 'edited row')} not in quarantine any more: {', '.join(result.missing)}"
        if result.missing
        else ""
    )
    return lines + gone


def _reasons(counts: Mapping[str, int]) -> str:
    return "".join(f"\n{number:>8,} x {text}" for text, number in counts.items())


def _time(moment: Any) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S") if moment else ""
