"""Scan planning: which files a client has to read, found here from the manifests.

Plans are made while the client waits, and nothing is kept: a plan id and a plan task are the request itself, with the
part of the scan that is meant, so that any server answers them. What is in one the client could have asked for anyway;
the checksum is there for damage. Where callers are known, a token is good for its own principal only, and what it asks
for is checked against the grants again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import importlib.util
import zlib
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from frazil.catalog import fields
from frazil.catalog.bodies import count_values
from frazil.catalog.context import Context
from frazil.catalog.http import NO_CONTENT, Request, Response, json_response, refuse_deep
from frazil.catalog.operations.tables import find_relation
from frazil.catalog.plan import load_current
from frazil.errors import (
    BadRequest,
    DataFileUnreadable,
    ManifestUnreadable,
    NoSuchPlan,
    NoSuchPlanTask,
    NotSupported,
    ScanError,
    Unprocessable,
)

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

    from frazil.catalog.names import Name
    from frazil.catalog.owned import OwnPlaces
    from frazil.config import Limits
    from frazil.scan.planning import ParsedFilter, Planner, TableState
    from frazil.scan.rest import Page, Span

Json = dict[str, Any]

WHERE = "Plan request"
DIGEST_BYTES = 8
TOKEN_BYTES = 4 * 1024 * 1024  # what a token may unpack to
TOKEN_VALUES = 500_000  # that it may have
ID_LENGTH = 8 * 1024  # of a plan's id
ANSWER_BYTES = 16 * 1024 * 1024  # that the filter may take in an answer, with all files and tasks that repeat it
FILE_BYTES = 1024  # of a file in an answer, about


@cache
def can_plan() -> bool:
    """Whether the library that plans are made with is installed."""
    return importlib.util.find_spec("pyarrow") is not None


# --- operations ------------------------------------------------------------------------------------------------------


def plan_table_scan(ctx: Context, request: Request) -> Response:
    """A scan's first files, and plan tasks for the others."""
    state, own = open_table(ctx, request)
    wanted = _read_request(request.json(), state, most=ctx.limits.filter_literals)
    planned = _Planned(ctx, request, state, wanted, own)
    planned.check_select()
    page = planned.page()
    tasks = [] if planned.is_enough(page) else planned.tasks(page)
    return json_response({"status": "completed", "plan-id": planned.plan_id(), **planned.to_json(page, tasks)})


def fetch_planning_result(ctx: Context, request: Request) -> Response:
    """The answer of a plan, once more."""
    state, own = open_table(ctx, request)
    token = _unpack(request.variables["plan-id"], state, NoSuchPlan, ctx.gate.plan_secret(request))
    planned = _Planned(ctx, request, state, token, own)
    page = planned.page()
    return json_response({"status": "completed", **planned.to_json(page, planned.tasks(page))})


def cancel_planning(ctx: Context, request: Request) -> Response:
    """Nothing is held for a plan, so there is nothing to let go."""
    (state, _), text, secret = open_table(ctx, request), request.variables["plan-id"], ctx.gate.plan_secret(request)
    token = _open(text, secret)
    if not (isinstance(token, dict) and token.get("table") == state.uuid and "id" in token):
        _unpack(text, state, NoSuchPlan, secret)
    return NO_CONTENT


def fetch_scan_tasks(ctx: Context, request: Request) -> Response:
    """The files of a plan task, and further tasks if it has too many for one answer."""
    state, own = open_table(ctx, request)
    text, secret = fields.text(request.json(), "plan-task", "Fetch scan tasks"), ctx.gate.plan_secret(request)
    token = _unpack(text, state, NoSuchPlanTask, secret)
    planned = _Planned(ctx, request, state, token, own)
    page = planned.page()
    return json_response(planned.to_json(page, planned.tasks(page)))


def open_table(ctx: Context, request: Request, name: Name | None = None) -> tuple[TableState, OwnPlaces | None]:
    """The table of a request, or another one, as it is now, and the places in which its files are read for this
    caller.
    """
    if not can_plan():
        raise NotSupported(
            "This server cannot plan scans: pyarrow is not installed",
            hint="pip install 'frazil[sinks]', or plan in the client",
        )
    from frazil.catalog.owned import own_places
    from frazil.scan.planning import TableState

    name = name or request.name()
    relation = find_relation(ctx.database.read(), ctx.warehouse(request), name, "table")
    metadata = load_current(ctx, name, relation).metadata
    return TableState(str(name), metadata), own_places(ctx, request, name, metadata)


# --- what is asked for -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A scan: what the client asked for, pinned to snapshots and a schema, and which part of it."""

    body: Json
    snapshot_id: int | None
    start_id: int | None
    end_id: int | None
    schema_id: int
    span: Span | None = None  # all of it when None
    select: tuple[str, ...] = ()
    min_rows: int | None = None


def _read_request(body: Json, state: TableState, *, most: int) -> _Wanted:
    snapshot, start, end = (_id(body, name) for name in ("snapshot-id", "start-snapshot-id", "end-snapshot-id"))
    if snapshot is not None and (start is not None or end is not None):
        raise BadRequest(f"{WHERE}: 'snapshot-id' and 'start-snapshot-id' with 'end-snapshot-id' exclude each other")
    if start is not None and end is None:
        raise BadRequest(f"{WHERE}: 'start-snapshot-id' needs 'end-snapshot-id'")
    if end is not None and start is None:
        raise BadRequest(f"{WHERE}: 'end-snapshot-id' needs 'start-snapshot-id'")
    case_sensitive = fields.boolean(body, "case-sensitive", WHERE, default=True)
    of_snapshot = fields.boolean(body, "use-snapshot-schema", WHERE, default=False)
    select, stats = (read_names(body, name, most) for name in ("select", "stats-fields"))
    min_rows = fields.integer_or_none(body, "min-rows-requested", WHERE, most=fields.LONG_MAX)
    if snapshot is None and end is None:
        snapshot = state.current_snapshot_id  # from here on it stays that one, whatever is committed
    schema_id = state.current_schema_id
    pinned = end if end is not None else snapshot
    if pinned is not None:
        current = as_bad_request(lambda: state.snapshot(pinned))
        schema_id = current.schema_id if of_snapshot and current.schema_id is not None else schema_id
    kept = {"filter": body.get("filter"), "case-sensitive": case_sensitive, "stats-fields": stats}
    return _Wanted(kept, snapshot, start, end, schema_id, select=tuple(select), min_rows=min_rows)


def read_filter(node: Any, schema: Schema, state: TableState, *, case_sensitive: bool, limits: Limits) -> ParsedFilter:
    """The filter of a request, within the limits; always true if there is none."""
    from pyiceberg.expressions import AlwaysTrue

    from frazil.scan.planning import FilterReader, ParsedFilter

    if node is None:
        return ParsedFilter(AlwaysTrue(), complete=True)
    if (size := len(orjson.dumps(node))) > limits.filter_bytes:
        raise ScanError(f"the filter on {state.name} has {size} bytes; at most {limits.filter_bytes} are accepted")
    reader = FilterReader(schema, table=state.name, case_sensitive=case_sensitive, max_literals=limits.filter_literals)
    return reader.read(node)


def read_names(body: Json, name: str, most: int) -> list[str]:
    names = fields.texts(body, name, WHERE) if body.get(name) is not None else []
    if len(names) > most:
        raise BadRequest(f"{WHERE}: '{name}' has {len(names)} names; at most {most} are accepted")
    return names


def _id(body: Json, name: str) -> int | None:
    return fields.integer_or_none(body, name, WHERE, most=fields.LONG_MAX)


def as_bad_request(action: Any) -> Any:
    """The action's result; what is wrong with a scan is what is wrong with the request, unless a file is."""
    try:
        return action()
    except (ManifestUnreadable, DataFileUnreadable) as exc:
        raise Unprocessable(exc.message, hint=exc.hint) from exc
    except ScanError as exc:
        raise BadRequest(exc.message, hint=exc.hint) from exc
    except RecursionError as exc:
        raise BadRequest(
            f"{WHERE}: the filter is nested too deeply", hint="use IN for long lists of values", problem="too-deep"
        ) from exc


# --- tokens ----------------------------------------------------------------------------------------------------------


def _pack(token: Json, secret: bytes = b"") -> str:
    """
    >>> _open(_pack({"a": 1})), _open(_pack({"a": 1}, b"own"), b"other")
    ({'a': 1}, None)
    """
    packed = zlib.compress(orjson.dumps(token), 6)
    return base64.urlsafe_b64encode(_digest(packed, secret) + packed).decode().rstrip("=")


def _open(text: str, secret: bytes = b"") -> Any:
    """What is in a token; None if it is not one, not whole, or of another principal."""
    try:
        raw = base64.b64decode((text + "=" * (-len(text) % 4)).encode("ascii"), altchars=b"-_", validate=True)
        if not hmac.compare_digest(raw[:DIGEST_BYTES], _digest(raw[DIGEST_BYTES:], secret)):
            return None
        plain = zlib.decompressobj().decompress(raw[DIGEST_BYTES:], TOKEN_BYTES)
        if count_values(plain, TOKEN_VALUES) > TOKEN_VALUES:
            return None
        token = orjson.loads(plain)
        refuse_deep(plain, token)
    except (binascii.Error, ValueError, zlib.error, BadRequest):
        return None
    return token


def _digest(packed: bytes, secret: bytes) -> bytes:
    """Where callers are known, a token is signed for the one that it was made for; else this is a checksum."""
    text = b"frazil plan\x00" + packed
    return (hmac.digest(secret, text, "sha256") if secret else hashlib.sha256(text).digest())[:DIGEST_BYTES]


def _unpack(text: str, state: TableState, refusal: type[NoSuchPlan] | type[NoSuchPlanTask], secret: bytes) -> _Wanted:
    what = "Plan id" if refusal is NoSuchPlan else "Plan task"
    try:
        token = _open(text, secret)
        if token["table"] != state.uuid:
            raise refusal(f"{what} belongs to another table than {state.name}")
        wanted = _read_token(token, state)
    except (KeyError, TypeError, ValueError, BadRequest) as exc:
        raise refusal(
            f"{what} does not exist: {text[:40]}{'...' if len(text) > 40 else ''}", hint="Plan the scan again"
        ) from exc
    try:
        for pinned in (wanted.snapshot_id, wanted.end_id):
            if pinned is not None:
                state.snapshot(pinned)
    except ScanError as exc:
        raise refusal(f"{what} is of a snapshot that is gone: {exc.message}", hint=exc.hint) from exc
    return wanted


def _read_token(token: Json, state: TableState) -> _Wanted:
    """What a token asks for, checked as a request is: its checksum tells damage, not a forgery."""
    names = ("snapshot-id", "start-snapshot-id", "end-snapshot-id")
    body = fields.mapping(token, "body", "Token")
    pins = dict(zip(names, token["snapshots"], strict=True))
    own = {"use-snapshot-schema": False, "select": None, "min-rows-requested": None}
    wanted = _read_request({**body, **pins, **own}, state, most=TOKEN_VALUES)
    schema_id = fields.integer(token, "schema", "Token")
    return replace(wanted, snapshot_id=pins["snapshot-id"], schema_id=schema_id, span=_span(token["span"]))


def _span(value: Any) -> Span | None:
    from frazil.scan.rest import Span

    if value is None:
        return None
    start, stop = value
    span = Span(_place(start), None if stop is None else _place(stop))
    if span.stop is not None and span.stop < span.start:
        raise ValueError("a span ends before it starts")
    return span


def _place(value: Any) -> tuple[int, int]:
    number, row = value
    if (
        type(number) is not int
        or type(row) is not int
        or not (0 <= number <= fields.INT_MAX and 0 <= row <= fields.INT_MAX)
    ):
        raise ValueError("a place is two whole numbers")
    return number, row


# --- plans -----------------------------------------------------------------------------------------------------------


class _Planned:
    """One scan of one request."""

    def __init__(
        self, ctx: Context, request: Request, state: TableState, wanted: _Wanted, own: OwnPlaces | None
    ) -> None:
        self._ctx, self._request, self._state, self._wanted, self._own = ctx, request, state, wanted, own
        self._planner: Planner = as_bad_request(self._make_planner)

    def _make_planner(self) -> Planner:
        from frazil.catalog.owned import manifests_of
        from frazil.scan.planning import Planner, ScanRequest, check_column

        wanted, state, body = self._wanted, self._state, self._wanted.body
        schema, case_sensitive, node = state.schema(wanted.schema_id), body["case-sensitive"], body["filter"]
        self._filter_bytes = 0 if node is None else len(orjson.dumps(node))
        row_filter = read_filter(node, schema, state, case_sensitive=case_sensitive, limits=self._ctx.limits)
        # What cannot be understood here is left to the client, as it was sent.
        self._residual = None if row_filter.complete else node
        names = (
            check_column(name, schema, table=state.name, case_sensitive=case_sensitive) for name in body["stats-fields"]
        )
        self._stats = frozenset(schema.find_field(name).field_id for name in names)
        request = ScanRequest(
            row_filter.expr,
            wanted.snapshot_id,
            wanted.start_id,
            wanted.end_id,
            case_sensitive=case_sensitive,
            schema_id=wanted.schema_id,
        )
        manifests = manifests_of(self._ctx, self._request, self._own)
        return Planner(state, manifests, request, check=self._request.check_client)

    def check_select(self) -> None:
        """Passes when the table has every column that the client selects."""
        from frazil.scan.planning import check_column

        case_sensitive = self._wanted.body["case-sensitive"]
        for name in self._wanted.select:
            as_bad_request(
                lambda name=name: check_column(
                    name, self._planner.schema, table=self._state.name, case_sensitive=case_sensitive
                )
            )

    def page(self) -> Page:
        from frazil.scan.rest import PAGE_FILES, Span, make_page

        span = self._wanted.span or Span()
        # Each file has what is left of the filter for it.
        size = min(PAGE_FILES, self._ctx.limits.plan_files, max(1, ANSWER_BYTES // (FILE_BYTES + self._filter_bytes)))
        quota, caller = self._ctx.plan_quota, self._request.caller
        if quota is not None and caller is not None:
            quota.check(caller.principal)
        page: Page = as_bad_request(lambda: make_page(self._planner, span, page_files=size))
        if quota is not None and caller is not None:
            quota.take(caller.principal, sum(len(group.manifest) for group in page.groups))
        return page

    def is_enough(self, page: Page) -> bool:
        """Whether the client has asked for no more rows than these files surely have."""
        from pyiceberg.expressions import AlwaysTrue

        wanted = self._wanted.min_rows
        if wanted is None or not isinstance(self._planner.bound, AlwaysTrue) or self._residual is not None:
            return False
        return not as_bad_request(lambda: self._planner.deletes.count) and page.rows >= wanted

    def to_json(self, page: Page, tasks: list[str]) -> Json:
        from frazil.scan.rest import tasks_to_json

        answer: Json = as_bad_request(
            lambda: tasks_to_json(self._planner, page.groups, stats=self._stats, residual=self._residual)
        )
        return {"plan-tasks": tasks, **answer} if tasks else answer

    def tasks(self, page: Page) -> list[str]:
        """Tokens for what is not in the page. Each holds the filter: of a long one there are few, and the last stands
        for all others.
        """
        from frazil.scan.rest import Span

        most, rest = max(1, ANSWER_BYTES // (FILE_BYTES + self._filter_bytes)), page.rest
        if len(rest) > most:
            rest = [*rest[: most - 1], Span(rest[most - 1].start, rest[-1].stop)]
        return [self._pack(self.token(span)) for span in rest]

    def plan_id(self) -> str:
        """The id of the plan; it is part of a URL, so one with a long filter cannot be fetched, only cancelled."""
        packed = self._pack(self.token(None))
        return packed if len(packed) <= ID_LENGTH else self._pack({"table": self._state.uuid, "id": packed[:32]})

    def _pack(self, token: Json) -> str:
        return _pack(token, self._ctx.gate.plan_secret(self._request))

    def token(self, span: Span | None) -> Json:
        wanted = self._wanted
        part = None if span is None else (span.start, span.stop)
        snapshots = (wanted.snapshot_id, wanted.start_id, wanted.end_id)
        return {
            "table": self._state.uuid,
            "body": wanted.body,
            "snapshots": snapshots,
            "schema": wanted.schema_id,
            "span": part,
        }
