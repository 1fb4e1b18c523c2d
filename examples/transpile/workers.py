"""Queries in, rows out, in the same order: in this process, or on several.

The workers only transpile; the process that started them reads the files and writes the rows. So the table has one
writer with one position, however many workers there are, and a run that was killed may go on with another number of
them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from transpiling import Dialects, quiet, transpile_rows

from frazil.errors import FrazilError
from frazil.pipelines.sources import SourceFile

# chunks a worker that may wait or be done before their turn: enough work while the writer commits, and bounded memory
AHEAD = 4


@dataclass(frozen=True)
class Chunk:
    """Queries of a file, with the place of the first one in it, and how many the file has."""

    file: SourceFile
    first: int
    queries: pa.RecordBatch
    total: int

    @property
    def end(self) -> int:
        return self.first + len(self.queries)

    @property
    def is_last(self) -> bool:
        return self.end == self.total


NO_QUERIES = pa.record_batch([pa.array([], pa.string())] * 2, ["query_id", "sql"])


Transpile = Callable[[Iterable[Chunk]], Iterator[tuple[Chunk, pa.RecordBatch]]]


@contextmanager
def transpiling(dialects: Dialects, processes: int = 1) -> Iterator[Transpile]:
    """A function from chunks to their rows, on so many processes; with one there is no other than this."""
    if processes == 1:
        yield lambda chunks: ((chunk, _rows(chunk, dialects)) for chunk in chunks)
        return
    # Spawned, not forked: Arrow has threads, and a forked child would hold the pipes by which its siblings notice the
    # parent's death.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=_begin)
    try:
        yield lambda chunks: _in_order(pool, chunks, dialects, ahead=AHEAD * processes)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _in_order(
    pool: ProcessPoolExecutor, chunks: Iterable[Chunk], dialects: Dialects, *, ahead: int
) -> Iterator[tuple[Chunk, pa.RecordBatch]]:
    waiting: deque[tuple[Chunk, Future[pa.RecordBatch]]] = deque()
    try:
        for chunk in chunks:
            waiting.append((chunk, pool.submit(_rows, chunk, dialects)))
            if len(waiting) == ahead:
                yield _result(waiting)
        while waiting:
            yield _result(waiting)
    except BrokenProcessPool as exc:
        raise WorkerDied from exc


def _result(waiting: deque[tuple[Chunk, Future[pa.RecordBatch]]]) -> tuple[Chunk, pa.RecordBatch]:
    chunk, rows = waiting.popleft()
    return chunk, rows.result()


class WorkerDied(FrazilError):
    """A worker was killed, by the system for its memory perhaps."""

    def __init__(self) -> None:
        super().__init__(
            "a worker process ended before its work was done",
            hint="start again: the run goes on where the table stands",
        )


def _rows(chunk: Chunk, dialects: Dialects) -> pa.RecordBatch:
    return transpile_rows(chunk.queries, dialects, file=chunk.file.path, first=chunk.first)


def _begin() -> None:
    """A worker's first step: it leaves Ctrl-C to the parent, and ends with it however that ends."""
    quiet()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
