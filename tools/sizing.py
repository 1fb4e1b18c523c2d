"""`python -m tools.sizing`: how files, commits and metadata grow with the rows of a table, from sizes that are measured
here and now.

First a table is written on a catalog of this process, and it is measured: a row, a file's entry in a manifest, a
snapshot in the metadata file. Then arithmetic: docs/sizing.md has the formulas, and the tables that this prints.
"""

from __future__ import annotations

import argparse
import datetime as dt
import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

EXAMPLE = Path(__file__).resolve().parent.parent / "examples/sales"
DAYS = 365
MERGED_AT = 100  # manifests: `commit.manifest.min-count-to-merge`
WAYS = ("batch", "stream")


@dataclass(frozen=True)
class Sizes:
    """Bytes, as measured."""

    landing_row: float  # of a CSV file
    row: float  # of a data file of many rows
    metadata: float  # the metadata file of a table without snapshots
    snapshot: float  # what each one adds to it
    manifest_list: float  # without entries
    manifest_entry: float  # what each manifest adds to a list
    manifest: float  # without entries
    file_entry: float  # what each data file adds to a manifest


@dataclass(frozen=True)
class Growth:
    """What a table has after a year with a number of rows."""

    rows: int
    data_bytes: float
    commits: int
    files_written: int
    files: int  # after compaction
    manifest_bytes: float  # of these, read by a scan that skips nothing
    metadata_bytes: float  # of the metadata file, read at every load and written at every commit
    metadata_bytes_unexpired: float  # the same, if no snapshot ever expires
    written_bytes: float  # of metadata, in the year


def grow(
    rows: int, way: str, sizes: Sizes, *, interval: float, kafka_partitions: int, keep_days: float, target_bytes: int
) -> Growth:
    """A year in a table with a partition a day: a load a day, or a commit each `interval` seconds."""
    from frazil.pipelines.files.slices import TASK_BYTES
    from frazil.pipelines.sources import KafkaSource

    loads = DAYS
    if way == "batch":
        files_a_load = max(1, math.ceil(rows / loads * sizes.landing_row / TASK_BYTES))
        commits = 2 * loads  # each run takes the pipeline over first, with an empty commit
    else:
        intervals = int(DAYS * 86_400 / interval)
        # more than one batch has is read by the next
        loads = intervals * math.ceil(rows / intervals / KafkaSource.max_messages)
        files_a_load = min(kafka_partitions, max(1, math.ceil(rows / loads)))
        commits = loads
    files = DAYS * max(1, math.ceil(rows / DAYS * sizes.row / target_bytes))
    metadata = sizes.metadata + sizes.snapshot * max(1, commits / DAYS * keep_days)
    # of the manifests that wait to be merged, half on average
    a_list = sizes.manifest_list + sizes.manifest_entry * MERGED_AT / 2
    # an entry is written once more when its manifest is merged
    manifests = sizes.manifest + 2 * sizes.file_entry * files_a_load
    return Growth(
        rows=rows,
        data_bytes=rows * sizes.row,
        commits=commits,
        files_written=loads * files_a_load,
        files=files,
        manifest_bytes=sizes.manifest + sizes.file_entry * files,
        metadata_bytes=metadata,
        metadata_bytes_unexpired=sizes.metadata + sizes.snapshot * commits,
        written_bytes=commits * (metadata + a_list) + loads * manifests,
    )


# --- measuring -------------------------------------------------------------------------------------------------------


def measure(folder: Path, *, rows: int = 200_000, commits: int = 20, days: int = 50) -> Sizes:
    """The sizes of the sales example's table, written by the sink on a catalog of this process."""
    from frazil.catalog.embedded import running_catalog
    from frazil.client import connect
    from frazil.config import load_settings
    from frazil.project import load_project
    from frazil.sinks import open as open_sink
    from frazil.tables.apply import apply_steps, plan_all

    folder.mkdir(parents=True, exist_ok=True)
    with running_catalog(folder / "catalog") as server:
        catalog = connect(load_settings(flags={"catalog.uri": server.uri}, folder=folder, environ={}))
        list(apply_steps(plan_all(load_project(EXAMPLE).tables, catalog), catalog))

        def load() -> Table:
            return catalog.load_table("lakehouse.sales")

        empty = _size(load().metadata_location)
        orders, landing_row = _orders(folder, rows)
        seen = []
        with open_sink("lakehouse.sales", name="sizing", catalog=catalog, checks=["amount >= 0"]) as sink:
            written = 0
            for batch in [orders.slice(0, 1)] * (commits + 1) + [_over_days(orders, days), orders]:
                written += batch.num_rows
                sink.write(batch, position=written)
                sink.commit()
                seen.append(_look(load()))
    result, last, spread, bulk = seen[0], seen[commits], seen[commits + 1], seen[commits + 2]
    file_entry = (spread["manifest"] - result["manifest"]) / (days - 1)
    entry = (last["list"] - result["list"]) / commits
    return Sizes(
        landing_row=landing_row,
        row=bulk["row"],
        metadata=empty,
        snapshot=(last["metadata"] - result["metadata"]) / commits,
        manifest_list=result["list"] - entry,
        manifest_entry=entry,
        manifest=result["manifest"] - file_entry,
        file_entry=file_entry,
    )


def _look(table: Table) -> dict[str, float]:
    """The sizes of what the last commit wrote."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    added = [item for item in snapshot.manifests(table.io) if item.added_snapshot_id == snapshot.snapshot_id]
    files = [entry.data_file for item in added for entry in item.fetch_manifest_entry(table.io)]
    return {
        "metadata": _size(table.metadata_location),
        "list": _size(snapshot.manifest_list),
        "manifest": sum(item.manifest_length for item in added),
        "row": sum(file.file_size_in_bytes for file in files) / sum(file.record_count for file in files),
    }


def _size(location: str) -> float:
    return Path(location.removeprefix("file://")).stat().st_size


def _orders(folder: Path, rows: int) -> tuple[pa.Table, float]:
    """Orders as the example lands them, typed; and the bytes of a line."""
    import pyarrow as pa
    import pyarrow.csv as csv

    sys.path.insert(0, str(EXAMPLE))
    try:
        import landing  # type: ignore[import-not-found]  # the example's own
    finally:
        sys.path.remove(str(EXAMPLE))
    path: Path = landing.write_day(folder, landing.FIRST_DAY, rows)
    types = {"amount": pa.decimal128(12, 2), "ingestion_date": pa.date32(), "updated_at": pa.string()}
    options = csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    return csv.read_csv(path, convert_options=options).drop_columns(["updated_at"]), path.stat().st_size / rows


def _over_days(orders: pa.Table, days: int) -> pa.Table:
    """One order a day."""
    import pyarrow as pa

    first = dt.date(2024, 2, 1)
    dates = pa.array([first + dt.timedelta(days=n) for n in range(days)])
    some = orders.slice(0, days)
    return some.set_column(some.column_names.index("ingestion_date"), some.schema.field("ingestion_date"), dates)


# --- printing --------------------------------------------------------------------------------------------------------


def render(sizes: Sizes, powers: Sequence[int], **model: Any) -> str:
    """The measured sizes and a table for each way of writing, as Markdown."""
    lines = ["| measured | bytes |", "| --- | --- |"]
    lines += [f"| {name.replace('_', ' ')} | {value:,.1f} |" for name, value in asdict(sizes).items()]
    head = (
        "| rows | data | commits | files written | after compaction | their manifests | metadata file | unexpired "
        "| metadata written |"
    )
    for way in WAYS:
        lines += ["", f"{way}:", "", head, "| --- " * len(fields(Growth)) + "|"]
        lines += [_line(grow(10**power, way, sizes, **model)) for power in powers]
    return "\n".join(lines)


def _line(growth: Growth) -> str:
    counts = [f"{growth.commits:,}", f"{growth.files_written:,}", f"{growth.files:,}"]
    sizes = [growth.manifest_bytes, growth.metadata_bytes, growth.metadata_bytes_unexpired, growth.written_bytes]
    return (
        "| "
        + " | ".join([f"10^{round(math.log10(growth.rows))}", spell(growth.data_bytes), *counts, *map(spell, sizes)])
        + " |"
    )


def spell(number: float) -> str:
    """Bytes for people.

    >>> spell(950), spell(1_240_000), spell(3.2e15)
    ('950 B', '1.2 MB', '3.2 PB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} PB"


def main() -> None:
    from frazil.upkeep.policy import DAY_MS, Policy

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", type=float, help="bytes of a row of yours in Parquet, in place of the example's")
    parser.add_argument("--interval", type=float, default=60, help="seconds between the commits of a stream")
    parser.add_argument("--kafka-partitions", type=int, default=8)
    parser.add_argument(
        "--keep-days", type=float, default=Policy.max_snapshot_age_ms / DAY_MS, help="how long snapshots are kept"
    )
    parser.add_argument(
        "--target-mb", type=int, default=Policy.target_file_bytes >> 20, help="how large compacted files become"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sizes = measure(Path(folder))
    if arguments.row:
        sizes = Sizes(**{**asdict(sizes), "row": arguments.row})
    model = {
        "interval": arguments.interval,
        "kafka_partitions": arguments.kafka_partitions,
        "keep_days": arguments.keep_days,
    }
    print(render(sizes, range(6, 13), target_bytes=arguments.target_mb << 20, **model))


if __name__ == "__main__":
    main()
