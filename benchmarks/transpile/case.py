"""One case: `python -m benchmarks.transpile.case NAME FOLDER CATALOG`.

Does the files that are named on standard input, and prints what each cost as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

# its files import each other by plain names
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples/transpile"))

import run as example
import sqlglot
from sqlglot.errors import SqlglotError
from tables import open_iceberg
from transpiling import Dialects, quiet, transpile
from workers import Chunk, Transpile, transpiling

from benchmarks.transpile.processes import tree_cpu_s
from frazil.config import Settings, load_settings

DIALECTS = Dialects()
FLUSH_ROWS = 10_000
BATCH_ROWS = 500  # so that two processes end at nearly the same time
Measured = Callable[[Path], dict[str, float]]


def read_texts(file: Path) -> list[str]:
    texts: list[str] = pq.read_table(file, columns=["sql"])["sql"].to_pylist()
    return texts


def bare(texts: Iterable[str]) -> None:
    """The work itself: the example's function for one query, its results dropped."""
    for text in texts:
        transpile(text, DIALECTS)


def bare_sqlglot(texts: Iterable[str]) -> None:
    """The loop that anybody would write."""
    for text in texts:
        with suppress(SqlglotError):
            sqlglot.transpile(text, read=DIALECTS.read, write=DIALECTS.write)


def measured(work: Callable[[], object]) -> dict[str, float]:
    """Wall seconds, and CPU seconds of this process and its children."""
    cpu, wall = tree_cpu_s(os.getpid()), time.perf_counter()
    work()
    return {"wall_s": time.perf_counter() - wall, "cpu_s": tree_cpu_s(os.getpid()) - cpu}


class Watcher:
    """Shows nothing."""

    def begin(self, rows: int) -> None: ...

    def advance(self, rows: int, errors: int) -> None: ...


def loop_for(folder: Path, settings: Settings, stack: ExitStack) -> example.Loop:
    sink, ledger = open_iceberg(settings, flush_rows=FLUSH_ROWS)
    stack.enter_context(sink)
    return example.Loop(example.QueryFiles.at(str(folder), settings), sink, DIALECTS, Watcher(), ledger, BATCH_ROWS)


def load(loop: example.Loop, file: Path, transpile: Transpile) -> None:
    loop.load([item for item in loop.files.list() if item.path == str(file)], transpile)
    loop.sink.commit()


def plain(folder: Path, settings: Settings, stack: ExitStack, *, processes: int) -> Measured:
    """The example as it is."""
    loop, rows_of = loop_for(folder, settings, stack), stack.enter_context(transpiling(DIALECTS, processes))
    return lambda file: measured(lambda: load(loop, file, rows_of))


def in_loop(work: Callable[[Iterable[str]], None]) -> Measured:
    """No sink, one process."""

    def measure(file: Path) -> dict[str, float]:
        texts = read_texts(file)
        return measured(lambda: work(texts))

    return measure


def bare_on_two(stack: ExitStack) -> Measured:
    """No sink, two processes: what two cores of this machine can do."""
    pool = stack.enter_context(ProcessPoolExecutor(2, get_context("spawn")))

    def measure(file: Path) -> dict[str, float]:
        texts = read_texts(file)
        parts = [texts[start : start + BATCH_ROWS] for start in range(0, len(texts), BATCH_ROWS)]
        return measured(lambda: list(pool.map(bare, parts)))

    return measure


class Cost:
    """What reading, Arrow, Parquet and commits cost next to the same queries bare, chunk by chunk in turns, in one
    process.

    Seconds later the machine may be another one, for a neighbour came or went; half a second later it is the same.
    """

    def __init__(self, folder: Path, settings: Settings, stack: ExitStack) -> None:
        self.loop = loop_for(folder, settings, stack)
        self.rows_of = stack.enter_context(transpiling(DIALECTS))

    def __call__(self, file: Path) -> dict[str, float]:
        self.bare_s = self.aside_s = 0.0
        start = time.process_time()
        load(self.loop, file, self._in_turns)
        return {"bare_s": self.bare_s, "cpu_s": time.process_time() - start - self.bare_s - self.aside_s}

    def _in_turns(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, pa.RecordBatch]]:
        for number, chunk in enumerate(chunks):
            if number % 2:
                self._bare(chunk)
            (done,) = self.rows_of([chunk])
            if not number % 2:
                self._bare(chunk)
            yield done

    def _bare(self, chunk: Chunk) -> None:
        began = time.process_time()
        texts = chunk.queries["sql"].to_pylist()
        ready = time.process_time()
        bare(texts)
        self.aside_s += ready - began
        self.bare_s += time.process_time() - ready


def on_spark(settings: Settings, stack: ExitStack, folder: Path, *, cores: int) -> Measured:
    """The example on Spark, in local mode."""
    from benchmarks.transpile.spark_case import OnSpark

    spark = settings.spark.model_copy(update={"master": f"local[{cores}]"})
    return OnSpark.open(settings.model_copy(update={"spark": spark}), stack, folder / f"spark-{cores}.log")


def open_case(name: str, folder: Path, settings: Settings, stack: ExitStack) -> Measured:
    """What measures a file of queries."""
    cases: dict[str, Callable[[], Any]] = {
        "bare": lambda: in_loop(bare),
        "sqlglot": lambda: in_loop(bare_sqlglot),
        "bare-2": lambda: bare_on_two(stack),
        "plain-1": lambda: plain(folder, settings, stack, processes=1),
        "plain-2": lambda: plain(folder, settings, stack, processes=2),
        "cost": lambda: Cost(folder, settings, stack),
        "spark-1": lambda: on_spark(settings, stack, folder, cores=1),
        "spark-2": lambda: on_spark(settings, stack, folder, cores=2),
    }
    result: Measured = cases[name]()
    return result


def main(name: str, folder: str, uri: str) -> None:
    """Warms up, says so, and does a file for every line."""
    quiet()
    settings = load_settings(environ={"FRAZIL_CATALOG__URI": uri}, folder=Path(folder))
    with ExitStack() as stack:
        measure = open_case(name, Path(folder), settings, stack)
        print(json.dumps(measure(Path(folder) / "warm.parquet")), flush=True)
        for line in sys.stdin:
            print(json.dumps(measure(Path(line.strip()))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
