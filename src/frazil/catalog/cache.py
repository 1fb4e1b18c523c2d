"""Metadata files that were read or written lately, by location. Files never change, so an entry is right as long as it
is kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from frazil.catalog.metadata import Version


class VersionCache:
    """The most recently used versions, up to a number of bytes."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes_held = 0
        self.hits = 0
        self.misses = 0
        self._entries: OrderedDict[str, Version] = OrderedDict()
        self._newest: dict[str, str] = {}  # by folder: the location that was put last
        self._lock = threading.Lock()

    def gauges(self) -> dict[str, float]:
        """What the metrics show of it."""
        lookups = "frazil_cache_lookups_total"
        return {
            "frazil_cache_bytes": self.bytes_held,
            f'{lookups}{{result="hit"}}': self.hits,
            f'{lookups}{{result="miss"}}': self.misses,
        }

    def get(self, location: str) -> Version | None:
        with self._lock:
            version = self._entries.get(location)
            if version is None:
                self.misses += 1
            else:
                self.hits += 1
                self._entries.move_to_end(location)
            return version

    def peek(self, location: str) -> Version | None:
        """A version, if it is here; a look at all tables does not count as a use of each."""
        with self._lock:
            return self._entries.get(location)

    def neighbour(self, location: str) -> Version | None:
        """A version that lies in the same folder, so most likely an older one of the same table."""
        with self._lock:
            return self._entries.get(self._newest.get(_folder(location), ""))

    def put(self, version: Version) -> None:
        with self._lock:
            self._remove(version.location)
            self._entries[version.location] = version
            self._newest[_folder(version.location)] = version.location
            self.bytes_held += version.bytes_held
            while self.bytes_held > self.max_bytes and len(self._entries) > 1:
                self._remove(next(iter(self._entries)))

    def drop(self, location: str) -> None:
        with self._lock:
            self._remove(location)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._newest.clear()
            self.bytes_held = 0

    def _remove(self, location: str) -> None:
        gone = self._entries.pop(location, None)
        if gone is not None:
            self.bytes_held -= gone.bytes_held
            if self._newest.get(_folder(location)) == location:
                del self._newest[_folder(location)]


def _folder(location: str) -> str:
    return location.rpartition("/")[0]
