"""`frazil table`: repair of single tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from frazil.cli.catalog import DATABASE, WAREHOUSE, opened_server
from frazil.cli.complete import complete_tables
from frazil.cli.context import Context
from frazil.cli.show import OUTPUT, echo, print_json
from frazil.errors import BadRequest

if TYPE_CHECKING:
    from frazil.catalog import Candidate


@click.group()
def table() -> None:
    """Repair single tables."""


@table.command()
@click.argument("name", shell_complete=complete_tables)
@click.option(
    "--to", "target", metavar="FILE", help="The version to go back to: a location or file name from the list."
)
@click.option(
    "--in",
    "warehouse_name",
    metavar="WAREHOUSE",
    help="The warehouse that the table is in.  [default: the default one]",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@DATABASE
@WAREHOUSE
@OUTPUT
@click.pass_obj
def recover(
    context: Context,
    name: str,
    target: str | None,
    warehouse_name: str | None,
    yes: bool,
    database: str | None,
    warehouses: Sequence[str],
    output: str,
) -> None:
    """Go back to an older version of a table whose metadata file is corrupt or gone.

    NAME is namespace.table. Lists the table's metadata files, says which can be read and which were current for
    certain, and after a confirmation points the table to the one before. Nothing is deleted.
    """
    from frazil.catalog import Name, best_candidate, find_candidates, roll_back

    *levels, last = name.split(".")
    if not levels:
        raise BadRequest(f"'{name}' names no namespace", hint="frazil table recover NAMESPACE.TABLE", name=name)
    with opened_server(context, database, warehouses) as server:
        warehouse, ident = server.warehouses.named(warehouse_name), Name(tuple(levels), last)
        relation, candidates = find_candidates(server, warehouse, ident)
        chosen = _choose(candidates, target) if target else best_candidate(relation, candidates)
        _show(candidates, chosen, output)
        if chosen is None or (not target and any(c.is_current and c.readable for c in candidates)):
            return
        # As JSON it does not ask: without --yes it lists.
        if yes or (output == "text" and click.confirm(f"point {name} to {chosen.location}?", err=True)):
            roll_back(server, warehouse, ident, relation, chosen)
            context.talk.note(f"{name} is back at version {chosen.number}")


def _choose(candidates: Sequence[Candidate], target: str) -> Candidate:
    for candidate in candidates:
        if target in (candidate.location, candidate.location.rpartition("/")[2]):
            return candidate
    hint = "frazil table recover NAME lists them"
    raise BadRequest(f"the table has no metadata file '{target}'", hint=hint, path=target)


def _show(candidates: Sequence[Candidate], chosen: Candidate | None, output: str) -> None:
    if output == "json":
        print_json([asdict(candidate) | {"chosen": candidate is chosen} for candidate in candidates])
        return
    for c in candidates:
        when = datetime.fromtimestamp(c.updated_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") if c.readable else "-"
        state = f"readable, {c.snapshots} snapshots, current {c.snapshot_id}" if c.readable else c.reason
        mark = "current" if c.is_current else "was current" if c.was_current else "perhaps never current"
        echo(f"{'->' if c is chosen else '  '} {c.location.rpartition('/')[2]}  {when}  {mark}  {state}")
    if chosen is None:
        echo("no version that can be read and was current for certain; choose one with --to FILE")
    elif any(c.is_current and c.readable for c in candidates):
        echo("the current version can be read; --to FILE goes back all the same")
