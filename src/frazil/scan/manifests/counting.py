"""Counts the files that manifests name, for limits on what scans may cost."""

from __future__ import annotations

import threading


class DecodedFiles:
    """How many files the manifests have named that this process has decoded: what its scans cost."""

    def __init__(self) -> None:
        self._count, self._lock = 0, threading.Lock()

    @property
    def count(self) -> int:
        return self._count

    def add(self, files: int) -> None:
        with self._lock:
            self._count += files


decoded_files = DecodedFiles()
