"""Metrics reports: kept, the newest thousand of each table, as long as the table exists."""

from __future__ import annotations

from frazil.catalog import fields
from frazil.catalog.context import Context
from frazil.catalog.http import NO_CONTENT, Request, Response
from frazil.catalog.operations.tables import find_relation
from frazil.catalog.store import reports
from frazil.catalog.store.database import Sql
from frazil.errors import BadRequest, BodyTooLarge

KINDS = ("scan-report", "commit-report")


def report_metrics(ctx: Context, request: Request) -> Response:
    """Keeps a scan or commit report of a table."""
    if len(request.body) > ctx.limits.report_bytes:
        raise BodyTooLarge(
            f"The metrics report has {len(request.body)} bytes; at most {ctx.limits.report_bytes} are kept"
        )
    body, warehouse, name = request.json(), ctx.warehouse(request), request.name()
    kind = fields.text(body, "report-type", "Metrics report")
    if kind not in KINDS:
        raise BadRequest(
            f"Metrics report: 'report-type' must be one of {', '.join(KINDS)}, got {kind[:40]!r}", got=kind[:40]
        )
    text = request.body.decode("utf-8")

    def keep(sql: Sql) -> Response:
        ctx.gate.recheck(sql, request)
        find_relation(sql, warehouse, name, "table")
        reports.keep(sql, warehouse.name, name, kind=kind, report=text, now_ms=ctx.clock())
        return NO_CONTENT

    return ctx.database.write(keep)
