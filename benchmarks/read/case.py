"""One case in a process of its own: `python -m benchmarks.read.case WHO QUERY METADATA ROUNDS`; prints what it cost as
JSON.

WHO is ours, pyarrow, pyiceberg, daft or duckdb. QUERY is full (every column), columns (three of six), filter (three
columns of the rows of one kind in twenty, which are everywhere) or range (three columns of one row in a hundred, which
are in one place).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

Read = Callable[[], int]  # reads once, into Arrow; how many rows there are

COLUMNS = ["id", "device", "value"]
# a column, from, up to; shares of the rows where they are no numbers
FILTERS = {"filter": ("kind", 0, 5), "range": ("id", 0.5, 0.51)}


def bounds(query: str, rows: int) -> tuple[str, int, int] | None:
    if query not in FILTERS:
        return None
    name, low, high = FILTERS[query]
    return (name, int(low), int(high)) if name == "kind" else (name, int(low * rows), int(high * rows))


def metadata_of(place: Path) -> tuple[dict[str, object], int]:
    metadata = json.loads(place.read_text())
    current = next(item for item in metadata["snapshots"] if item["snapshot-id"] == metadata["current-snapshot-id"])
    return metadata, int(current["summary"]["total-records"])


def ours(query: str, place: Path) -> Read:
    from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, LessThan
    from pyiceberg.io.pyarrow import PyArrowFileIO

    from frazil.scan.planning.plan import ScanRequest
    from frazil.scan.planning.source import Source
    from frazil.scan.planning.table import TableState
    from frazil.scan.scan import Scan

    metadata, rows = metadata_of(place)
    wanted = bounds(query, rows)
    expr = And(GreaterThanOrEqual(wanted[0], wanted[1]), LessThan(wanted[0], wanted[2])) if wanted else AlwaysTrue()
    columns = None if query == "full" else tuple(COLUMNS)
    scan = Scan(TableState("lake.events", metadata), Source.of(PyArrowFileIO()), ScanRequest(filter=expr), columns)
    return lambda: scan.to_arrow().num_rows


def pyarrow(query: str, place: Path) -> Read:
    """The limit: the same files, known beforehand, without a table's rules."""
    import pyarrow.dataset as ds
    from pyiceberg.table import StaticTable

    _, rows = metadata_of(place)
    files = [urlsplit(task.file.file_path).path for task in StaticTable.from_metadata(str(place)).scan().plan_files()]
    wanted = bounds(query, rows)
    expr = None if wanted is None else (ds.field(wanted[0]) >= wanted[1]) & (ds.field(wanted[0]) < wanted[2])
    columns = None if query == "full" else COLUMNS
    return lambda: ds.dataset(files).to_table(columns=columns, filter=expr).num_rows


def pyiceberg(query: str, place: Path) -> Read:
    from pyiceberg.table import StaticTable

    _, rows = metadata_of(place)
    wanted = bounds(query, rows)
    expr = "true" if wanted is None else f"{wanted[0]} >= {wanted[1]} and {wanted[0]} < {wanted[2]}"
    table = StaticTable.from_metadata(str(place))
    columns = ("*",) if query == "full" else tuple(COLUMNS)
    return lambda: table.scan(expr, selected_fields=columns).to_arrow().num_rows


def daft(query: str, place: Path) -> Read:
    os.environ["DAFT_PROGRESS_BAR"] = "0"
    import daft as library
    from pyiceberg.table import StaticTable

    _, rows = metadata_of(place)
    wanted, table = bounds(query, rows), StaticTable.from_metadata(str(place))

    def read() -> int:
        frame = library.read_iceberg(table)
        if wanted:
            frame = frame.where((library.col(wanted[0]) >= wanted[1]) & (library.col(wanted[0]) < wanted[2]))
        return int((frame if query == "full" else frame.select(*COLUMNS)).to_arrow().num_rows)

    return read


def duckdb(query: str, place: Path) -> Read:
    import duckdb as library

    _, rows = metadata_of(place)
    con = library.connect()
    from duckdb_extensions import import_extension

    for name in ("avro", "iceberg"):
        import_extension(name, con=con)
        con.execute(f"LOAD {name}")
    wanted = bounds(query, rows)
    where = "" if wanted is None else f" WHERE {wanted[0]} >= {wanted[1]} AND {wanted[0]} < {wanted[2]}"
    sql = f"SELECT {'*' if query == 'full' else ', '.join(COLUMNS)} FROM iceberg_scan('{place}'){where}"
    return lambda: con.execute(sql).to_arrow_table().num_rows


def peak_mb() -> float:
    text = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM:")) / 1024


def measure(who: str, query: str, place: Path, rounds: int) -> dict[str, float]:
    read = {"ours": ours, "pyarrow": pyarrow, "pyiceberg": pyiceberg, "daft": daft, "duckdb": duckdb}[who](query, place)
    walls, cpus, rows = [], [], 0
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        rows = read()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return {"rows": rows, "wall_s": min(walls), "cpu_s": min(cpus), "peak_mb": peak_mb()}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))))
