"""The upkeep page: the debt of every table step by step, what would be done about it, and having it done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from frazil.catalog import Context, Kept, Request, Response, request_upkeep, show_upkeep, steps_of
from frazil.console.answers import console_answer, console_json, refuse_other_sites
from frazil.console.listing import debt_used, describe_lines, page_of
from frazil.console.work import run_job

PLAN_SECONDS = 90.0


def list_upkeep(ctx: Context, request: Request) -> Response:
    """A page of the tables that the caller may read, with the score of each step and what upkeep does now."""
    return console_json(page_of(ctx, request, _lines))


def _lines(ctx: Context, request: Request, tables: Iterator[Kept]) -> Iterator[dict[str, Any]]:
    for table, name, line in describe_lines(ctx, request, tables):
        if line is None:
            yield name
            continue
        debt = {} if "error" in line else debt_used(table, line)
        run = orjson.loads(table.run) if table.run else None
        yield {
            **name,
            "steps": debt.get("steps") or {},
            "bytes": line.get("bytes"),
            "data_files": line.get("data_files"),
            "state": "working" if table.holder else "queued" if table.request else "",
            "last_run": {key: run[key] for key in ("outcome", "at_ms", "saved_files")} if run else None,
        }


def show_state(ctx: Context, request: Request) -> Response:
    """What was asked for, who is at it, and what the last run did."""
    refuse_other_sites(request)
    return console_answer(show_upkeep(ctx, request))


def preview(ctx: Context, request: Request) -> Response:
    """What steps would do, by the functions of `frazil maintain --dry-run`."""
    refuse_other_sites(request)
    name = request.name()
    arguments = {"table": [*name.namespace, name.name], "steps": steps_of(request)}
    return run_job(ctx, request, "preview of upkeep", arguments, seconds=PLAN_SECONDS)


def ask(ctx: Context, request: Request) -> Response:
    """Has a worker do steps."""
    refuse_other_sites(request)
    return console_answer(request_upkeep(ctx, request))
