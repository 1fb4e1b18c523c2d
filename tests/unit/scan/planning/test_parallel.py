"""Several tasks at a time: in order when asked, never far ahead of the reader, and errors where they belong."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from frazil.scan.planning.parallel import AHEAD, read_ahead


def numbers(task: int) -> Iterator[int]:
    yield from range(task * 10, task * 10 + 10)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_item_comes_once_and_in_order_when_asked(workers: int) -> None:
    assert list(read_ahead(range(20), numbers, workers=workers, ordered=True)) == list(range(200))
    assert sorted(read_ahead(range(20), numbers, workers=workers, ordered=False)) == list(range(200))
    assert list(read_ahead([], numbers, workers=workers, ordered=True)) == []


@pytest.mark.parametrize("ordered", [True, False])
def test_no_more_is_read_than_a_few_items_a_worker(ordered: bool) -> None:
    lock, produced = threading.Lock(), 0

    def endless(task: int) -> Iterator[int]:
        nonlocal produced
        for number in range(10_000):
            with lock:
                produced += 1
            yield number

    result = read_ahead(range(50), endless, workers=3, ordered=ordered)
    next(result)
    time.sleep(0.3)  # long enough for threads that nothing holds back
    assert produced <= 1 + 3 * (AHEAD + 1) + 3
    result.close()


@pytest.mark.parametrize("ordered", [True, False])
def test_an_error_of_a_task_is_the_readers(ordered: bool) -> None:
    def broken(task: int) -> Iterator[int]:
        yield task
        if task == 3:
            raise OSError("it is broken")

    with pytest.raises(OSError, match="it is broken"):
        list(read_ahead(range(8), broken, workers=2, ordered=ordered))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("frazil-scan")]
