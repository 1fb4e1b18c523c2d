"""A segment: the codes of the vectors of some data files, list by list, in one Puffin file that never changes.

| blob | what it holds |
| --- | --- |
| `frazil-vector-files-v1` | the data files that the segment covers, with their row counts, as JSON |
| `frazil-vector-lists-v1` | for each list: how many vectors, the CRC-32 of its two blocks, as little-endian uint32 |
| `frazil-vector-codes-v1` | a block for each list: signs, factors (2 float32), file numbers and positions (uint32) |
| `frazil-vector-bytes-v1` | a block for each list: bytes, scales (3 float32) |

Blocks lie one after the other in the order of the lists, so that the counts say where each is, and lists that follow
each other are one range. A block is a few arrays, each of all vectors of the list.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from frazil.errors import IndexDamaged
from frazil.puffin import Blob, PuffinReader, PuffinWriter
from frazil.vector.codes import Codes, Refined
from frazil.vector.metric import Bytes, Matrix, Numbers

if TYPE_CHECKING:
    from pyiceberg.io import InputFile, OutputFile

    from frazil.vector.codebook import Codebook
    from frazil.vector.moved import MovedRows

FILES, LISTS = "frazil-vector-files-v1", "frazil-vector-lists-v1"
CODES, BYTES = "frazil-vector-codes-v1", "frazil-vector-bytes-v1"
READ_BYTES = 8 << 20  # of a segment that is read from one end to the other


class CoveredFile(NamedTuple):
    """A data file of the table, and how many rows it has."""

    path: str
    rows: int


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """The vectors of a list for the first look: codes, and where each row is."""

    codes: Codes
    files: Numbers
    positions: Numbers


@dataclass(frozen=True)
class Shape:
    """How many bytes the vectors of an index take."""

    dimension: int  # a multiple of eight

    @property
    def signs(self) -> int:
        return self.dimension // 8

    @property
    def code_row(self) -> int:
        """Signs, two factors, the file and the position."""
        return self.signs + 16

    @property
    def bytes_row(self) -> int:
        """A byte for each number, and three scales."""
        return self.dimension + 12

    def pack_codes(self, block: CodeBlock) -> bytes:
        arrays = (
            block.codes.signs,
            block.codes.factors.astype("<f4"),
            block.files.astype("<u4"),
            block.positions.astype("<u4"),
        )
        return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)

    def unpack_codes(self, data: Any, count: int) -> CodeBlock:
        signs, factors, files, positions = _split(data, count, (self.signs, 8, 4, 4))
        codes = Codes(signs.reshape(count, self.signs), factors.view("<f4").reshape(count, 2))
        return CodeBlock(codes, files.view("<u4"), positions.view("<u4"))

    def pack_bytes(self, refined: Refined) -> bytes:
        return np.ascontiguousarray(refined.values).tobytes() + refined.scales.astype("<f4").tobytes()

    def unpack_bytes(self, data: Any, count: int) -> Refined:
        values, scales = _split(data, count, (self.dimension, 12))
        return Refined(values.reshape(count, self.dimension), scales.view("<f4").reshape(count, 3))


def _split(data: Any, count: int, sizes: Sequence[int]) -> list[Bytes]:
    whole = np.frombuffer(data, np.uint8)
    ends = np.cumsum([size * count for size in sizes])
    return np.split(whole, ends[:-1])


@dataclass(frozen=True)
class Lists:
    """What a segment has of each list."""

    counts: Numbers
    code_sums: Numbers
    byte_sums: Numbers

    def to_bytes(self) -> bytes:
        return np.stack([self.counts, self.code_sums, self.byte_sums]).astype("<u4").tobytes()

    @classmethod
    def of(cls, payload: bytes) -> Lists:
        counts, codes, refined = np.frombuffer(payload, "<u4").astype(np.int64).reshape(3, -1)
        return cls(counts, codes, refined)

    @cached_property
    def starts(self) -> Numbers:
        """How many vectors come before each list, and before the end."""
        return np.concatenate([[0], np.cumsum(self.counts)])


class Rows(NamedTuple):
    """Encoded vectors of one list, with the number of their file in the segment and their position in it."""

    block: CodeBlock
    refined: Refined


# --- writing ---------------------------------------------------------------------------------------------------------


class Collector:
    """Gathers the encoded vectors of data files until all of a segment are there."""

    def __init__(self, codebook: Codebook, moved: MovedRows | None = None) -> None:
        self._codebook, self._moved = codebook, moved
        self.files: list[CoveredFile] = []
        self._parts: list[tuple[Numbers, CodeBlock, Refined]] = []

    def add_file(self, path: str, rows: int) -> int:
        """A file that the segment covers, also if it has no vector; gives its number."""
        self.files.append(CoveredFile(path, rows))
        return len(self.files) - 1

    def add(self, number: int, positions: Numbers, vectors: Matrix) -> None:
        """Vectors of a file that all have a distance."""
        nearest, codes, refined = self._codebook.encode(vectors, self._moved)
        self._parts.append((nearest, CodeBlock(codes, np.full(len(nearest), number, np.uint32), positions), refined))

    def __len__(self) -> int:
        return sum(len(nearest) for nearest, _, _ in self._parts)

    def lists(self) -> Iterator[Rows]:
        """The vectors of each list, in the order in which they came."""
        nearest = np.concatenate([np.empty(0, np.int64), *(part[0] for part in self._parts)])
        order = np.argsort(nearest, kind="stable")
        ends = np.cumsum(np.bincount(nearest, minlength=self._codebook.lists))
        blocks, refined = [part[1] for part in self._parts], [part[2] for part in self._parts]
        arrays = (
            [
                np.concatenate(column)
                for column in (
                    [block.codes.signs for block in blocks],
                    [block.codes.factors for block in blocks],
                    [block.files for block in blocks],
                    [block.positions for block in blocks],
                    [part.values for part in refined],
                    [part.scales for part in refined],
                )
            ]
            if blocks
            else []
        )
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            rows = order[start:end]
            if not len(rows):
                yield empty_rows(len(self._codebook.rotation))
                continue
            signs, factors, files, positions, values, scales = (array[rows] for array in arrays)
            yield Rows(CodeBlock(Codes(signs, factors), files, positions), Refined(values, scales))


def empty_rows(dimension: int) -> Rows:
    """A list without vectors."""
    codes = Codes(np.empty((0, dimension // 8), np.uint8), np.empty((0, 2), np.float32))
    block = CodeBlock(codes, np.empty(0, np.uint32), np.empty(0, np.uint32))
    return Rows(block, Refined(np.empty((0, dimension), np.uint8), np.empty((0, 3), np.float32)))


def write_segment(
    output: OutputFile, files: Sequence[CoveredFile], lists: Iterable[Rows], shape: Shape, *, field_id: int
) -> int:
    """A segment is in a new file; gives its size. The blocks of the second look are kept in memory until the first are
    written.
    """
    counts, code_sums, byte_sums = [], [], []
    codes, refined = bytearray(), bytearray()
    for rows in lists:
        code_block, byte_block = shape.pack_codes(rows.block), shape.pack_bytes(rows.refined)
        counts.append(len(rows.block.files))
        code_sums.append(zlib.crc32(code_block))
        byte_sums.append(zlib.crc32(byte_block))
        codes += code_block
        refined += byte_block
    table = Lists(np.array(counts), np.array(code_sums), np.array(byte_sums))
    covered = json.dumps([[file.path, file.rows] for file in files]).encode()
    properties = {"dimension": str(shape.dimension), "vectors": str(int(table.counts.sum()))}
    with PuffinWriter(output, properties=properties) as writer:
        for kind, payload, codec in (
            (FILES, covered, "zstd"),
            (LISTS, table.to_bytes(), "zstd"),
            (CODES, bytes(codes), None),
            (BYTES, bytes(refined), None),
        ):
            writer.add(Blob(kind, (field_id,), payload, codec=codec), snapshot_id=-1, sequence_number=-1)
    assert writer.written is not None
    return writer.written.size


def merge_lists(segments: Sequence[Segment]) -> Iterator[Rows]:
    """The lists of several segments as one: those of a segment after those of the one before it."""
    bases = np.cumsum([0, *(len(segment.files) for segment in segments[:-1])])
    for parts in zip(*(segment.read_all() for segment in segments), strict=True):
        blocks = [part.block for part in parts]
        codes = Codes(
            np.concatenate([block.codes.signs for block in blocks]),
            np.concatenate([block.codes.factors for block in blocks]),
        )
        files = np.concatenate([block.files + base for block, base in zip(blocks, bases, strict=True)])
        block = CodeBlock(codes, files, np.concatenate([block.positions for block in blocks]))
        yield Rows(
            block,
            Refined(
                np.concatenate([part.refined.values for part in parts]),
                np.concatenate([part.refined.scales for part in parts]),
            ),
        )


# --- reading ---------------------------------------------------------------------------------------------------------


class Segment:
    """A segment that is there: what it covers is read at once, its blocks when they are asked for."""

    def __init__(self, source: InputFile, *, dimension: int) -> None:
        self.location, self._source = source.location, source
        reader = PuffinReader(source)
        self._blobs = {info.type: info for info in reader.blobs}
        if missing := {FILES, LISTS, CODES, BYTES} - self._blobs.keys():
            raise self.damaged(f"it has no {', '.join(sorted(missing))}")
        try:
            self.files = [CoveredFile(path, rows) for path, rows in json.loads(reader.read(self._blobs[FILES]))]
            self.lists = Lists.of(reader.read(self._blobs[LISTS]))
        except (ValueError, TypeError, OSError) as exc:
            raise self.damaged(f"what it covers cannot be read ({exc})") from exc
        self.shape = Shape(dimension)
        total = int(self.lists.starts[-1])
        if (self._blobs[CODES].length, self._blobs[BYTES].length) != (
            total * self.shape.code_row,
            total * self.shape.bytes_row,
        ):
            raise self.damaged("its blocks have other sizes than its lists say")

    def code_range(self, number: int) -> tuple[int, int]:
        """Where the first block of a list begins and ends in the file."""
        first, last = (int(start) * self.shape.code_row for start in self.lists.starts[number : number + 2])
        return self._blobs[CODES].offset + first, self._blobs[CODES].offset + last

    def bytes_range(self, number: int) -> tuple[int, int]:
        """Where the second block of a list begins and ends in the file."""
        first, last = (int(start) * self.shape.bytes_row for start in self.lists.starts[number : number + 2])
        return self._blobs[BYTES].offset + first, self._blobs[BYTES].offset + last

    def code_block(self, number: int, data: Any) -> CodeBlock:
        """The first block of a list, which must be as it was written."""
        self._check(data, self.lists.code_sums[number], number)
        return self.shape.unpack_codes(data, int(self.lists.counts[number]))

    def byte_block(self, number: int, data: Any) -> Refined:
        """The second block of a list, which must be as it was written."""
        self._check(data, self.lists.byte_sums[number], number)
        return self.shape.unpack_bytes(data, int(self.lists.counts[number]))

    def read_all(self) -> Iterator[Rows]:
        """All lists in their order, read in long ranges."""
        for first, last in self._spans():
            start, begin = self.code_range(first)[0], self.bytes_range(first)[0]
            codes = self._read(start, self.code_range(last)[1])
            refined = self._read(begin, self.bytes_range(last)[1])
            for number in range(first, last + 1):
                code_span, byte_span = self.code_range(number), self.bytes_range(number)
                yield Rows(
                    self.code_block(number, codes[code_span[0] - start : code_span[1] - start]),
                    self.byte_block(number, refined[byte_span[0] - begin : byte_span[1] - begin]),
                )

    def rows_of(self, paths: Collection[str]) -> Iterator[tuple[int, Codes, Refined]]:
        """The rows of some of the covered files, list by list; nothing is read if it covers none of them."""
        wanted = np.array([file.path in paths for file in self.files], np.bool_)
        for number, (block, refined) in enumerate(self.read_all() if wanted.any() else ()):
            rows = np.flatnonzero(wanted[block.files])
            codes = Codes(block.codes.signs[rows], block.codes.factors[rows])
            yield number, codes, Refined(refined.values[rows], refined.scales[rows])

    def read_some(self, paths: Collection[str]) -> Iterator[Rows]:
        """All lists, with the rows of some of the covered files alone; these files are counted from 0 again."""
        wanted = np.array([file.path in paths for file in self.files], np.bool_)
        numbers = np.cumsum(wanted) - 1
        for block, refined in self.read_all():
            rows = np.flatnonzero(wanted[block.files])
            codes = Codes(block.codes.signs[rows], block.codes.factors[rows])
            kept = CodeBlock(codes, numbers[block.files[rows]], block.positions[rows])
            yield Rows(kept, Refined(refined.values[rows], refined.scales[rows]))

    def _spans(self) -> Iterator[tuple[int, int]]:
        """Lists that follow each other, by the first and the last, whose blocks are read at once."""
        most, first = max(1, READ_BYTES // self.shape.bytes_row), 0
        starts = self.lists.starts
        for number in range(len(self.lists.counts)):
            if starts[number + 1] - starts[first] >= most or number == len(self.lists.counts) - 1:
                yield first, number
                first = number + 1

    def damaged(self, reason: str) -> IndexDamaged:
        return IndexDamaged(self.location, reason)

    def _check(self, data: Any, expected: int, number: int) -> None:
        if zlib.crc32(data) != expected:
            raise self.damaged(f"the checksum of list {number} is wrong")

    def _read(self, start: int, end: int) -> bytes:
        with self._source.open() as stream:
            stream.seek(start)
            return bytes(stream.read(end - start))
