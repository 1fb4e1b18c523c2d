"""`frazil env`: environments, which are branches of one name over the tables of a project."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.context import Context
from frazil.cli.refs import YES, agreed
from frazil.cli.show import OUTPUT, echo, print_json, print_rows
from frazil.units import count

if TYPE_CHECKING:
    from frazil.history import EnvironmentDrop, EnvironmentPublication, TableDifference, TableMove


@click.group()
def env() -> None:
    """List, compare, publish and drop environments of branches."""


def _tables() -> list[str]:
    from frazil.project import load_project

    return load_project(Path.cwd()).table_names


@env.command("list")
@OUTPUT
@click.pass_obj
def list_(context: Context, output: str) -> None:
    """List the environments of the project's tables."""
    from frazil.history import list_environments
    from frazil.scan.planning import show_time

    environments = list_environments(context.catalog, _tables())
    if output == "json":
        print_json([asdict(each) for each in environments])
    elif environments:
        rows = (
            (
                each.name,
                len(each.tables),
                len(each.changed),
                len(each.moved),
                show_time(each.time_ms) if each.time_ms is not None else "?",
            )
            for each in environments
        )
        print_rows(("name", "tables", "changed", "moved on main", "last change (UTC)"), rows)
    else:
        echo("no environments; frazil run --env NAME begins one")


@env.command()
@click.argument("name")
@click.option("--no-rows", is_flag=True, help="Read no rows: show the totals and columns alone.")
@OUTPUT
@click.pass_obj
def diff(context: Context, name: str, no_rows: bool, output: str) -> None:
    """Show how an environment differs from main: rows and columns of each table."""
    from frazil.history import check_environment, diff_environment, find_members, no_environment

    names = _tables()
    members = find_members(context.catalog, names, check_environment(name))
    differences = diff_environment(members, name, read_rows=not no_rows)
    if not differences:
        raise no_environment(name, names)
    if output == "json":
        print_json({"name": name, "tables": [asdict(each) for each in differences]})
        return
    for line in (line for each in differences for line in describe_difference(each, name)):
        echo(line)


def describe_difference(difference: TableDifference, name: str) -> Iterator[str]:
    """What differs in a table, a line each."""
    where = "" if difference.main_id is not None else f": only '{name}' has rows"
    yield f"{difference.table}{where}{': no difference' if difference.is_empty and not where else ''}"
    for change in difference.schema:
        yield f"  {change}"
    if difference.rows_added is not None and difference.rows_removed is not None and not difference.is_empty:
        added, removed = count(difference.rows_added, "row"), count(difference.rows_removed, "row")
        yield f"  + {added}, - {removed}"
    if difference.rows_main != difference.rows_branch:
        yield f"  rows in data files: {_number(difference.rows_main)} -> {_number(difference.rows_branch)}"
    if difference.has_moved and difference.snapshots:
        yield f"  main has moved since: '{name}' cannot be published"


def _number(rows: int | None) -> str:
    return "?" if rows is None else f"{rows:,}"


@env.command()
@click.argument("name")
@YES
@OUTPUT
@click.pass_obj
def publish(context: Context, name: str, yes: bool, output: str) -> None:
    """Move main of all tables to an environment, in one commit; refused if main of one has moved."""
    from frazil.history import check_environment, plan_environment_publication, publish_environment

    names = _tables()
    catalog = context.announce()
    plan = plan_environment_publication(catalog, names, check_environment(name))
    if output == "text":
        echo("\n".join(describe_publication(plan)))
    if plan.was_published or agreed(f"publish '{name}'?", yes, may_ask=output == "text"):
        if not plan.was_published:
            publish_environment(catalog, names, plan)
        if output == "json":
            print_json(_publication_as_json(plan))
        elif not plan.was_published:
            echo(f"'{name}' is published: {count(len(plan.moves), 'table')} moved at once, the branches are gone")


def describe_publication(plan: EnvironmentPublication) -> list[str]:
    """What publishing does, a line each."""
    if plan.was_published:
        return [f"'{plan.environment}' is published already: main has what was written there"]
    lines = [line for move in plan.moves for line in _describe_move(move)]
    return [*lines, *(f"{name}: nothing of its own, the branch goes" for name in plan.unchanged)]


def _describe_move(move: TableMove) -> list[str]:
    snapshots = count(len(move.snapshots), "snapshot")
    first = f"main of {move.table} moves from snapshot {move.main_id} to {move.head_id}: {snapshots}"
    return [first, *(f"  with the progress of {part}" for part in move.parts)]


def _publication_as_json(plan: EnvironmentPublication) -> dict[str, Any]:
    moves = [asdict(move) for move in plan.moves]
    return {
        "name": plan.environment,
        "was_published": plan.was_published,
        "tables": moves,
        "unchanged": list(plan.unchanged),
    }


@env.command()
@click.argument("name")
@YES
@OUTPUT
@click.pass_obj
def drop(context: Context, name: str, yes: bool, output: str) -> None:
    """Drop the branches of an environment; shows first what is lost."""
    from frazil.history import (
        check_environment,
        find_members,
        no_environment,
        perform_environment_drop,
        plan_environment_drop,
    )

    names = _tables()
    catalog = context.announce()
    members = find_members(catalog, names, check_environment(name))
    if not members:
        raise no_environment(name, names)
    plan = plan_environment_drop(members, name)
    if output == "text":
        echo("\n".join(describe_drop(plan)))
    if agreed(f"drop environment '{name}'?", yes, may_ask=output == "text"):
        perform_environment_drop(catalog, names, plan)
        if output == "json":
            print_json({"name": name, "tables": [asdict(each) for each in plan.tables]})
        else:
            echo(f"'{name}' is dropped; upkeep removes its files when its snapshots expire")


def describe_drop(plan: EnvironmentDrop) -> Sequence[str]:
    """What goes, a line each."""
    lines = []
    for each in plan.tables:
        own = count(len(each.snapshots), "snapshot") if each.snapshots else "no snapshot"
        branch = f"branch '{plan.environment}' of {each.table}, at snapshot {each.snapshot_id}"
        lines.append(f"{branch}, goes: {own} of its own")
        lines += [f"  the progress of {part} on it goes, too" for part in each.parts]
    return lines or [f"branches '{plan.environment}' of companion tables go"]
