"""Limits on what requests and files may take: memory of all requests in flight, gzip unpacked in steps, the number of
JSON values.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator

from frazil.errors import TooBusy

STEP_BYTES = 1024 * 1024
RATIO_FROM_BYTES = 1024 * 1024  # less than that may be packed as tightly as it likes
# What a body takes in memory while it is handled, in the worst case: itself twice while its pieces are joined, and its
# parsed text twice.
BODY_WEIGHT = 4
VALUE_BYTES = 200  # a key with a number, or a small list or object, and its place in its parent
COUNT_FROM_BYTES = 64 * 1024  # a body below that has at most a few MB of values
_MARKS = (b",", b"[", b"{")


class Budget:
    """Memory that the requests in flight take together, estimated; safe to use from threads."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        with self._lock:
            if self.taken + size > self.most:
                raise TooBusy(
                    f"The requests in flight take {self.taken} bytes of memory, this one {size} more; the limit is "
                    f"{self.most}",
                    hint="retry later, or raise server.limits.in_flight_bytes",
                )
            self.taken += size

    def give(self, size: int) -> None:
        with self._lock:
            self.taken -= size


class Share:
    """What one request has taken of the budget; given back once, at its end."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._size = 0

    def take(self, size: int) -> None:
        self._budget.take(size)
        self._size += size

    def release(self) -> None:
        size, self._size = self._size, 0
        if size:
            self._budget.give(size)


class Unpackable(Exception):
    """Gzip that cannot be unpacked: damaged, or cut short."""


class TooLong(Exception):
    """Gzip that unpacks to more than is allowed."""


def unpack_gzip(
    packed: bytes, *, max_bytes: int, max_ratio: int, take: Callable[[int], None] = lambda _: None
) -> bytes:
    """The unpacked content. `take` is called with the size of each step before the next; what it raises stops the
    unpacking.

    >>> unpack_gzip(zlib.compress(b"plain", wbits=31), max_bytes=100, max_ratio=100)
    b'plain'
    """
    most = min(max_bytes, max(RATIO_FROM_BYTES, len(packed) * max_ratio))
    steps, size = [], 0
    for step in _steps(packed):
        size += len(step)
        if size > most:
            raise TooLong(
                f"more than {max_bytes} bytes" if size > max_bytes else f"more than {max_ratio} times its packed size"
            )
        take(len(step))
        steps.append(step)
    return b"".join(steps)


def _steps(packed: bytes) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(wbits=31)
    for start in range(0, len(packed), STEP_BYTES):
        waiting, step = packed[start : start + STEP_BYTES], b""
        # A full step may leave more behind, inside of zlib too, when there is no more to put in.
        while (waiting or len(step) == STEP_BYTES) and not unpacker.eof:
            try:
                step = unpacker.decompress(waiting, STEP_BYTES)
            except zlib.error as exc:
                raise Unpackable(str(exc)) from exc
            waiting = unpacker.unconsumed_tail
            yield step
        if unpacker.eof and (unpacker.unused_data or start + STEP_BYTES < len(packed)):
            raise Unpackable("there are bytes after its end")
    if not unpacker.eof:
        raise Unpackable("it ends too early")


def count_values(text: bytes, most: int) -> int:
    """How many values JSON text has, roughly and never too few; counting stops above `most`.

    >>> count_values(b'{"a": [1, 2], "b": {}}', 100)
    6
    """
    count = 1
    for start in range(0, len(text), STEP_BYTES):
        piece = text[start : start + STEP_BYTES]
        count += sum(piece.count(mark) for mark in _MARKS)
        if count > most:
            break
    return count
