"""Queries from Parquet files, transpiled, into a table: every query once, however often this is killed and started again.

python run.py queries                                   every file in the folder that is not in yet, then stop
python run.py s3://lakehouse/queries --follow 5         and go on: look for new files every 5 seconds
python run.py queries --delta s3://lakehouse/delta/transpiled             into a Delta table instead of the catalog's Iceberg table
"""

from __future__ import annotations

import argparse
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from files import QueryFiles
from lakehouse import transpiled
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from transpiling import Dialects, transpile_rows

import frazil.sinks
from frazil.client import FrazilCatalog, connect
from frazil.config import Settings, load_settings
from frazil.pipelines.ledger import ledger_of, ledger_rows, loaded_files
from frazil.pipelines.sources import SourceFile
from frazil.tables.apply import apply_steps, plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

    from frazil.sinks import ArrowSink

NAME = "transpile"


@dataclass(frozen=True)
class Ledger:
    """The table that says which files are in; its rows are committed together with the last rows of a file."""

    table: Table

    @classmethod
    def of(cls, catalog: FrazilCatalog) -> Ledger:
        """The ledger of the declared table; both are made if they are missing."""
        for declared in (transpiled, ledger_of(transpiled)):
            list(apply_steps(plan(declared, catalog), catalog))
        return cls(catalog.load_table(ledger_of(transpiled).identifier))

    def finished(self) -> set[SourceFile]:
        return loaded_files(self.table, NAME)

    def rows(self, file: SourceFile) -> pa.Table:
        return ledger_rows([file], pipeline=NAME, run_id=uuid.uuid4().hex, ledger=self.table)


class Watcher(Protocol):
    """Whoever wants to know how it goes."""

    def begin(self, rows: int) -> None:
        """So many rows more are to come."""

    def advance(self, rows: int, errors: int) -> None:
        """So many were written, and so many of them are errors."""


@dataclass
class Loop:
    """Reads files into a sink. Where there is no ledger (Delta commits one table at a time), the sink's progress keeps every file."""

    files: QueryFiles
    sink: ArrowSink
    dialects: Dialects
    watcher: Watcher
    ledger: Ledger | None = None
    batch_rows: int = 1000

    def __post_init__(self) -> None:
        self._finished = self.ledger.finished() if self.ledger else set()

    def run(self, *, follow_seconds: float | None = None, sleep: Callable[[float], None] = time.sleep) -> None:
        """Every file that is not in yet; then stops, or looks for new ones for ever."""
        while True:
            new = [file for file in self.files.list() if file not in self._finished]
            for file in new:
                self.load(file)
            if follow_seconds is None:
                return
            if not new:
                self.sink.commit()  # nothing to wait for
                sleep(follow_seconds)

    def load(self, file: SourceFile) -> None:
        """Writes the queries of a file, from where the table's progress says."""
        source = f"{file.path}@{file.tag}"  # a file that was rewritten is another one
        total, start = self.files.count_rows(file), self.sink.position.get(source, 0)
        self.watcher.begin(total - start)
        if not total and self.ledger:
            self.sink.also(ledger_of(transpiled).identifier, self.ledger.rows(file))
        for first, queries in self.files.read(file, start=start, batch_rows=self.batch_rows):
            rows = transpile_rows(queries, self.dialects, file=file.path, first=first)
            end = first + len(rows)
            done = [source] if end == total and self.ledger else []
            if done and self.ledger:  # before the write: it may commit
                self.sink.also(ledger_of(transpiled).identifier, self.ledger.rows(file))
            self.sink.write(rows, position={source: end}, done=done)
            self.watcher.advance(len(rows), len(rows) - rows["error"].null_count)
        self._finished.add(file)


class ProgressBar:
    """Rows, rate and errors on the terminal; one line at the end elsewhere."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]} queries/s"))
        more = (TextColumn("{task.fields[errors]} errors"), TimeRemainingColumn())
        self.progress = Progress(*columns, *more, console=self.console, transient=True, disable=not self.console.is_terminal)
        self.task: TaskID = self.progress.add_task("transpile", total=0, errors=0, rate="-")
        self.rows = self.errors = self.total = 0
        self.start = time.monotonic()

    def begin(self, rows: int) -> None:
        self.total += rows
        self.progress.update(self.task, total=self.total)

    def advance(self, rows: int, errors: int) -> None:
        self.rows, self.errors = self.rows + rows, self.errors + errors
        self.progress.update(self.task, completed=self.rows, errors=self.errors, rate=f"{self.rate:,.0f}")

    @property
    def rate(self) -> float:
        return self.rows / max(time.monotonic() - self.start, 1e-9)

    def finish(self) -> None:
        self.console.print(f"{self.rows:,} queries at {self.rate:,.0f}/s, {self.errors:,} of them with an error")


def open_iceberg(settings: Settings, *, flush_rows: int) -> tuple[ArrowSink, Ledger]:
    """The sink of the declared table, and its ledger; both tables are made if they are missing."""
    catalog = connect(settings)
    ledger = Ledger.of(catalog)
    return frazil.sinks.open(transpiled.name, name=NAME, catalog=catalog, flush_rows=flush_rows), ledger


def open_delta(uri: str, settings: Settings, *, flush_rows: int) -> ArrowSink:
    """The sink of a Delta table with the declared columns; it is made if it is missing."""
    from deltalake import DeltaTable

    from frazil.sinks.delta import create_delta_table

    options = delta_options(settings) if uri.startswith("s3://") else {}
    if not DeltaTable.is_deltatable(uri, options):
        create_delta_table(uri, transpiled.schema(), storage_options=options)
    return frazil.sinks.open_delta(uri, name=NAME, storage_options=options, flush_rows=flush_rows)


def delta_options(settings: Settings) -> dict[str, str]:
    """How delta-rs reaches the object store of the settings."""
    s3 = settings.s3
    keys = {"AWS_ACCESS_KEY_ID": s3.access_key_id, "AWS_SECRET_ACCESS_KEY": s3.secret_access_key}
    found = {name: secret.get_secret_value() for name, secret in keys.items() if secret}
    # A commit is a PUT that fails if the file is there: the store must honour If-None-Match, as SeaweedFS and S3 do.
    found |= {"AWS_REGION": s3.region, "conditional_put": "etag"}
    if s3.endpoint:
        found |= {"AWS_ENDPOINT_URL": s3.endpoint, "AWS_ALLOW_HTTP": str(s3.endpoint.startswith("http://")).lower()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", help="a Parquet file, a folder of them, or s3://bucket/prefix")
    parser.add_argument("--read", default=Dialects.read, help="the dialect of the queries (%(default)s)")
    parser.add_argument("--write", default=Dialects.write, help="the dialect to translate to (%(default)s)")
    parser.add_argument("--delta", metavar="URI", help="write to this Delta table")
    parser.add_argument("--flush-rows", type=int, default=10_000, help="rows in a commit (%(default)s)")
    parser.add_argument("--follow", type=float, metavar="SECONDS", help="look for new files this often, instead of stopping")
    chosen = parser.parse_args()
    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # what it would warn of is in the rows
    settings, bar, ledger = load_settings(), ProgressBar(), None
    if chosen.delta:
        sink = open_delta(chosen.delta, settings, flush_rows=chosen.flush_rows)
    else:
        sink, ledger = open_iceberg(settings, flush_rows=chosen.flush_rows)
    with bar.progress, sink:
        files = QueryFiles.at(chosen.input, settings)
        Loop(files, sink, Dialects(chosen.read, chosen.write), bar, ledger).run(follow_seconds=chosen.follow)
    bar.finish()


if __name__ == "__main__":
    main()
