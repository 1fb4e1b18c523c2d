"""Manifests read with PyIceberg through the server's own file access: it needs neither PyArrow nor the
client's keys.
"""

from __future__ import annotations

import io
from collections.abc import Callable

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.manifest import ManifestFile, read_manifest_list

__all__ = ["ManifestFile", "MemoryIO", "read_manifest_list"]


class MemoryIO(FileIO):
    """Files that are read whole by a function of ours. Nothing can be written or deleted through it."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        super().__init__()
        self._read = read

    def new_input(self, location: str) -> InputFile:
        return _MemoryFile(location, self._read)

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError(f"{location}: manifests are only read here")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError(f"{location}: manifests are only read here")


class _MemoryFile(InputFile):
    def __init__(self, location: str, read: Callable[[str], bytes]) -> None:
        super().__init__(location)
        self._content = read(location)

    def __len__(self) -> int:
        return len(self._content)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> InputStream:
        return io.BytesIO(self._content)
