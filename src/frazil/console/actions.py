"""What the page of a table can change: roll back, branches and tags, replay of quarantined rows. Each change has a
preview. Both are asked for with the snapshot that the page has seen, and done with the rights of the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from frazil.catalog import Context, Request, Response, find_readable
from frazil.console.answers import console_json, refuse_other_sites
from frazil.console.work import run_job
from frazil.errors import BadRequest
from frazil.protocol import QUARANTINE_SUFFIX

PREVIEW_SECONDS, CHANGE_SECONDS = 20.0, 120.0
MOST_CHARACTERS = 1_000  # of a name, or of a reason
MOST_DIGITS = 19
MOST_SKIPPED = 1_000_000
KINDS = ("branch", "tag")
EXTRA_FIELDS = ("error", "ignore")

Body = Mapping[str, Any]
Handler = Callable[[Context, Request], Response]


def rollback_arguments(body: Body) -> dict[str, Any]:
    """The branch, where the page has seen it, the snapshot to go back to, and what becomes of progress."""
    return {
        "ref": _text(body, "ref"),
        "head": _snapshot(body, "head"),
        "snapshot": _snapshot(body, "snapshot"),
        "with_progress": _one_of(body, "with_progress", (None, True, False)),
    }


def ref_arguments(body: Body) -> dict[str, Any]:
    """A branch or tag, and the snapshot where it is to be, or where the page has seen it."""
    return {
        "kind": _one_of(body, "kind", KINDS),
        "name": _text(body, "name"),
        "snapshot": _snapshot(body, "snapshot"),
    }


def replay_arguments(body: Body) -> dict[str, Any]:
    """The quarantine as the page has seen it, and which of its rows are meant: those of a reason, or all."""
    return {
        "head": _snapshot(body, "head"),
        "reason": None if body.get("reason") is None else _text(body, "reason"),
        "extra_fields": _one_of(body, "extra_fields", EXTRA_FIELDS),
    }


def page_arguments(body: Body) -> dict[str, Any]:
    """The quarantine as the page has seen it, a reason, and how many of its rows are shown already."""
    skip = body.get("skip", 0)
    if not isinstance(skip, int) or isinstance(skip, bool) or not 0 <= skip <= MOST_SKIPPED:
        raise BadRequest(f"'skip': expected a number from 0 to {MOST_SKIPPED}", option="skip")
    return {"head": _snapshot(body, "head"), "reason": _text(body, "reason"), "skip": skip}


def _job(kind: str, read: Callable[[Body], dict[str, Any]], seconds: float) -> Handler:
    """A handler that reads the arguments from the body and has the job done."""

    def run(ctx: Context, request: Request) -> Response:
        refuse_other_sites(request)
        return run_job(ctx, request, kind, {"table": _table(request), **read(request.json())}, seconds=seconds)

    return run


preview_rollback = _job("preview of a rollback", rollback_arguments, PREVIEW_SECONDS)
roll_back = _job("rollback", rollback_arguments, CHANGE_SECONDS)
create_ref = _job("new branch or tag", ref_arguments, CHANGE_SECONDS)
preview_drop = _job("preview of a drop", ref_arguments, PREVIEW_SECONDS)
drop_ref = _job("drop of a branch or tag", ref_arguments, CHANGE_SECONDS)
list_quarantined = _job("page of the quarantine", page_arguments, PREVIEW_SECONDS)
preview_replay = _job("preview of a replay", replay_arguments, PREVIEW_SECONDS)
replay = _job("replay", replay_arguments, CHANGE_SECONDS)


def show_quarantine(ctx: Context, request: Request) -> Response:
    """The quarantined rows of a table by reason."""
    refuse_other_sites(request)
    name = request.name()
    if find_readable(ctx, request, replace(name, name=f"{name.name}{QUARANTINE_SUFFIX}")) is None:
        return console_json({"snapshot_id": None, "rows": 0, "complete": True, "reasons": [], "more_reasons": 0})
    return run_job(ctx, request, "look at the quarantine", {"table": _table(request)}, seconds=PREVIEW_SECONDS)


def _table(request: Request) -> str:
    """The name of the table as the Python API takes it: there, a dot ends a part."""
    name = request.name()
    if any("." in part for part in (*name.namespace, name.name)):
        raise BadRequest(f"{name}: a name with a dot inside of a part is ambiguous here", option="table")
    return str(name)


def _text(body: Body, name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > MOST_CHARACTERS:
        raise BadRequest(f"'{name}': expected text of 1 to {MOST_CHARACTERS} characters", option=name)
    return value


def _snapshot(body: Body, name: str) -> int:
    """An id, as text: a browser's numbers end at 53 bits."""
    value = body.get(name)
    if not (isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= MOST_DIGITS):
        raise BadRequest(f"'{name}': expected the id of a snapshot as text", option=name)
    return int(value)


def _one_of(body: Body, name: str, expected: Sequence[Any]) -> Any:
    value = body.get(name, expected[0])
    if not any(value is each or (isinstance(value, str) and value == each) for each in expected):
        raise BadRequest(f"'{name}': expected one of {', '.join(map(str, expected))}", option=name)
    return value
