"""The last runs of the pipelines that fill a table, from its companion table of runs."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from frazil.catalog import Context, Name, Need, Privilege, Request, Response, Target, as_bad_request
from frazil.console.answers import console_json, refuse_other_sites
from frazil.console.rows import AT_ONCE, check_installed, deadline_check
from frazil.errors import NoSuchTable, TooBusy
from frazil.protocol import RUNS_SUFFIX

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

MOST_RUNS = 100  # that are shown
LAST_DAYS = (7, 90, None)  # that are read until there are enough runs; None: all
MOST_ROWS = 20_000
MOST_SECONDS = 10.0
MOST_CHARACTERS = 1_000  # of a text
SHOWN = (
    *("run_id", "pipeline", "status", "started_at", "seconds", "files", "bytes", "rows_in", "rows", "duplicates"),
    *("quarantined", "snapshot_id", "error"),
)


def list_runs(ctx: Context, request: Request) -> Response:
    """The last runs of the table of the path, the latest first. The caller needs `read` on the table of runs, too."""
    refuse_other_sites(request)
    check_installed()
    target = request.name()
    name = Name(target.namespace, f"{target.name}{RUNS_SUFFIX}")
    need = Need(Privilege.READ, Target("table", ctx.warehouse(request).name, name.key, name.name))
    if not AT_ONCE.acquire(blocking=False):
        raise TooBusy("Too many previews are running", hint="try again")
    try:
        ctx.gate.require(ctx.database.read(), request, need)
        rows = _read(ctx, request, name)
    except NoSuchTable:  # nothing has run yet, or the caller may not see what has
        rows = []
    finally:
        AT_ONCE.release()
    return console_json({"runs": rows})


def _read(ctx: Context, request: Request, name: Name) -> list[dict[str, Any]]:
    from frazil.catalog import open_served

    check = deadline_check(request, MOST_SECONDS)
    scan = open_served(ctx, request, snapshot_id=None, limit=MOST_ROWS, check=check, name=name)
    if scan.request.snapshot_id is None:
        return []
    names = {field.name for field in scan.fields}
    if not names.issuperset(SHOWN):  # a table of that name that is no table of runs
        return []
    rows: list[dict[str, Any]] = []
    for days in LAST_DAYS:
        wanted = scan.request if days is None else replace(scan.request, filter=_since(ctx.clock(), days))
        rows = as_bad_request(replace(scan, request=wanted, columns=SHOWN).to_arrow).to_pylist()
        if len(rows) >= MOST_RUNS:
            break
    runs = [{column: _shown(row.get(column)) for column in SHOWN} for row in rows]
    return sorted(runs, key=lambda run: str(run["started_at"]), reverse=True)[:MOST_RUNS]


def _since(now_ms: int, days: int) -> BooleanExpression:
    """The runs of the last days; files without any are pruned by their bounds."""
    from pyiceberg.expressions import GreaterThanOrEqual

    moment = dt.datetime.fromtimestamp(now_ms / 1000, dt.UTC) - dt.timedelta(days=days)
    return GreaterThanOrEqual("started_at", moment.isoformat())  # type: ignore[call-arg, arg-type]  # PyIceberg takes these two, its annotations do not


def _shown(value: Any) -> Any:
    """A value for JSON: times in milliseconds, ids as text, for a browser's numbers end at 53 bits."""
    if isinstance(value, dt.datetime):
        return int(value.timestamp() * 1000)
    if isinstance(value, bool) or value is None or isinstance(value, float):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else str(value)
    return str(value)[:MOST_CHARACTERS]
