"""Compares landing files with the ledger: which are new, which are loaded, and which have changed since.

A file is identified by its path and its content. The ledger's `tag` holds, for a file of this machine, the modification
time and a SHA-256 of the content (`1731715200000000000 sha256:9f86...`), and for an object its ETag. From the second
content of a path on, a number follows (`#2`): the row with the highest one says what is loaded now.

A file whose path, size and modification time are in the ledger is not read. Otherwise its content decides, so that
`touch`, `cp` and `rsync` add no rows. Rows of older releases hold the modification time alone: with another one, their
file counts as changed.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.errors import PipelineError
from frazil.pipelines import read_ledger
from frazil.pipelines.sources import SourceFile
from frazil.write.commit import MAIN

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table as LiveTable

DIGESTS_KEPT = 65_536  # per process: a stream asks again every few seconds
HASH = "sha256:"
Digest = Callable[[SourceFile], str]


@dataclass(frozen=True)
class Tag:
    """What the ledger's `tag` says about a file.

    >>> Tag.parse("17 sha256:9f86 #2")
    Tag(stamp='17', content='sha256:9f86', number=2)
    >>> str(Tag.parse("17 sha256:9f86 #2")), str(Tag.parse('"etag"'))
    ('17 sha256:9f86 #2', '"etag"')
    """

    stamp: str  # modification time in nanoseconds, or ETag
    content: str = ""
    number: int = 1

    @classmethod
    def parse(cls, text: str) -> Tag:
        stamp, *rest = text.split(" ")
        content = next((part for part in rest if not part.startswith("#")), "")
        number = next((int(part[1:]) for part in rest if part.startswith("#")), 1)
        return cls(stamp, content, number)

    def __str__(self) -> str:
        return " ".join(
            part for part in (self.stamp, self.content, f"#{self.number}" if self.number > 1 else "") if part
        )


@dataclass(frozen=True)
class Arrivals:
    """Landing files by what the ledger knows of them; the others are loaded. The tags are those that a load adds to the
    ledger.
    """

    new: tuple[SourceFile, ...] = ()
    changed: tuple[SourceFile, ...] = ()  # known paths with other content than what was loaded last
    touched: tuple[SourceFile, ...] = ()  # known paths with the content that is loaded, and another modification time
    # paths of `changed` with the same size, where the ledger has no hash to compare the content with
    unverified: tuple[str, ...] = ()
    # path, size and tag of loaded files, by the ledger: those with a hash and the size of a listed file
    loaded: pa.Table | None = field(default=None, compare=False, repr=False)

    @property
    def files(self) -> list[SourceFile]:
        """All files with rows that the table may lack, in order of their path."""
        return sorted((*self.new, *self.changed))


@dataclass
class _Known:
    """The ledger's rows of one path: those with the highest number."""

    number: int = 0
    rows: list[tuple[int, Tag]] = field(default_factory=list)

    def add(self, size: int, tag: Tag) -> None:
        if tag.number > self.number:
            self.number, self.rows = tag.number, []
        if tag.number == self.number:
            self.rows.append((size, tag))

    def has_stamp(self, file: SourceFile) -> bool:
        return any((size, tag.stamp) == (file.size, file.tag) for size, tag in self.rows)

    def has_content(self, file: SourceFile, digest: Digest) -> bool:
        contents = {tag.content for size, tag in self.rows if size == file.size and tag.content}
        return bool(contents) and digest(file) in contents

    def lacks_hash(self, file: SourceFile) -> bool:
        """Whether the file may have the content that is loaded: a row of its size tells only the modification time or
        the ETag.
        """
        return any(size == file.size and not tag.content for size, tag in self.rows)


def compare_with_ledger(
    files: Sequence[SourceFile], ledger: LiveTable | None, pipeline: str, *, digest: Digest, ref: str = MAIN
) -> Arrivals:
    """Sorts the files of a listing; without a ledger, all are new. The ledger is streamed, once: memory follows the
    files at hand, not all that ever were. A branch of the ledger names the files of the table's branch.
    """
    if ledger is None:
        return Arrivals(tuple(files))
    known, loaded = _read_known(files, ledger, pipeline, ref)
    new: list[SourceFile] = []
    changed: list[SourceFile] = []
    touched: list[SourceFile] = []
    unverified: list[str] = []
    for file, rows in zip(files, known, strict=True):
        if rows is None:
            new.append(file)
        elif rows.has_stamp(file):
            continue
        elif rows.has_content(file, digest):
            touched.append(replace(file, tag=str(Tag(file.tag, digest(file), rows.number))))
        else:
            changed.append(replace(file, tag=str(Tag(file.tag, number=rows.number + 1))))
            unverified += [file.path] if rows.lacks_hash(file) else []
    return Arrivals(tuple(new), tuple(changed), tuple(touched), tuple(unverified), loaded)


def with_content(files: Sequence[SourceFile], digest: Digest) -> list[SourceFile]:
    """The files, with their content in the tag; several are read at once."""
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        contents = list(pool.map(digest, files))
    return [
        replace(file, tag=str(replace(Tag.parse(file.tag), content=own)))
        for file, own in zip(files, contents, strict=True)
    ]


def find_copies(files: Sequence[SourceFile], arrived: Arrivals) -> dict[str, str]:
    """The files with content that was loaded from another path, or that an earlier file of the list has; empty files
    are not compared.
    """
    copies: dict[str, str] = {}
    wanted: dict[tuple[int, str], list[str]] = {}
    for file in files:
        if file.size and (content := Tag.parse(file.tag).content):
            same = wanted.setdefault((file.size, content), [])
            copies |= {file.path: same[0]} if same else {}
            same.append(file.path)
    for path, size, tag in _rows_of_sizes({size for size, _ in wanted}, arrived.loaded):
        copies |= {copy: path for copy in wanted.get((size, Tag.parse(tag).content), ()) if copy != path}
    return dict(sorted(copies.items()))


def expect_copies(arrived: Arrivals, digest: Digest) -> dict[str, str]:
    """The `copies` that the result of a run would name. Reads only files whose size another file has."""
    counts = Counter(file.size for file in arrived.files)
    loaded = {size for _, size, _ in _rows_of_sizes(set(counts), arrived.loaded)}
    files = [file for file in arrived.files if counts[file.size] > 1 or file.size in loaded]
    return find_copies(with_content(files, digest), arrived)


def local_digest(folder: Path) -> Digest:
    """Gives the content of a file of this machine as `sha256:...`; nothing for an object, which has an ETag."""

    def digest(file: SourceFile) -> str:
        return "" if "://" in file.path else _hash_file(str(folder / file.path), file.size, Tag.parse(file.tag).stamp)

    return digest


@lru_cache(DIGESTS_KEPT)
def _hash_file(path: str, _size: int, _stamp: str) -> str:
    """Size and stamp are given for the cache: a file that changed is read again."""
    try:
        with Path(path).open("rb") as opened:
            return f"{HASH}{hashlib.file_digest(opened, 'sha256').hexdigest()}"
    except OSError as exc:
        raise PipelineError(f"cannot read {path}: {exc.strerror}", path=path) from exc


def _read_known(
    files: Sequence[SourceFile], ledger: LiveTable, pipeline: str, ref: str
) -> tuple[list[_Known | None], pa.Table | None]:
    """What the ledger knows of each file, and the rows of loaded files that a new one may be a copy of."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known: list[_Known | None] = [None] * len(files)
    paths = pa.array([file.path for file in files], pa.string())
    sizes = pa.array({file.size for file in files}, pa.int64())
    loaded = []
    for batch in read_ledger(ledger, pipeline, ref) if files else ():
        for index, size, tag in _matching(batch, paths):
            known[index] = rows = known[index] or _Known()
            rows.add(size, Tag.parse(tag))
        is_hashed = pc.match_substring(pc.cast(batch.column("tag"), pa.string()), HASH)
        loaded.append(batch.filter(pc.and_(is_hashed, pc.is_in(batch.column("size"), value_set=sizes))))
    return known, pa.Table.from_batches(loaded) if loaded else None


def _matching(batch: pa.RecordBatch, paths: pa.Array) -> Iterator[tuple[int, int, str]]:
    """The place in `paths`, the size and the tag of the rows with one of these paths."""
    import pyarrow as pa
    import pyarrow.compute as pc

    index = pc.index_in(pc.cast(batch.column("path"), pa.string()), value_set=paths)
    rows = pa.table({"index": index, "size": batch.column("size"), "tag": batch.column("tag")}).filter(
        pc.is_valid(index)
    )
    return zip(*(rows.column(name).to_pylist() for name in ("index", "size", "tag")), strict=True)


def _rows_of_sizes(sizes: set[int], loaded: pa.Table | None) -> Iterator[tuple[str, int, str]]:
    """Path, size and tag of the loaded files with one of these sizes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if loaded is None or not sizes:
        return
    rows = loaded.filter(pc.is_in(loaded.column("size"), value_set=pa.array(sorted(sizes), pa.int64())))
    yield from zip(*(rows.column(name).to_pylist() for name in ("path", "size", "tag")), strict=True)
