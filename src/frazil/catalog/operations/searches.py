"""Vector search: the rows of a table that are nearest to vectors, found and read here.

Not of the specification. The server reads data files for it, by its own access, inside the warehouse and the allowed
locations only; clients without access to the files get rows this way.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from frazil.catalog import fields
from frazil.catalog.context import Context
from frazil.catalog.http import ARROW_STREAM, Request, Response, json_response
from frazil.catalog.operations.indexes import show_index
from frazil.catalog.operations.scans import ANSWER_BYTES, as_bad_request, can_plan, open_table, read_filter, read_names
from frazil.catalog.store.indexes import list_of
from frazil.config import Limits
from frazil.errors import BadRequest, NotSupported, ScanError, TooBusy
from frazil.protocol import METRICS

if TYPE_CHECKING:
    import pyarrow as pa

    from frazil.catalog.owned import OwnPlaces
    from frazil.scan.planning import TableState
    from frazil.vector import Nearest, NearestReport

Json = dict[str, Any]

WHERE = "Search request"
MOST_DIMENSION = 65_536
DEFAULT_K = 10
JSON_ROWS = 256  # that are made Python's objects at a time


@cache
def can_search() -> bool:
    """Whether the libraries that searches need are installed."""
    return can_plan() and importlib.util.find_spec("numpy") is not None


def search_table(ctx: Context, request: Request) -> Response:
    """The rows that are nearest to a vector, or to each of several, as JSON or as an Arrow stream."""
    if ctx.searches is None:
        raise NotSupported(
            "This server runs no searches",
            hint="search in the client, or set server.limits.searches",
            option="searches",
        )
    state, own = open_table(ctx, request)
    wanted = Wanted.of(request.json(), state, ctx.limits)
    if not ctx.searches.acquire(blocking=False):
        raise TooBusy(f"The server runs {ctx.limits.searches} searches already", hint="try again")
    try:
        nearest: Nearest = as_bad_request(lambda: _open(ctx, request, state, wanted, own))
        rows: pa.Table = as_bad_request(nearest.to_arrow)
        report = nearest.explain()
    finally:
        ctx.searches.release()
    if ARROW_STREAM in (request.header(b"accept") or ""):
        return Response(200, _to_stream(rows), [(b"content-type", ARROW_STREAM.encode())])
    return json_response({"snapshot-id": wanted.snapshot_id, "rows": _to_json(rows), "search": _show(report)})


# --- what is asked for -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a client asks for, checked as far as that needs no file."""

    column: str
    vectors: list[Any]  # numbers, or lists of them
    k: int
    metric: str | None  # None: that of the column's only index, or the cosine
    exact: bool  # no index is used
    snapshot_id: int | None
    schema_id: int
    select: tuple[str, ...] | None
    filter: Any
    case_sensitive: bool

    @classmethod
    def of(cls, body: Json, state: TableState, limits: Limits) -> Wanted:
        snapshot_id = fields.integer_or_none(body, "snapshot-id", WHERE, most=fields.LONG_MAX)
        of_snapshot = fields.boolean(body, "use-snapshot-schema", WHERE, default=False)
        schema_id = state.current_schema_id
        snapshot_id = state.current_snapshot_id if snapshot_id is None else snapshot_id
        if snapshot_id is not None:
            snapshot = as_bad_request(lambda: state.snapshot(snapshot_id))
            schema_id = snapshot.schema_id if of_snapshot and snapshot.schema_id is not None else schema_id
        vectors = _read_vectors(body, limits)
        k = DEFAULT_K if body.get("k") is None else fields.integer(body, "k", WHERE)
        count = len(vectors) if isinstance(vectors[0], list) else 1
        if not 1 <= k <= limits.search_results // count:
            raise BadRequest(
                f"{WHERE}: 'k' must be from 1 to {limits.search_results // count:,} for {count:,} vectors, got {k}",
                option="k",
                got=k,
            )
        metric = fields.text_or_none(body, "metric", WHERE)
        if metric is not None and metric not in METRICS:
            raise BadRequest(
                f"{WHERE}: 'metric' must be one of {', '.join(METRICS)}, got {metric[:40]!r}", option="metric"
            )
        select = read_names(body, "select", limits.filter_literals) if body.get("select") is not None else None
        return cls(
            fields.text(body, "column", WHERE),
            vectors,
            k,
            metric,
            fields.boolean(body, "exact", WHERE, default=False),
            snapshot_id,
            schema_id,
            None if select is None else tuple(select),
            body.get("filter"),
            fields.boolean(body, "case-sensitive", WHERE, default=True),
        )


def _read_vectors(body: Json, limits: Limits) -> list[Any]:
    """One vector, or several: lists of numbers, all of one length."""
    if (body.get("vector") is None) == (body.get("vectors") is None):
        raise BadRequest(f"{WHERE}: either 'vector' or 'vectors' is needed", option="vector")
    if body.get("vector") is not None:
        return _read_vector(body["vector"], "vector")
    vectors = body["vectors"]
    if not isinstance(vectors, list) or not 1 <= len(vectors) <= limits.search_vectors:
        raise BadRequest(f"{WHERE}: 'vectors' must be a list of 1 to {limits.search_vectors} vectors", option="vectors")
    checked = [_read_vector(vector, "vectors") for vector in vectors]
    if len({len(vector) for vector in checked}) > 1:
        raise BadRequest(f"{WHERE}: 'vectors' must all have the same dimension", option="vectors")
    return checked


def _read_vector(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_DIMENSION:
        raise BadRequest(f"{WHERE}: '{name}' must be a list of 1 to {MOST_DIMENSION:,} numbers", option=name)
    if not all(type(number) in (int, float) for number in value):
        raise BadRequest(f"{WHERE}: '{name}' must have numbers only", option=name)
    return value


def _open(ctx: Context, request: Request, state: TableState, wanted: Wanted, own: OwnPlaces | None) -> Nearest:
    """The search, ready to run: by an index of the column for the metric, if there is one."""
    from frazil.catalog.owned import are_own, manifests_of
    from frazil.catalog.searched import Allowance, ServedFiles, ServedScan
    from frazil.scan.planning import Files, ScanRequest, Source
    from frazil.vector import IndexRecord, open_nearest, with_copies

    case_sensitive = wanted.case_sensitive
    row_filter = read_filter(
        wanted.filter, state.schema(wanted.schema_id), state, case_sensitive=case_sensitive, limits=ctx.limits
    )
    if not row_filter.complete:
        raise ScanError(
            f"the filter on {state.name} has a predicate on a transform or function: a search cannot apply it",
            table=state.name,
            problem="filter",
        )
    files = ServedFiles(ctx.warehouses, ctx.warehouse(request), ctx.files, own)
    scan = ServedScan(
        state,
        Source(Files(files), manifests_of(ctx, request, own, files=True)),
        ScanRequest(row_filter.expr, wanted.snapshot_id, case_sensitive=case_sensitive, schema_id=wanted.schema_id),
        wanted.select,
        allowance=Allowance(ctx.limits, request.check_client, wanted.column),
    )
    stored = [] if wanted.exact else list_of(ctx.database.read(), state.uuid)
    records = [IndexRecord.of(show_index(index), table=state.name) for index in stored]
    if not wanted.exact:
        records = with_copies(records, state, files, field_id=_field_id(state, wanted))
    # What searches have read of indexes is shared, too: files of others are not asked for.
    records = [record for record in records if are_own(own, record.codebook, *(file.path for file in record.segments))]
    return open_nearest(
        scan,
        wanted.column,
        wanted.vectors,
        k=wanted.k,
        metric=wanted.metric,
        records=records,
        opened=ctx.indexes(request),
        io=files,
    )


def _field_id(state: TableState, wanted: Wanted) -> int | None:
    fields = state.schema(wanted.schema_id).fields
    return next((field.field_id for field in fields if field.name == wanted.column), None)


# --- the answer ------------------------------------------------------------------------------------------------------


def _show(report: NearestReport) -> Json:
    return {
        "files-indexed": report.files_indexed,
        "lists-probed": report.index.lists,
        "rows-scored": report.index.rows_scored,
        "index-bytes": report.index.fetched.size,
        "files-exact": report.files_exact,
        "rows-exact": report.rows_exact,
        "problem": report.problem,
        "repair": report.repair,
    }


def _to_stream(rows: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue())


def _to_json(rows: pa.Table) -> orjson.Fragment:
    """The rows as objects by the names of their columns; numbers that are not finite are null. As Python's objects they
    take many times the memory: a few are made at a time.
    """
    from frazil.catalog.searched import answer_too_long

    pieces, size = [], 0
    try:
        for batch in rows.to_batches(max_chunksize=JSON_ROWS):
            pieces.append(orjson.dumps(batch.to_pylist(), default=_plain)[1:-1])
            size += len(pieces[-1])
            if size > ANSWER_BYTES:
                raise answer_too_long()
    except (ValueError, TypeError, OverflowError) as exc:
        raise BadRequest(
            f"The rows cannot be written as JSON: {exc}",
            hint=f"ask for them with Accept: {ARROW_STREAM}",
            problem="json",
        ) from exc
    return orjson.Fragment(b"[" + b",".join(pieces) + b"]")


def _plain(value: Any) -> Any:
    """Decimals and nanoseconds as text, bytes in hexadecimal digits."""
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
