"""The first rows of a table as of a snapshot, as text: read by the server, within limits."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any

from frazil.catalog import Context, Request, Response, as_bad_request, can_plan
from frazil.console.answers import console_json, refuse_other_sites
from frazil.errors import BadRequest, NotSupported, TooBusy, Unprocessable

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS, DEFAULT_ROWS = 500, 100
MOST_COLUMNS = 200
MOST_CHARACTERS = 2_000  # of a value
MOST_SECONDS = 10.0
AT_ONCE = BoundedSemaphore(2)


def show_rows(ctx: Context, request: Request) -> Response:
    """The first rows, in the order of the plan, with the columns that the table had at the snapshot."""
    refuse_other_sites(request)
    check_installed()
    from frazil.catalog import open_served

    snapshot_id, limit = whole_number(request, "snapshot"), whole_number(request, "limit")
    limit = DEFAULT_ROWS if limit is None else limit
    if not 1 <= limit <= MOST_ROWS:
        raise BadRequest(f"limit: expected 1 to {MOST_ROWS}, got {limit}", option="limit")
    check = deadline_check(request, MOST_SECONDS)
    if not AT_ONCE.acquire(blocking=False):
        raise TooBusy("Too many previews are running", hint="try again")
    try:
        scan = as_bad_request(
            lambda: open_served(
                ctx, request, snapshot_id=snapshot_id, limit=limit, most_columns=MOST_COLUMNS, check=check
            )
        )
        if scan.request.snapshot_id is None:
            return console_json({"snapshot_id": None, "columns": [], "rows": [], "more_columns": 0})
        rows = as_bad_request(scan.to_arrow)
        answer = to_text(rows, [str(field.field_type) for field in scan.fields], check=check)
    finally:
        AT_ONCE.release()
    more = len(scan.state.schema(scan.request.schema_id).fields) - len(scan.fields)
    return console_json({"snapshot_id": str(scan.request.snapshot_id), **answer, "more_columns": more})


def deadline_check(
    request: Request,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
    *,
    what: str = "Reading the rows",
    hint: str = "read them with frazil query, or run frazil maintain if the table has many small files or deletes",
) -> Callable[[], None]:
    """A function that raises when the client has left or the time is up."""
    deadline = clock() + seconds

    def check() -> None:
        request.check_client()
        if clock() > deadline:
            raise Unprocessable(
                f"{what} took longer than {seconds:g} seconds",
                hint=hint,
                problem="too-slow",
            )

    return check


def check_installed() -> None:
    """Passes when the server can read rows and manifests."""
    if not can_plan():
        raise NotSupported(
            "This server cannot read rows and files: pyarrow is not installed", hint="pip install 'frazil[console]'"
        )


def whole_number(request: Request, name: str) -> int | None:
    """A whole number of the query; None when it is left out."""
    text = request.query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise BadRequest(f"{name}: expected a whole number, got {text[:40]!r}", option=name)
    return int(text)


def to_text(rows: pa.Table, types: Sequence[str], *, check: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Columns with their types in Iceberg, and rows of texts; a null stays null."""
    import pyarrow as pa

    columns = []
    for column in rows.columns:
        check()
        columns.append([cut(value) for value in to_values(column)])
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return {
        "columns": [
            {"name": field.name, "type": kind, "number": any(test(field.type) for test in numbers)}
            for field, kind in zip(rows.schema, types, strict=True)
        ],
        "rows": [list(row) for row in zip(*columns, strict=True)],
    }


def to_values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column as Python's objects; those that Python cannot hold as text."""
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError, TypeError, KeyError, ImportError):  # one of them, say a date after the year 9999
        return [_to_value(scalar) for scalar in column]
    return values


def _to_value(scalar: pa.Scalar) -> Any:
    """A value as Python's object, or if Python cannot hold it, as Arrow writes it."""
    import pyarrow as pa

    if not scalar.is_valid:
        return None
    try:
        return scalar.as_py()
    except (ValueError, OverflowError, TypeError, KeyError, ImportError):
        pass
    if isinstance(scalar, pa.StringScalar | pa.LargeStringScalar | pa.StringViewScalar):
        return scalar.as_buffer().to_pybytes().decode("utf-8", "replace")
    if isinstance(scalar, pa.ListScalar | pa.LargeListScalar | pa.FixedSizeListScalar):  # a map is a list of pairs
        return [_to_value(value) for value in scalar.values]
    if isinstance(scalar, pa.StructScalar):
        return {field.name: _to_value(scalar[at]) for at, field in enumerate(scalar.type)}
    try:
        return str(scalar.cast(pa.string()).as_py())
    except (pa.ArrowException, ValueError):
        return str(getattr(scalar, "value", "?"))


def cut(value: Any) -> str | None:
    """A value as text, as far as a cell has room.

    >>> cut(None), cut(b"\\x01\\xff"), cut([1, None]), cut(2**60), cut("x" * 3000)[-20:]
    (None, '01ff', '[1, null]', '1152921504606846976', 'x… (3000 characters)')
    >>> cut(Decimal("1E+3")), cut(bytes(3000))[-16:]
    ('1000', '00… (3000 bytes)')
    """
    if value is None:
        return None
    text = show_value(value)
    if len(text) <= MOST_CHARACTERS or isinstance(value, bytes):
        return text
    return f"{text[:MOST_CHARACTERS]}… ({len(text)} characters)"


def show_value(value: Any) -> str:
    """A value as text. Bytes are cut."""
    """A value as text; bytes are cut."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, bytes):
        most = MOST_CHARACTERS // 2
        return value.hex() if len(value) <= most else f"{value[:most].hex()}… ({len(value)} bytes)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime | date | time_of_day):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, list | dict | tuple):
        return show_value(json.dumps(value, default=show_value, ensure_ascii=False))
    return str(value)
