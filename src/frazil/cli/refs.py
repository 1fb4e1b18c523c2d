"""`frazil branch` and `frazil tag`: named places in a table's past."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from frazil.cli.complete import complete_any_ref, complete_branches, complete_tables, complete_tags
from frazil.cli.context import Context
from frazil.cli.show import OUTPUT, REFERENCE, echo, print_json, print_rows, to_json
from frazil.errors import HistoryError
from frazil.units import count, parse_age

if TYPE_CHECKING:
    from frazil.history import RefInfo, RefKind
    from frazil.lake import Lake

YES = click.option("--yes", is_flag=True, help="Do not ask.")


def age_ms_of(text: str) -> int:
    """The milliseconds of an age that is longer than none."""
    age_ms = parse_age(text)
    if not age_ms:
        raise click.BadParameter(f"'{text}' is not an age: 30m, 24h or 7d")
    return age_ms


def _lake(context: Context) -> Lake:
    from frazil.lake import Lake

    return Lake(context.settings, catalog=context.catalog)


@click.group()
def branch() -> None:
    """List, create, drop and publish the branches of a table."""


@click.group()
def tag() -> None:
    """List, create and drop the tags of a table."""


def _list(kind: RefKind) -> Callable[..., None]:
    @click.argument("table", shell_complete=complete_tables)
    @OUTPUT
    @click.pass_obj
    def run(context: Context, table: str, output: str) -> None:
        live = _lake(context).table(table)
        refs = live.branches() if kind == "branch" else live.tags()
        if output == "json":
            echo(to_json([asdict(ref) for ref in refs]))
        elif refs:
            print_rows(("name", "snapshot", "time (UTC)", "kept"), map(_as_row, refs))
        else:
            echo(f"{table} has no {'tags' if kind == 'tag' else 'branches'}")

    return run


def _as_row(ref: RefInfo) -> tuple[object, ...]:
    from frazil.scan.planning import show_time

    rules = ref.retention
    said = [f"for {show_age(rules.max_ref_age_ms)}"] if rules.max_ref_age_ms else []
    said += [f"snapshots for {show_age(rules.max_snapshot_age_ms)}"] if rules.max_snapshot_age_ms else []
    said += [f"at least {count(rules.min_snapshots_to_keep, 'snapshot')}"] if rules.min_snapshots_to_keep else []
    return ref.name, ref.snapshot_id, show_time(ref.time_ms) if ref.time_ms is not None else "?", ", ".join(said)


def show_age(milliseconds: int) -> str:
    """
    >>> show_age(604_800_000), show_age(5_400_000)
    ('7d', '90m')
    """
    from frazil.units import split_ms

    return " ".join(f"{part}{'ms' if unit == 'ms' else unit[0]}" for part, unit in split_ms(milliseconds))


def _create(
    context: Context, table: str, name: str, kind: RefKind, at: str, *, output: str, **rules: int | None
) -> None:
    from frazil.history import Retention

    live = _lake(context).table(table)
    create = live.create_branch if kind == "branch" else live.create_tag
    point = create(name, at=at, retention=Retention(**rules))
    if output == "json":
        print_json({"table": table, "kind": kind, "name": name, "snapshot_id": point.snapshot.snapshot_id})
    else:
        echo(f"{kind} '{name}' of {table} is at snapshot {point.snapshot.snapshot_id}")


AT = click.option(
    "--at",
    default="main",
    show_default=True,
    metavar="REFERENCE",
    shell_complete=complete_any_ref,
    help=f"Where it begins: {REFERENCE}.",
)
KEEP = click.option(
    "--max-ref-age",
    type=age_ms_of,
    metavar="AGE",
    help="Expiry removes it after this time: 30m, 24h, 7d.  [default: never]",
)


@branch.command("create")
@click.argument("table", shell_complete=complete_tables)
@click.argument("name")
@AT
@KEEP
@click.option(
    "--max-snapshot-age",
    type=age_ms_of,
    metavar="AGE",
    help="Expiry keeps its snapshots for this time.  [default: the table's]",
)
@click.option(
    "--min-snapshots",
    type=click.IntRange(min=1),
    help="Expiry keeps at least this many of its snapshots.  [default: the table's]",
)
@OUTPUT
@click.pass_obj
def create_branch(
    context: Context,
    table: str,
    name: str,
    at: str,
    max_ref_age: int | None,
    max_snapshot_age: int | None,
    min_snapshots: int | None,
    output: str,
) -> None:
    """Create a branch: rows that are written to it are not seen on main."""
    rules = {
        "max_ref_age_ms": max_ref_age,
        "max_snapshot_age_ms": max_snapshot_age,
        "min_snapshots_to_keep": min_snapshots,
    }
    _create(context, table, name, "branch", at, output=output, **rules)


@tag.command("create")
@click.argument("table", shell_complete=complete_tables)
@click.argument("name")
@AT
@KEEP
@OUTPUT
@click.pass_obj
def create_tag(context: Context, table: str, name: str, at: str, max_ref_age: int | None, output: str) -> None:
    """Create a tag: a name for a snapshot, which expiry then keeps."""
    _create(context, table, name, "tag", at, output=output, max_ref_age_ms=max_ref_age)


def _drop(kind: RefKind) -> Callable[..., None]:
    @click.argument("table", shell_complete=complete_tables)
    @click.argument("name", shell_complete=complete_branches if kind == "branch" else complete_tags)
    @YES
    @OUTPUT
    @click.pass_obj
    def run(context: Context, table: str, name: str, yes: bool, output: str) -> None:
        from frazil.history import perform_drop, plan_drop

        lake = _lake(context)
        live = lake.load(table)
        plan = plan_drop(live, name, kind)
        said = [f"{kind} '{name}' of {table}, at snapshot {plan.ref.snapshot_id}, goes"]
        if plan.unreachable:
            snapshots = count(len(plan.unreachable), "snapshot")
            said.append(f"  no other branch or tag holds {snapshots} of it: expiry will remove them")
        said += [f"  the progress of sink part {part} on it goes, too" for part in plan.parts]
        if output == "text":
            echo("\n".join(said))
        if agreed(f"drop {kind} '{name}'?", yes, may_ask=output == "text"):
            perform_drop(lake.catalog, live, plan)
            if output == "json":
                ref = {"table": table, "kind": kind, "name": name, "snapshot_id": plan.ref.snapshot_id}
                print_json({**ref, "unreachable": list(plan.unreachable), "parts": list(plan.parts)})
                return
            echo(
                f"{kind} '{name}' is dropped; to have it again: frazil {kind} create {table} {name} --at "
                f"{plan.ref.snapshot_id}"
            )

    return run


for _kind, _group in (("branch", branch), ("tag", tag)):
    _plural = "branches" if _kind == "branch" else "tags"
    _help = f"List the {_plural} of a table: where they are, and how long they are kept."
    _group.command("list", help=_help)(_list(_kind))  # type: ignore[arg-type]
    _group.command("drop", help=f"Drop a {_kind}; shows first what goes with it.")(_drop(_kind))  # type: ignore[arg-type]


@branch.command()
@click.argument("table", shell_complete=complete_tables)
@click.argument("name", shell_complete=complete_branches)
@YES
@OUTPUT
@click.pass_obj
def publish(context: Context, table: str, name: str, yes: bool, output: str) -> None:
    """Move main forward to a branch that has grown out of it; refused when main has moved on."""
    from frazil.history import perform_publish, plan_publish

    lake = _lake(context)
    live = lake.load(table)
    plan = plan_publish(live, name)
    snapshots = count(len(plan.snapshots), "snapshot")
    said = [f"main of {table} moves from snapshot {plan.main_id} to {plan.head_id}: {snapshots} of '{name}'"]
    said += [f"  with the progress of sink part {part}" for part in plan.parts]
    if output == "text":
        echo("\n".join(said))
    if agreed(f"publish '{name}'?", yes, may_ask=output == "text"):
        perform_publish(lake.catalog, live, plan)
        if output == "json":
            moved = {"table": table, "name": name, "snapshot_id": plan.head_id, "before_snapshot_id": plan.main_id}
            print_json({**moved, "snapshots": list(plan.snapshots), "parts": list(plan.parts)})
            return
        echo(f"main is at snapshot {plan.head_id}; the branch stays where it is")


def agreed(question: str, yes: bool, *, may_ask: bool) -> bool:
    """Whether the user wants it; raises if there is no one to ask."""
    if yes:
        return True
    if not may_ask or not sys.stdin.isatty():
        raise HistoryError(
            f"confirmation required, and there is no terminal: {question} nothing was changed",
            hint="add --yes",
            problem="no-terminal",
        )
    if click.confirm(question, err=True):
        return True
    echo("nothing was changed")
    return False
