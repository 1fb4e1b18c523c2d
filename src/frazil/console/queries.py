"""SQL of the console: what a page may ask. The queries run in child processes (`query_jobs.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from frazil.catalog import Context, Request, Response
from frazil.console.answers import refuse_other_sites
from frazil.console.pipelines import Sight
from frazil.console.project import ChildFailed, ask_child, has_project
from frazil.console.query_jobs import EMBED
from frazil.console.rows import check_installed
from frazil.console.work import run_job
from frazil.errors import BadRequest

MOST_SECONDS = 60.0
MOST_SQL = 100_000  # characters
MOST_SEARCHES = 8  # texts that a query searches for, in as many calls of nearest
MOST_ROWS, DEFAULT_ROWS = 10_000, 1000


def run_sql(ctx: Context, request: Request) -> Response:
    """The first rows of a query, and what its scans have read and skipped."""
    refuse_other_sites(request)
    check_installed()
    arguments = {"sql": _sql(request), "limit": _limit(request)}
    return _run(ctx, request, "query", arguments)


def write_csv(ctx: Context, request: Request) -> Response:
    """The rows of a query as CSV, with whole values."""
    refuse_other_sites(request)
    check_installed()
    return _run(ctx, request, "csv", {"sql": _sql(request)})


def prepare_queries(ctx: Context, request: Request) -> Response:
    """Starts a process for queries, so that the first one need not wait for it."""
    refuse_other_sites(request)
    check_installed()
    request.json()  # a page of another site cannot send JSON
    return run_job(ctx, request, "count", {}, seconds=MOST_SECONDS)


def _run(ctx: Context, request: Request, kind: str, arguments: Mapping[str, Any]) -> Response:
    """The answer to a query. If it searches for texts, the process of queries says so and stops; the process of the
    project makes their vectors, and the query runs again with them.
    """
    vectors: list[dict[str, Any]] = []
    embeds = ctx.project is not None and has_project(ctx.project)
    for _ in range(MOST_SEARCHES + 1):
        job = {**arguments, "vectors": vectors, "embeds": embeds}
        answer = run_job(ctx, request, kind, job, seconds=MOST_SECONDS)
        if not answer.body.startswith(b'{"%s":' % EMBED.encode()):
            return answer
        wanted = orjson.loads(answer.body)[EMBED]
        vectors.append({**wanted, "vectors": _embed(ctx, request, wanted)})
    raise BadRequest(f"The query searches for texts in more than {MOST_SEARCHES} calls of nearest", option="sql")


def _embed(ctx: Context, request: Request, wanted: Mapping[str, Any]) -> Any:
    """The vectors of texts, by the project in the server's folder; None if it declares no embedder for the column."""
    assert ctx.project is not None
    try:
        return ask_child(ctx.project, {"ask": "embed", **wanted}, check=request.check_client)["vectors"]
    except ChildFailed as exc:
        raise BadRequest(exc.text_for(Sight(ctx, request))) from exc


def _sql(request: Request) -> str:
    sql = request.json().get("sql")
    if not isinstance(sql, str) or not sql.strip() or len(sql) > MOST_SQL:
        raise BadRequest(f"sql: expected a query of up to {MOST_SQL:,} characters", option="sql")
    return sql


def _limit(request: Request) -> int:
    limit = request.json().get("limit", DEFAULT_ROWS)
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_ROWS:
        raise BadRequest(f"limit: expected 1 to {MOST_ROWS:,}", option="limit")
    return limit
