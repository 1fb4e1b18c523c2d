"""The audit log: who changed what, and what was refused, for those who manage the server."""

from __future__ import annotations

from dataclasses import asdict

from frazil.catalog import Context, Request, Response, Wanted, find_records
from frazil.console.answers import console_json, refuse_other_sites
from frazil.console.rows import whole_number
from frazil.errors import BadRequest

DEFAULT_RECORDS, MOST_RECORDS = 100, 500
DECISIONS = ("allowed", "refused")
LARGEST = 2**63 - 1  # number of a database


def list_records(ctx: Context, request: Request) -> Response:
    """A page of records, the newest first; `next` is where the next page begins, null at the end of the log. A page may
    be short, or empty, although there are more: a call looks at a part of a long log.
    """
    refuse_other_sites(request)
    limit = _number(request, "limit", MOST_RECORDS)
    limit = DEFAULT_RECORDS if limit is None else limit
    if limit == 0:
        raise BadRequest("limit: expected at least 1, got 0", option="limit")
    before = _number(request, "before")
    records, after = find_records(ctx.database.read(), _wanted(request), limit=limit, before=before)
    return console_json({"authentication": ctx.gate.on, "records": [asdict(each) for each in records], "next": after})


def _wanted(request: Request) -> Wanted:
    """The filters of the query; one that is empty is none."""
    decision = request.query.get("decision") or None
    if decision not in (None, *DECISIONS):
        raise BadRequest(f"decision: expected {' or '.join(DECISIONS)}, got {decision[:40]!r}", option="decision")
    actor, operation, mentions = (request.query.get(name) or None for name in ("actor", "operation", "object"))
    return Wanted(actor, operation, mentions, decision, _number(request, "since") or 0, _number(request, "until"))


def _number(request: Request, name: str, most: int = LARGEST) -> int | None:
    number = whole_number(request, name)
    if number is not None and number > most:
        raise BadRequest(f"{name}: expected at most {most}, got {number}", option=name)
    return number
