"""Values that several threads need: made once each, and forgotten, the least used first, when together they are too
large.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class _Slot(Generic[V]):
    def __init__(self) -> None:
        self.lock = Lock()
        self.value: V | None = None
        self.nbytes = 0


class Once(Generic[V]):
    """A cache by key. A thread that asks for a value while another one computes it waits for it."""

    def __init__(self, size_of: Callable[[V], int], *, max_bytes: int) -> None:
        self._size_of, self._max_bytes = size_of, max_bytes
        self._slots: OrderedDict[Hashable, _Slot[V]] = OrderedDict()
        self._lock, self._bytes = Lock(), 0

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
        with slot.lock:
            if slot.value is None:
                slot.value = make()
                self._count(slot)
            return slot.value

    def _count(self, slot: _Slot[V]) -> None:
        assert slot.value is not None
        slot.nbytes = self._size_of(slot.value)
        with self._lock:
            self._bytes += slot.nbytes
            for key in list(self._slots):
                if self._bytes <= self._max_bytes or self._slots[key] is slot:
                    break
                self._bytes -= self._slots.pop(key).nbytes
