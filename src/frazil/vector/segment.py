"""A segment: the codes of the vectors of some data files, list by list, in one Puffin file that never changes.

| blob | what it holds |
| --- | --- |
| `frazil-vector-files-v1` | the data files that the segment covers, with their row counts, as JSON |
| `frazil-vector-lists-v1` | for each list: how many vectors, the CRC-32 of its codes, as little-endian uint32 |
| `frazil-vector-codes-v1` | a block per list: signs, factors (2 float32), file numbers, positions, CRC-32 (uint32) |
| `frazil-vector-bytes-v1` | per vector: bytes, scales (3 float32) |

Vectors lie in the order of the lists, so that the counts say where each is, and lists that follow each other are one
range. A block of codes is a few arrays, each of all vectors of the list. The bytes of a vector are read by themselves,
and compared with the checksum that its codes have.

The footer's properties tie a segment to its index: `index` is the folder of the index, whose name follows from what is
indexed, and `codebook` is the fingerprint of the codebook that encoded the vectors. The name of the file follows from
that fingerprint and the covered files. A file in which one of them differs is of another index, or of another build.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from frazil.errors import IndexDamaged
from frazil.puffin import Blob, PuffinReader, PuffinWriter
from frazil.vector.codes import Codes, Refined
from frazil.vector.metric import Bytes, Matrix, Numbers
from frazil.vector.record import folder_of

if TYPE_CHECKING:
    from pyiceberg.io import InputFile, OutputFile

    from frazil.vector.codebook import Codebook
    from frazil.vector.moved import MovedRows

FILES, LISTS = "frazil-vector-files-v1", "frazil-vector-lists-v1"
CODES, BYTES = "frazil-vector-codes-v1", "frazil-vector-bytes-v1"
MOST_ROWS = 1 << 32  # of a data file: a position has four bytes
READ_BYTES = 8 << 20  # of a segment that is read from one end to the other


class CoveredFile(NamedTuple):
    """A data file of the table, and how many rows it has."""

    path: str
    rows: int


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """The vectors of a list for the first look: codes, where each row is, and the checksum of its bytes."""

    codes: Codes
    files: Numbers
    positions: Numbers
    sums: Numbers

    def take(self, rows: Numbers) -> CodeBlock:
        """Some of the vectors."""
        codes = Codes(self.codes.signs[rows], self.codes.factors[rows])
        return CodeBlock(codes, self.files[rows], self.positions[rows], self.sums[rows])


@dataclass(frozen=True)
class Shape:
    """How many bytes the vectors of an index take."""

    dimension: int  # a multiple of eight

    @property
    def signs(self) -> int:
        return self.dimension // 8

    @property
    def code_row(self) -> int:
        """Signs, two factors, the file, the position and the checksum of the bytes."""
        return self.signs + 20

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
            block.sums.astype("<u4"),
        )
        return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)

    def unpack_codes(self, data: Any, count: int) -> CodeBlock:
        signs, factors, files, positions, sums = _split(data, count, (self.signs, 8, 4, 4, 4))
        codes = Codes(signs.reshape(count, self.signs), factors.view("<f4").reshape(count, 2))
        return CodeBlock(codes, files.view("<u4"), positions.view("<u4"), sums.view("<u4"))

    def pack_bytes(self, refined: Refined) -> Bytes:
        """A row for each vector."""
        scales = np.ascontiguousarray(refined.scales, dtype="<f4").view(np.uint8)
        return np.concatenate([refined.values, scales], axis=1)

    def unpack_bytes(self, data: Any) -> Refined:
        rows = np.frombuffer(data, np.uint8).reshape(-1, self.bytes_row)
        scales = np.ascontiguousarray(rows[:, self.dimension :]).view("<f4")
        return Refined(rows[:, : self.dimension], scales)


def _split(data: Any, count: int, sizes: Sequence[int]) -> list[Bytes]:
    whole = np.frombuffer(data, np.uint8)
    ends = np.cumsum([size * count for size in sizes])
    return np.split(whole, ends[:-1])


@dataclass(frozen=True)
class Lists:
    """What a segment has of each list."""

    counts: Numbers
    sums: Numbers  # of the codes

    def to_bytes(self) -> bytes:
        return np.stack([self.counts, self.sums]).astype("<u4").tobytes()

    @classmethod
    def of(cls, payload: bytes) -> Lists:
        counts, sums = np.frombuffer(payload, "<u4").astype(np.int64).reshape(2, -1)
        return cls(counts, sums)

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
        sums = _sums(Shape(len(self._codebook.rotation)).pack_bytes(refined))
        block = CodeBlock(codes, np.full(len(nearest), number, np.uint32), positions, sums)
        self._parts.append((nearest, block, refined))

    def __len__(self) -> int:
        return sum(len(nearest) for nearest, _, _ in self._parts)

    def lists(self) -> Iterator[Rows]:
        """The vectors of each list, in the order in which they came."""
        nearest = np.concatenate([np.empty(0, np.int64), *(part[0] for part in self._parts)])
        order = np.argsort(nearest, kind="stable")
        ends = np.cumsum(np.bincount(nearest, minlength=self._codebook.lists))
        blocks, refined = [part[1] for part in self._parts], [part[2] for part in self._parts]
        if not blocks:
            yield from (empty_rows(len(self._codebook.rotation)) for _ in ends)
            return
        block, whole = _join_blocks(blocks), _join_refined(refined)
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            rows = order[start:end]
            yield Rows(block.take(rows), Refined(whole.values[rows], whole.scales[rows]))


def empty_rows(dimension: int) -> Rows:
    """A list without vectors."""
    codes = Codes(np.empty((0, dimension // 8), np.uint8), np.empty((0, 2), np.float32))
    block = CodeBlock(codes, *(np.empty(0, np.uint32) for _ in range(3)))
    return Rows(block, Refined(np.empty((0, dimension), np.uint8), np.empty((0, 3), np.float32)))


def _sums(rows: Bytes) -> Numbers:
    """The CRC-32 of each row."""
    size, data = rows.shape[1], rows.tobytes()
    return np.array([zlib.crc32(data[at : at + size]) for at in range(0, len(data), size)], np.uint32)


def _join_blocks(blocks: Sequence[CodeBlock]) -> CodeBlock:
    codes = Codes(
        np.concatenate([block.codes.signs for block in blocks]),
        np.concatenate([block.codes.factors for block in blocks]),
    )
    columns = ([getattr(block, name) for block in blocks] for name in ("files", "positions", "sums"))
    return CodeBlock(codes, *map(np.concatenate, columns))


def _join_refined(parts: Sequence[Refined]) -> Refined:
    values, scales = ([getattr(part, name) for part in parts] for name in ("values", "scales"))
    return Refined(np.concatenate(values), np.concatenate(scales))


def write_segment(
    output: OutputFile,
    files: Sequence[CoveredFile],
    lists: Iterable[Rows],
    shape: Shape,
    *,
    field_id: int,
    codebook: str,
) -> int:
    """A segment is in a new file; gives its size. `codebook` is the fingerprint of what the vectors were encoded with.
    What the second look needs is kept in memory until the codes are written.
    """
    counts, sums = [], []
    codes, refined = bytearray(), bytearray()
    for rows in lists:
        block = shape.pack_codes(rows.block)
        counts.append(len(rows.block.files))
        sums.append(zlib.crc32(block))
        codes += block
        refined += shape.pack_bytes(rows.refined).tobytes()
    table = Lists(np.array(counts), np.array(sums))
    covered = json.dumps([[file.path, file.rows] for file in files]).encode()
    properties = {"dimension": str(shape.dimension), "vectors": str(int(table.counts.sum()))}
    properties |= {"index": folder_of(output.location), "codebook": codebook}
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


def segment_name(codebook: str, files: Iterable[Sequence[object]]) -> str:
    """The name of the segment that covers some files (paths and row counts), by the fingerprint of its codebook."""
    return f"segment-{digest(codebook, [list(file) for file in files])}.puffin"


def digest(*facts: object) -> str:
    """What tells facts apart in the names of files."""
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def merge_lists(segments: Sequence[Segment]) -> Iterator[Rows]:
    """The lists of several segments as one: those of a segment after those of the one before it."""
    bases = np.cumsum([0, *(len(segment.files) for segment in segments[:-1])])
    for parts in zip(*(segment.read_all() for segment in segments), strict=True):
        blocks = [replace(part.block, files=part.block.files + base) for part, base in zip(parts, bases, strict=True)]
        yield Rows(_join_blocks(blocks), _join_refined([part.refined for part in parts]))


# --- reading ---------------------------------------------------------------------------------------------------------


class Segment:
    """A segment that is there: what it covers is read at once, its blocks when they are asked for."""

    def __init__(self, source: InputFile, *, dimension: int) -> None:
        self.location, self._source = source.location, source
        reader = PuffinReader(source)
        self.codebook, self.index = reader.properties.get("codebook"), reader.properties.get("index")
        self._blobs = {info.type: info for info in reader.blobs}
        if missing := {FILES, LISTS, CODES, BYTES} - self._blobs.keys():
            raise self.damaged(f"it has no {', '.join(sorted(missing))}")
        try:
            self.files = [
                CoveredFile(str(path), int(rows)) for path, rows in json.loads(reader.read(self._blobs[FILES]))
            ]
            self.lists = Lists.of(reader.read(self._blobs[LISTS]))
        except (ValueError, TypeError, RecursionError, OSError) as exc:
            raise self.damaged(f"what it covers cannot be read ({exc})") from exc
        if not all(0 <= file.rows <= MOST_ROWS for file in self.files):
            raise self.damaged("a covered file has an impossible number of rows")
        self.shape = Shape(dimension)
        total = int(self.lists.starts[-1])
        if (self._blobs[CODES].length, self._blobs[BYTES].length) != (
            total * self.shape.code_row,
            total * self.shape.bytes_row,
        ):
            raise self.damaged("its blocks have other sizes than its lists say")

    def check_belongs(self, codebook: Codebook) -> None:
        """Passes for a segment of the index in whose folder it is, encoded with the codebook, under its own name."""
        folder, name = folder_of(self.location), self.location.rpartition("/")[2]
        if self.index != folder:
            raise self.damaged(f"it belongs to index {self.index or '(none)'}, not to {folder}")
        if self.codebook != codebook.fingerprint:
            raise self.damaged("it was encoded with another codebook")
        if len(self.lists.counts) != codebook.lists:
            raise self.damaged(f"it has {len(self.lists.counts)} lists, the codebook {codebook.lists}")
        if name != segment_name(codebook.fingerprint, self.files):
            raise self.damaged("it covers other files than its name says")

    def code_ranges(self, lists: Numbers) -> tuple[Numbers, Numbers]:
        """Where the codes of some lists begin and end in the file."""
        first = self._blobs[CODES].offset
        row, starts = self.shape.code_row, self.lists.starts
        return first + starts[lists] * row, first + starts[lists + 1] * row

    def byte_ranges(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """Where the bytes of some vectors begin and end in the file."""
        starts = self._blobs[BYTES].offset + rows * self.shape.bytes_row
        return starts, starts + self.shape.bytes_row

    def code_block(self, number: int, data: Any) -> CodeBlock:
        """The codes of a list, which must be as they were written."""
        if zlib.crc32(data) != self.lists.sums[number]:
            raise self.damaged(f"the checksum of list {number} is wrong")
        block = self.shape.unpack_codes(data, int(self.lists.counts[number]))
        if (block.files >= len(self.files)).any() or (block.positions >= self._rows[block.files]).any():
            raise self.damaged(f"list {number} names a row that no covered file has")
        return block

    @cached_property
    def _rows(self) -> Numbers:
        """How many rows each covered file has."""
        return np.array([file.rows for file in self.files], np.int64)

    def check_bytes(self, row: int, data: Any, expected: int) -> None:
        """Passes for the bytes of a vector as they were written."""
        if zlib.crc32(data) != expected:
            raise self.damaged(f"the checksum of vector {row} is wrong")

    def read_all(self) -> Iterator[Rows]:
        """All lists in their order, read in long ranges."""
        row, starts = self.shape.bytes_row, self.lists.starts
        for first, last in self._spans():
            begins, ends = (places.tolist() for places in self.code_ranges(np.arange(first, last + 1)))
            codes, start = self._read(begins[0], ends[-1]), self._blobs[BYTES].offset + int(starts[first]) * row
            refined = memoryview(self._read(start, start + int(starts[last + 1] - starts[first]) * row))
            for number, begin, end in zip(range(first, last + 1), begins, ends, strict=True):
                block = self.code_block(number, codes[begin - begins[0] : end - begins[0]])
                own = refined[int(starts[number] - starts[first]) * row : int(starts[number + 1] - starts[first]) * row]
                for place, expected in enumerate(block.sums.tolist()):
                    self.check_bytes(int(starts[number]) + place, own[place * row : (place + 1) * row], expected)
                yield Rows(block, self.shape.unpack_bytes(own))

    def verify(self) -> None:
        """Passes for a segment as it was written, in which no row is twice. All of it is read."""
        rows = [block.files.astype(np.int64) << 32 | block.positions for block, _ in self.read_all()]
        if len(np.unique(np.concatenate(rows))) < int(self.lists.starts[-1]):
            raise self.damaged("it has a row twice")

    def rows_of(self, paths: Collection[str]) -> Iterator[tuple[int, Codes, Refined]]:
        """The rows of some of the covered files, list by list; nothing is read if it covers none of them."""
        wanted = np.array([file.path in paths for file in self.files], np.bool_)
        for number, (block, refined) in enumerate(self.read_all() if wanted.any() else ()):
            rows = np.flatnonzero(wanted[block.files])
            yield number, block.take(rows).codes, Refined(refined.values[rows], refined.scales[rows])

    def read_some(self, paths: Collection[str]) -> Iterator[Rows]:
        """All lists, with the rows of some of the covered files alone; these files are counted from 0 again."""
        wanted = np.array([file.path in paths for file in self.files], np.bool_)
        numbers = np.cumsum(wanted) - 1
        for block, refined in self.read_all():
            rows = np.flatnonzero(wanted[block.files])
            kept = block.take(rows)
            yield Rows(replace(kept, files=numbers[kept.files]), Refined(refined.values[rows], refined.scales[rows]))

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

    def _read(self, start: int, end: int) -> bytes:
        with self._source.open() as stream:
            stream.seek(start)
            return bytes(stream.read(end - start))


def open_segment(source: InputFile, codebook: Codebook) -> Segment:
    """A segment that belongs to a codebook; one of another index or of another build counts as damaged."""
    segment = Segment(source, dimension=len(codebook.rotation))
    segment.check_belongs(codebook)
    return segment
