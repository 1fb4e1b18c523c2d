"""The first rows of a table as of a snapshot, as text: read by the server, within limits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime, time
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any

from frazil.catalog import Context, Request, Response, as_bad_request, can_plan, json_response
from frazil.errors import BadRequest, NotSupported, TooBusy

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS, DEFAULT_ROWS = 500, 100
MOST_COLUMNS = 200
MOST_CHARACTERS = 2_000  # of a value
AT_ONCE = BoundedSemaphore(2)


def show_rows(ctx: Context, request: Request) -> Response:
    """The first rows, in the order of the plan, with the columns that the table had at the snapshot."""
    check_installed()
    from frazil.catalog import open_served

    snapshot_id, limit = whole_number(request, "snapshot"), whole_number(request, "limit")
    limit = DEFAULT_ROWS if limit is None else limit
    if not 1 <= limit <= MOST_ROWS:
        raise BadRequest(f"limit: expected 1 to {MOST_ROWS}, got {limit}", option="limit")
    if not AT_ONCE.acquire(blocking=False):
        raise TooBusy("The server reads rows for others", hint="try again")
    try:
        scan = as_bad_request(lambda: open_served(ctx, request, snapshot_id=snapshot_id, limit=limit))
        if scan.request.snapshot_id is None:
            return json_response({"snapshot_id": None, "columns": [], "rows": [], "more_columns": 0})
        rows = as_bad_request(scan.to_arrow)
    finally:
        AT_ONCE.release()
    answer = to_text(rows, [str(field.field_type) for field in scan.fields])
    return json_response({"snapshot_id": str(scan.request.snapshot_id), **answer})


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


def to_text(rows: pa.Table, types: Sequence[str]) -> dict[str, Any]:
    """Columns with their types in Iceberg, and rows of texts; a null stays null."""
    import pyarrow as pa

    shown = rows.select(range(min(rows.num_columns, MOST_COLUMNS)))
    columns = [shown.column(at).to_pylist() for at in range(shown.num_columns)]
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return {
        "columns": [
            {"name": field.name, "type": kind, "number": any(test(field.type) for test in numbers)}
            for field, kind in zip(shown.schema, types, strict=False)
        ],
        "rows": [[cut(value) for value in row] for row in zip(*columns, strict=True)],
        "more_columns": rows.num_columns - shown.num_columns,
    }


def cut(value: Any) -> str | None:
    """A value as text, as far as a cell has room.

    >>> cut(None), cut(b"\\x01\\xff"), cut([1, None]), cut(2**60), cut("x" * 3000)[-20:]
    (None, '01ff', '[1, null]', '1152921504606846976', 'x… (3000 characters)')
    """
    if value is None:
        return None
    text = _text(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}… ({len(text)} characters)"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, bytes):
        return value[:MOST_CHARACTERS].hex()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime | date | time):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, default=_text, ensure_ascii=False)
    return str(value)
