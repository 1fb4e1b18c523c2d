"""One case in a process of its own: `python -m benchmarks.sink.case WRITER SPLIT INPUT PLACE`; prints what it cost as
JSON.

WRITER is ours, ours-delta, raw, pyiceberg, deltalake, daft or pandas; SPLIT is flat, day or bucket; PLACE is the
catalog's address. Which pandas it is, and how the object store is reached, is said by the environment.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.sink.rows import SCHEMA

SPLITS: dict[str, list[str]] = {"flat": [], "day": ["day(event_timestamp)"], "bucket": ["bucket(1000, device_id)"]}


def anonymous_mb() -> float:
    """The program's own memory: pages of mapped files do not count."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("RssAnon is not there: this benchmark needs Linux")


class Meter:
    """CPU and wall seconds of a block, and the highest memory seen in it."""

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        self.peak_mb, self._running = anonymous_mb(), True
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        self.cpu_s, self.wall_s = time.process_time() - cpu, time.perf_counter() - wall
        self._running = False
        watcher.join()

    def _watch(self) -> None:
        while self._running:
            self.peak_mb = max(self.peak_mb, anonymous_mb())
            time.sleep(0.02)


def read(path: str) -> pa.RecordBatchFileReader:
    return pa.ipc.open_file(pa.memory_map(path))


def make_table(place: str, split: str) -> Any:
    from pyiceberg.catalog import load_catalog

    from frazil.client.catalog import catalog_properties
    from frazil.config import load_settings
    from frazil.write.files.partitioning import partition_spec

    catalog = load_catalog("bench", **{"type": "rest", **catalog_properties(load_settings()), "uri": place})
    name = f"bench.t{time.time_ns()}"
    return catalog.create_table(name, SCHEMA, partition_spec=partition_spec(SCHEMA, SPLITS[split])), name


def write_ours(source: str, split: str, place: str) -> Callable[[], None]:
    from frazil.client import connect
    from frazil.sinks import open as open_sink

    _, name = make_table(place, split)
    catalog = connect(uri=place)

    def write() -> None:
        batches = read(source)
        with open_sink(name, name="bench", catalog=catalog, flush_rows=None) as sink:
            for number in range(batches.num_record_batches):
                sink.write(batches.get_batch(number), position=number + 1)

    return write


def write_raw(source: str, split: str, _: str) -> Callable[[], None]:
    """The limit: Parquet files on two threads, from rows that lie apart already."""
    from concurrent.futures import ThreadPoolExecutor

    import pyarrow.parquet as pq

    from frazil.write.files.partitioning import partition_keys, partition_spec
    from frazil.write.files.splitting import split as take_apart

    table = read(source).read_all()
    keys = partition_keys(SCHEMA, partition_spec(SCHEMA, SPLITS[split]))
    half = table.num_rows // 2
    parts = (
        [slice_.rows for slice_ in take_apart(table, keys).slices()]
        if keys
        else [table.slice(0, half), table.slice(half)]
    )
    folder = Path(tempfile.mkdtemp(prefix="frazil-bench-", dir=Path(source).parent))

    def write() -> None:
        with ThreadPoolExecutor(2) as pool:
            done = [
                pool.submit(pq.write_table, part, folder / f"{number}.parquet", compression="zstd")
                for number, part in enumerate(parts)
            ]
            for item in done:
                item.result()

    return write


def write_pyiceberg(source: str, split: str, place: str) -> Callable[[], None]:
    table, _ = make_table(place, split)
    return lambda: table.append(read(source).read_all())


def write_pandas(source: str, split: str, place: str) -> Callable[[], None]:
    """The way that seed projects took: Arrow to pandas and back. Before pandas 3, texts are Python objects there."""
    import pandas as pd

    table, _ = make_table(place, split)

    def write() -> None:
        rows = read(source).read_all()
        frame = rows.to_pandas()
        is_old = pd.__version__.startswith("2.")
        assert (frame["device_id"].dtype == object) == is_old, (
            f"pandas {pd.__version__} gave {frame['device_id'].dtype}"
        )
        table.append(pa.Table.from_pandas(frame, preserve_index=False, schema=table.schema().as_arrow()))

    return write


def write_ours_delta(source: str, _: str, __: str) -> Callable[[], None]:
    from frazil.sinks import open as open_sink
    from frazil.sinks.delta.target import create_delta_table

    folder = tempfile.mkdtemp(prefix="frazil-bench-", dir=Path(source).parent)
    create_delta_table(folder, SCHEMA)

    def write() -> None:
        batches = read(source)
        with open_sink(folder, name="bench", flush_rows=None) as sink:
            for number in range(batches.num_record_batches):
                sink.write(batches.get_batch(number), position=number + 1)

    return write


def write_deltalake(source: str, _: str, __: str) -> Callable[[], None]:
    from deltalake import WriterProperties, write_deltalake

    folder = tempfile.mkdtemp(prefix="frazil-bench-", dir=Path(source).parent)
    batches = read(source)
    stream = pa.RecordBatchReader.from_batches(
        batches.schema, (batches.get_batch(n) for n in range(batches.num_record_batches))
    )
    return lambda: write_deltalake(folder, stream, writer_properties=WriterProperties(compression="ZSTD"))


def write_daft(source: str, split: str, place: str) -> Callable[[], None]:
    import daft

    table, _ = make_table(place, split)
    return lambda: daft.from_arrow(read(source).read_all()).write_iceberg(table) and None


WRITERS: dict[str, Callable[[str, str, str], Callable[[], None]]] = {
    "ours": write_ours,
    "ours-delta": write_ours_delta,
    "raw": write_raw,
    "pyiceberg": write_pyiceberg,
    "pandas": write_pandas,
    "deltalake": write_deltalake,
    "daft": write_daft,
}


def main(writer: str, split: str, source: str, place: str) -> None:
    """Runs the case and prints its cost."""
    write = WRITERS[writer](source, split, place)
    meter = Meter()
    with meter.measured():
        write()
    pandas = sys.modules["pandas"].__version__ if writer == "pandas" else None
    print(json.dumps({"cpu_s": meter.cpu_s, "wall_s": meter.wall_s, "peak_mb": meter.peak_mb, "pandas": pandas}))


if __name__ == "__main__":
    main(*sys.argv[1:])
