"""Queries of the console, in a child process: on a DuckDB that reads the caller's tables and nothing else, within
limits of memory, rows and bytes. The server ends the process if it takes too long.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from frazil.console.rows import show_value, to_text, to_values

if TYPE_CHECKING:
    import pyarrow as pa

    from frazil.lake import Lake, OpenQuery
    from frazil.scan.reading import RowScan

MOST_CSV_ROWS = 1_000_000
MOST_COLUMNS = 200
MOST_BYTES = 16 << 20  # of a result in Arrow; of a CSV file, as text
MOST_REPORTS = 12  # scans that are explained
MOST_FOOTERS = 32  # files of a scan whose row groups are explained
EMBED = "embed"  # the only key of an answer that asks for the vectors of texts
SETTINGS: dict[str, str | int] = {"memory_limit": "1GB", "threads": 2, "temp_directory": ""}
# Arrow's types in the words of Iceberg
TYPES = {
    "bool": "boolean",
    "int32": "int",
    "int64": "long",
    "large_string": "string",
    "large_binary": "binary",
    "date32[day]": "date",
    "time64[us]": "time",
    "timestamp[us]": "timestamp",
}


class NeedsVectors(Exception):
    """A query searches for texts whose vectors are not known here."""

    def __init__(self, table: str, column: str, texts: list[str]) -> None:
        super().__init__(f"{table}: texts for column '{column}' have no vectors yet")
        self.wanted = {"table": table, "column": column, "texts": texts}


def _open(lake: Lake, arguments: Mapping[str, Any]) -> OpenQuery:
    """The query. Texts in it are searched for by vectors that came with the job: project code makes them, which never
    runs in this process.
    """
    from frazil.lake import LakeTable, open_query
    from frazil.vector import no_embedder

    known = {
        (each["table"], each["column"], tuple(each["texts"])): each["vectors"] for each in arguments.get("vectors", ())
    }

    def embedder_of(table: str, column: str) -> Callable[[list[str]], Any]:
        def embed(texts: list[str]) -> Any:
            if (key := (table, column, tuple(texts))) not in known:
                raise NeedsVectors(table, column, texts)
            if known[key] is None:
                raise no_embedder(table, column)
            return known[key]

        return embed

    if arguments.get("embeds"):
        lake.embedder_of = embedder_of
    return open_query(lake, arguments["sql"], LakeTable, settings=SETTINGS)


def run_query_job(lake: Lake, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The first rows as text, and what the scans have skipped. `stopped` says which limit has ended it, if any. Instead
    of all that, `embed` has the texts whose vectors the query needs.
    """
    start = time.monotonic()
    try:
        query = _open(lake, arguments)
    except NeedsVectors as exc:
        return {EMBED: exc.wanted}
    rows, stopped = read_rows(query.rows, limit=arguments["limit"])
    seconds = time.monotonic() - start
    shown = rows.select(range(min(rows.num_columns, MOST_COLUMNS)))
    answer = to_text(shown, [type_name(field.type) for field in shown.schema])
    for column, field in zip(answer["columns"], shown.schema, strict=True):
        column["time"] = is_time(field.type)
    more = rows.num_columns - shown.num_columns
    facts = {"seconds": seconds, "stopped": stopped, "limit": arguments["limit"], "more_columns": more}
    return {**answer, **facts, "scans": [explain(scan) for scan in query.scans[:MOST_REPORTS]]}


def read_rows(reader: pa.RecordBatchReader, *, limit: int) -> tuple[pa.Table, str | None]:
    """The first rows, and the limit that was reached: `rows`, `bytes` or None. The rest is not computed."""
    import pyarrow as pa

    batches, count, size, stopped = [], 0, 0, None
    for batch in reader:
        if count + batch.num_rows > limit:
            batch, stopped = batch.slice(0, limit - count), "rows"
        if size + batch.nbytes > MOST_BYTES:
            batch, stopped = batch.slice(0, batch.num_rows * (MOST_BYTES - size) // batch.nbytes), "bytes"
        batches.append(batch)
        count, size = count + batch.num_rows, size + batch.nbytes
        if stopped is not None:
            break
    return pa.Table.from_batches(batches, schema=reader.schema), stopped


def explain(scan: RowScan) -> dict[str, Any]:
    """What a scan has read and skipped, and why; down to row groups where these are few."""
    report = scan.explain_files(row_groups=False)
    if report.files <= MOST_FOOTERS:
        report = scan.explain_files()
    columns = None if scan.columns is None else list(scan.columns)
    facts = report.to_json() | {"filter": str(report.filter)[:1000]}
    snapshot = None if report.snapshot_id is None else str(report.snapshot_id)
    return facts | {
        "columns": columns,
        "all_columns": len(scan.state.schema(scan.request.schema_id).fields),
        "snapshot-id": snapshot,
    }


def write_csv_job(lake: Lake, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The rows as CSV, up to a size; `more` if there are others."""
    try:
        reader = _open(lake, arguments).rows
    except NeedsVectors as exc:
        return {EMBED: exc.wanted}
    text, count, more = io.StringIO(newline=""), 0, False
    writer = csv.writer(text)
    writer.writerow(reader.schema.names)
    for row in _rows(reader):
        if count == MOST_CSV_ROWS or text.tell() > MOST_BYTES:
            more = True
            break
        writer.writerow(_csv_value(value) for value in row)
        count += 1
    return {"csv": text.getvalue(), "rows": count, "more": more}


def _rows(reader: pa.RecordBatchReader) -> Iterator[tuple[Any, ...]]:
    import pyarrow as pa

    for batch in reader:
        yield from zip(*(to_values(pa.chunked_array([column])) for column in batch.columns), strict=True)


def _csv_value(value: Any) -> str:
    return "" if value is None else value.hex() if isinstance(value, bytes) else show_value(value)


def type_name(kind: pa.DataType) -> str:
    """A type of Arrow on one line, in the words of Iceberg where there is one.

    >>> import pyarrow as pa
    >>> type_name(pa.decimal128(12, 2)), type_name(pa.large_string()), type_name(pa.list_(pa.float32()))
    ('decimal(12, 2)', 'string', 'list<float>')
    """
    import pyarrow as pa

    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{type_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return "struct"
    text = str(kind)
    if text.startswith("timestamp[us, tz="):
        return "timestamptz"
    return TYPES.get(text, text.replace("decimal128(", "decimal("))


def is_time(kind: pa.DataType) -> bool:
    """Whether values are days or moments, for the axis of a chart."""
    import pyarrow as pa

    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))
