"""Queries from Parquet files, transpiled, into a table: every query once, however often this is killed and started
again.

python run.py queries                                   every file in the folder that is not in yet, then stop
python run.py s3://lakehouse/queries --follow 5         and go on: look for new files every 5 seconds
python run.py queries --processes 2                     transpile on two cores
python run.py queries --delta s3://lakehouse/delta/transpiled             into a Delta table instead of the catalog's
Iceberg table
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bar import ProgressBar, Watcher
from files import QueryFiles
from tables import Ledger, identities, open_delta, open_iceberg, source_of
from transpiling import Dialects, quiet
from workers import NO_QUERIES, Chunk, Transpile, transpiling

from frazil.config import load_settings
from frazil.errors import FrazilError
from frazil.pipelines.sources import SourceFile

if TYPE_CHECKING:
    import pyarrow as pa

    from frazil.sinks import ArrowSink


@dataclass
class Loop:
    """Reads files into a sink. Where there is no ledger (Delta commits one table at a time), the sink's progress keeps
    every file.
    """

    files: QueryFiles
    sink: ArrowSink
    dialects: Dialects
    watcher: Watcher
    ledger: Ledger | None = None
    batch_rows: int = 1000
    processes: int = 1

    def __post_init__(self) -> None:
        self._finished = self.ledger.finished() if self.ledger else set()

    def run(self, *, follow_seconds: float | None = None, sleep: Callable[[float], None] = time.sleep) -> None:
        """Every file that is not in yet; then stops, or looks for new ones for ever."""
        with transpiling(self.dialects, self.processes) as transpile:
            while True:
                new = [file for file in self.files.list() if not identities(file) & self._finished]
                self.load(new, transpile)
                if follow_seconds is None:
                    return
                if not new:
                    self.sink.commit()  # nothing to wait for
                    sleep(follow_seconds)

    def load(self, files: Sequence[SourceFile], transpile: Transpile) -> None:
        """Writes the queries of files, from where the table's progress says."""
        for chunk, rows in transpile(self._chunks(files)):
            self._write(chunk, rows)
        self._finished.update(*map(identities, files))

    def _chunks(self, files: Sequence[SourceFile]) -> Iterator[Chunk]:
        for file in files:
            total, start = self.files.count_rows(file), self.sink.position.get(source_of(file, self.sink.position), 0)
            self.watcher.begin(total - start)
            if not total and self.ledger:
                yield Chunk(file, 0, NO_QUERIES, total)  # for the ledger
            for first, queries in self.files.read(file, start=start, batch_rows=self.batch_rows):
                yield Chunk(file, first, queries, total)

    def _write(self, chunk: Chunk, rows: pa.RecordBatch) -> None:
        source, done = source_of(chunk.file, self.sink.position), []
        if self.ledger and chunk.is_last:
            done = [source]
            self.sink.also(self.ledger.identifier, self.ledger.rows(chunk.file))  # before the write: it may commit
        self.sink.write(rows, position={source: chunk.end}, done=done)
        self.watcher.advance(len(rows), len(rows) - rows["error"].null_count)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", help="a Parquet file, a folder of them, or s3://bucket/prefix")
    parser.add_argument("--read", default=Dialects.read, help="the dialect of the queries (%(default)s)")
    parser.add_argument("--write", default=Dialects.write, help="the dialect to translate to (%(default)s)")
    parser.add_argument("--delta", metavar="URI", help="write to this Delta table")
    parser.add_argument("--flush-rows", type=int, default=10_000, help="rows in a commit (%(default)s)")
    parser.add_argument(
        "--follow", type=float, metavar="SECONDS", help="look for new files this often, instead of stopping"
    )
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="processes that transpile (%(default)s)")
    return parser.parse_args(arguments)


def main(chosen: argparse.Namespace) -> None:
    """Runs what was asked for."""
    settings, bar, ledger = load_settings(), ProgressBar(), None
    dialects, files = Dialects(chosen.read, chosen.write), QueryFiles.at(chosen.input, settings)
    if chosen.follow is None and not files.list():
        raise ValueError(f"there is no Parquet file at {chosen.input}")
    if chosen.delta:
        sink = open_delta(chosen.delta, settings, flush_rows=chosen.flush_rows)
    else:
        sink, ledger = open_iceberg(settings, flush_rows=chosen.flush_rows)
    with bar.progress, sink:
        Loop(files, sink, dialects, bar, ledger, processes=chosen.processes).run(follow_seconds=chosen.follow)
    bar.finish()


if __name__ == "__main__":
    quiet()
    try:
        main(parse())
    except (FrazilError, ValueError) as exc:
        sys.exit(f"error: {exc}")
    except KeyboardInterrupt:
        sys.exit("stopped; what was committed stays, and the next run goes on from there")
