"""What the console's child processes can do: the table of the kinds of jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frazil.console.query_jobs import run_query_job, write_csv_job
from frazil.console.work import tables
from frazil.console.work.plan import apply_plan
from frazil.console.work.upkeep import plan_steps

if TYPE_CHECKING:
    from frazil.lake import Lake

Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    """One kind of job. `run` gets a lake with the caller's rights; what it returns is sent as JSON, and the errors of
    Frazil that it raises become HTTP.
    """

    run: Callable[[Lake, Arguments], Any]
    writes: bool = False  # changes tables: it is not cut off because its client has left


def count_tables(lake: Lake, _arguments: Arguments) -> dict[str, Any]:
    """How many tables the caller sees. Imports what queries need, so that the first one need not wait for it."""
    from frazil.scan.engines import import_duckdb

    import_duckdb()
    return {"tables": len(lake.table_names())}


# Modules of kinds import heavy libraries inside their functions: the server reads this table, too.
KINDS: dict[str, Kind] = {
    "count": Kind(count_tables),
    "query": Kind(run_query_job),
    "csv": Kind(write_csv_job),
    "preview of upkeep": Kind(plan_steps),
    "look at the quarantine": Kind(tables.show_quarantine),
    "page of the quarantine": Kind(tables.list_quarantined),
    "preview of a replay": Kind(tables.preview_replay),
    "replay": Kind(tables.replay, writes=True),
    "preview of a rollback": Kind(tables.preview_rollback),
    "rollback": Kind(tables.roll_back, writes=True),
    "new branch or tag": Kind(tables.create_ref, writes=True),
    "preview of a drop": Kind(tables.preview_drop),
    "drop of a branch or tag": Kind(tables.drop_ref, writes=True),
    "apply": Kind(apply_plan, writes=True),
}
