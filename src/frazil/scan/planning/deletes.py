"""Delete files, and which data files they concern: the rules of the specification's "scan planning".

- A deletion vector, or a position delete file that names its data file, concerns that file, if it is not older.
- Another position delete file concerns the files of its partition that are not younger than it.
- An equality delete file concerns files that are strictly older: those of its partition, or all when its spec has no
  partition fields.
- A data file with a deletion vector has no other position deletes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from frazil.scan.manifests import Manifest

POSITIONS, EQUALITY = 1, 2
PATH_FIELD = 2147483546  # file_path in position delete files
Key = tuple[int, tuple[object, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class DeleteFile:
    """A delete file: where it is described, and what decides about the data files that it concerns."""

    manifest: Manifest
    row: int
    path: str
    content: int
    sequence: int
    spec_id: int
    partition: tuple[object, ...]
    referenced: str | None = None
    is_vector: bool = False
    lower_path: bytes | None = None
    upper_path: bytes | None = None
    global_: bool = False  # its spec has no partition fields

    def fact(self, name: str) -> Any:
        """A property of the file that only those ask for who read it."""
        return self.manifest.columns[name][self.row].as_py()

    @property
    def target(self) -> str | None:
        """The only data file that it concerns, if it is known."""
        if self.referenced is not None:
            return self.referenced
        if self.content == POSITIONS and self.lower_path is not None and self.lower_path == self.upper_path:
            return self.lower_path.decode("utf-8", "replace")
        return None


class _BySequence:
    """Delete files in the order of their sequence numbers."""

    def __init__(self) -> None:
        self._found: list[DeleteFile] = []
        self._numbers: list[int] = []

    def add(self, file: DeleteFile) -> None:
        at = bisect_right(self._numbers, file.sequence)
        self._numbers.insert(at, file.sequence)
        self._found.insert(at, file)

    def not_before(self, sequence: int) -> list[DeleteFile]:
        return self._found[bisect_left(self._numbers, sequence) :]

    def after(self, sequence: int) -> list[DeleteFile]:
        return self._found[bisect_right(self._numbers, sequence) :]


class DeleteIndex:
    """All delete files of a snapshot, to be asked for those of a data file."""

    def __init__(self, files: Iterable[DeleteFile] = ()) -> None:
        self._vectors: dict[str, DeleteFile] = {}
        self._by_path: defaultdict[str, _BySequence] = defaultdict(_BySequence)
        self._positions: defaultdict[Key, _BySequence] = defaultdict(_BySequence)
        self._equality: defaultdict[Key, _BySequence] = defaultdict(_BySequence)
        self._everywhere = _BySequence()
        self.count = 0
        for file in files:
            self._add(file)

    def _add(self, file: DeleteFile) -> None:
        self.count += 1
        target = file.target
        if file.content == EQUALITY:
            (self._everywhere if file.global_ else self._equality[file.spec_id, file.partition]).add(file)
        elif file.is_vector and target is not None:
            older = self._vectors.get(target)
            if older is None or older.sequence < file.sequence:
                self._vectors[target] = file
        elif target is not None:
            self._by_path[target].add(file)
        else:
            self._positions[file.spec_id, file.partition].add(file)

    def of(self, path: str, sequence: int, spec_id: int, partition: tuple[object, ...]) -> list[DeleteFile]:
        """The delete files that concern a data file."""
        key = (spec_id, partition)
        after = self._everywhere.after(sequence)
        if key in self._equality:
            after = after + self._equality[key].after(sequence)
        vector = self._vectors.get(path)
        if vector is not None and vector.sequence >= sequence:
            return [*after, vector]
        if path in self._by_path:
            after = after + self._by_path[path].not_before(sequence)
        if key in self._positions:
            encoded = path.encode()
            after = after + [
                delete for delete in self._positions[key].not_before(sequence) if _may_name(delete, encoded)
            ]
        return after


def _may_name(file: DeleteFile, path: bytes) -> bool:
    """Whether the paths that a position delete file names can include one, by its bounds. The upper one may be cut
    short.
    """
    below = file.lower_path is not None and path < file.lower_path
    return not below and not (
        file.upper_path is not None and path > file.upper_path and not path.startswith(file.upper_path)
    )
