"""The same on Spark: queries from Parquet files, transpiled on all cores of a machine or cluster, into the same table,
each once.

python on_spark.py queries                                              every file in the folder that is not in yet,
then stop python on_spark.py s3://lakehouse/queries --flush-rows 10000            with 10,000 rows in a commit
python on_spark.py queries --delta s3://lakehouse/delta/transpiled      into a Delta table instead of the catalog's
Iceberg table

Which Spark is used is a setting: spark.master in frazil.toml, or FRAZIL_SPARK__MASTER; all cores of this machine unless
given. The table's progress is the same as that of run.py: a run that was begun there can go on here, and the other way
round.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bar import ProgressBar, Watcher
from files import QueryFiles
from lakehouse import transpiled
from slices import Slice, count, cut, share
from tables import NAME, Ledger, identities, make_delta, source_of
from transpiling import Dialects, quiet, transpile_rows

from frazil.client import connect
from frazil.config import Settings, load_settings
from frazil.errors import FrazilError
from frazil.sinks.spark import driver as lake
from frazil.spark import spark_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "query_id string, sql string, transpiled string, error string, source_file string, position bigint"
TASKS_PER_CORE = 2  # so that no core waits long for the last task of another
SHIPPED = ("files.py", "slices.py", "transpiling.py")  # what executors import; Frazil itself is installed there


@dataclass
class Job:
    """Reads files into a sink, commit by commit. Where there is no ledger (Delta), the sink's progress keeps every
    file.
    """

    spark: SparkSession
    files: QueryFiles
    sink: lake.FrameSink
    dialects: Dialects
    watcher: Watcher
    ledger: Ledger | None = None
    flush_rows: int = 50_000

    def run(self) -> None:
        """Every file that is not in yet, from where the table's progress says."""
        self.ship()
        new = list(self._new())
        self.watcher.begin(count(new))
        for slices in cut(new, self.flush_rows):
            self.load(slices)

    def ship(self) -> None:
        """Sends the executors what they import of this folder."""
        for name in SHIPPED:
            self.spark.sparkContext.addPyFile(str(Path(__file__).with_name(name)))

    def _new(self) -> Iterator[Slice]:
        finished, position = self.ledger.finished() if self.ledger else set(), self.sink.position
        for file in self.files.list():
            if not identities(file) & finished:
                total, start = self.files.count_rows(file), position.get(source_of(file, position), 0)
                if start < total or self.ledger:  # an empty file belongs in the ledger, too
                    yield Slice(file, start, total, total)

    def load(self, slices: Sequence[Slice]) -> None:
        """One Spark job, and one commit of its rows, the position reached and the files that are finished."""
        known = self.sink.position
        position = {source_of(slice_.file, known): slice_.end for slice_ in slices if slice_.rows}
        numbers, transpile = self.work(slices)
        staged = self.sink.stage(numbers, through=transpile, position=position)
        done = [slice_.file for slice_ in slices if slice_.is_last] if self.ledger else []
        also = {self.ledger.identifier: self.ledger.rows(*done)} if self.ledger and done else {}
        self.sink.publish(staged, also=also, done=[source_of(file, known) for file in done])
        self.watcher.advance(staged.counts.rows, self._errors(staged))

    def work(self, slices: Sequence[Slice]) -> tuple[DataFrame, lake.Through]:
        """Numbers of tasks, and the step from them to transpiled rows. A task reads its slices from the store by
        itself.
        """
        tasks = share(slices, TASKS_PER_CORE * self.spark.sparkContext.defaultParallelism)
        numbers = self.spark.range(len(tasks), numPartitions=len(tasks))
        return numbers, lake.Through(transpile_tasks(self.files, tasks, self.dialects), COLUMNS)

    def _errors(self, staged: lake.Staged) -> int:
        """How many rows have an error: the statistics of the files know."""
        column = self.sink.layout.schema.find_field("error").field_id
        return sum(file.rows - file.null_counts[column] for file in staged.files)


def transpile_tasks(
    files: QueryFiles, tasks: Sequence[Sequence[Slice]], dialects: Dialects
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A step for `mapInArrow`, from the numbers of tasks to their rows."""

    def rows_of(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        quiet()
        for batch in numbers:
            for span in (task for number in batch["id"].to_pylist() for task in tasks[number]):
                for first, queries in files.read(span.file, start=span.start, end=span.end):
                    yield transpile_rows(queries, dialects, file=span.file.path, first=first)

    return rows_of


def open_sink(delta: str | None, settings: Settings) -> tuple[lake.FrameSink, Ledger | None]:
    """The sink of the Delta table, or that of the declared table and its ledger; tables are made if they
    are missing.
    """
    if delta:
        return lake.open(lake.Delta(delta, make_delta(delta, settings)), name=NAME), None
    catalog = connect(settings)
    ledger = Ledger.of(catalog)
    return lake.open(transpiled.name, name=NAME, catalog=catalog), ledger


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", help="a Parquet file, a folder of them, or s3://bucket/prefix")
    parser.add_argument("--read", default=Dialects.read, help="the dialect of the queries (%(default)s)")
    parser.add_argument("--write", default=Dialects.write, help="the dialect to translate to (%(default)s)")
    parser.add_argument("--delta", metavar="URI", help="write to this Delta table")
    parser.add_argument("--flush-rows", type=int, default=Job.flush_rows, help="rows in a commit (%(default)s)")
    chosen = parser.parse_args()
    settings, dialects = load_settings(), Dialects(chosen.read, chosen.write)
    files = QueryFiles.at(chosen.input, settings)
    with spark_session(settings, app_name="transpile", log=settings.stack.folder / "spark" / "spark.log") as spark:
        sink, ledger = open_sink(chosen.delta, settings)
        bar = ProgressBar()
        with bar.progress:
            Job(spark, files, sink, dialects, bar, ledger, chosen.flush_rows).run()
    bar.finish()


if __name__ == "__main__":
    try:
        main()
    except (FrazilError, ValueError) as exc:
        sys.exit(f"error: {exc}")
