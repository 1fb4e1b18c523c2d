"""SQL of the console: what a page may ask. The queries run in child processes (`query_jobs.py`)."""

from __future__ import annotations

from frazil.catalog import Context, Request, Response
from frazil.console.answers import refuse_other_sites
from frazil.console.rows import check_installed
from frazil.console.work import run_job
from frazil.errors import BadRequest

MOST_SECONDS = 60.0
MOST_SQL = 100_000  # characters
MOST_ROWS, DEFAULT_ROWS = 10_000, 1000


def run_sql(ctx: Context, request: Request) -> Response:
    """The first rows of a query, and what its scans have read and skipped."""
    refuse_other_sites(request)
    check_installed()
    arguments = {"sql": _sql(request), "limit": _limit(request)}
    return run_job(ctx, request, "query", arguments, seconds=MOST_SECONDS)


def write_csv(ctx: Context, request: Request) -> Response:
    """The rows of a query as CSV, with whole values."""
    refuse_other_sites(request)
    check_installed()
    return run_job(ctx, request, "csv", {"sql": _sql(request)}, seconds=MOST_SECONDS)


def prepare_queries(ctx: Context, request: Request) -> Response:
    """Starts a process for queries, so that the first one need not wait for it."""
    refuse_other_sites(request)
    check_installed()
    request.json()  # a page of another site cannot send JSON
    return run_job(ctx, request, "count", {}, seconds=MOST_SECONDS)


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
