"""Several files read at a time, and no more of them in memory than a few batches each."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from queue import Full, Queue
from threading import Event
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 2  # batches that a file may be ahead of its reader
LOOK_SECONDS = 0.05  # how long a thread that waits for room goes without looking whether anyone still reads
END = object()


def default_workers() -> int:
    """How many files are read at a time: more than there are processors, since some wait for the store."""
    return min(8, 2 * (os.cpu_count() or 1))


def read_ahead(tasks: Iterable[T], read: Callable[[T], Iterator[R]], *, workers: int, ordered: bool) -> Iterator[R]:
    """What `read` gives for every task, from several threads; in the order of the tasks if `ordered`, else as it comes.

    If the caller stops reading early, the threads stop: nothing is left behind when the iterator is closed.
    """
    waiting, stop = iter(tasks), Event()
    first = list(islice(waiting, workers))
    if not first:
        return
    if len(first) <= 1 and workers <= 1:
        for task in (*first, *waiting):
            yield from read(task)
        return
    with ThreadPoolExecutor(len(first) or 1, thread_name_prefix="frazil-scan") as pool:
        shared: Queue[Any] = Queue(AHEAD * max(1, len(first)))

        def start(task: T) -> Queue[Any]:
            lane: Queue[Any] = Queue(AHEAD) if ordered else shared
            pool.submit(_fill, lane, task, read, stop)
            return lane

        lanes = deque(start(task) for task in first)
        try:
            while lanes:
                item = lanes[0].get()
                if item is END:
                    lanes.popleft()
                    lanes.extend(start(task) for task in islice(waiting, 1))
                elif isinstance(item, _Failed):
                    raise item.error
                else:
                    yield item
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)


class _Failed:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def _fill(lane: Queue[Any], task: T, read: Callable[[T], Iterator[R]], stop: Event) -> None:
    try:
        for item in read(task):
            if not _put(lane, item, stop):
                return
        _put(lane, END, stop)
    except BaseException as exc:  # it is raised to the reader
        _put(lane, _Failed(exc), stop)


def _put(lane: Queue[Any], item: object, stop: Event) -> bool:
    """Whether the item was taken; not if the reader has stopped."""
    while not stop.is_set():
        try:
            lane.put(item, timeout=LOOK_SECONDS)
        except Full:
            continue
        return True
    return False
