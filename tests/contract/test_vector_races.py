"""Several processes change a vector index at the same time: no work is lost, and no file of another is removed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.io import OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

from frazil.client import FrazilCatalog
from frazil.errors import CommitConflict, NoSuchIndex, VectorError
from frazil.vector import Builder, Indexes
from frazil.vector.engines import write_again
from tests.contract.test_vector_nearest import Vectors, queries


@pytest.fixture
def vectors(catalog: FrazilCatalog, tmp_path: Path) -> Vectors:
    world = Vectors(catalog, tmp_path)
    world.append(300)
    world.append(200)
    return world


def overtaken(vectors: Vectors, overtake: Callable[[], object], *, times: int = 1) -> Indexes:
    """Indexes of the table; each build is overtaken when its segments are written and its record is not."""
    left = iter(range(times))

    def progress(step: str, done: int, total: int) -> None:
        if step == "segments" and done == total and next(left, None) is not None:
            overtake()

    return Indexes(vectors.catalog, vectors.name, Builder(progress))


@pytest.mark.requirement("flow.vector-build")
@pytest.mark.parametrize("lost_record", [False, True])
def test_a_refresh_that_was_overtaken_goes_on_with_the_newer_record(vectors: Vectors, lost_record: bool) -> None:
    other = vectors.table.indexes
    created = other.create("embedding", lists=4)
    if lost_record:
        vectors.catalog.drop_index(vectors.name, created.name)
    vectors.append(100)

    def overtake() -> None:
        vectors.append(50)
        other.refresh("embedding")
        vectors.append(20)

    refreshed = overtaken(vectors, overtake).refresh("embedding")
    assert (refreshed.vectors, refreshed.version) == (670, 2 if lost_record else 3)
    assert other.check("embedding").problems == ()
    assert vectors.table.scan().nearest("embedding", queries(1)[0]).explain().files_exact == 0


def test_a_refresh_that_is_overtaken_again_and_again_says_what_to_do(vectors: Vectors) -> None:
    other = vectors.table.indexes
    other.create("embedding", lists=4)
    vectors.append(10)

    def overtake() -> None:
        vectors.append(10)
        other.refresh("embedding")
        vectors.append(10)

    with pytest.raises(CommitConflict) as caught:
        overtaken(vectors, overtake, times=100).refresh("embedding")
    assert "frazil index refresh" in str(caught.value.hint)
    assert other.check("embedding").problems == ()
    assert other.refresh("embedding").vectors == len(vectors.rows)


def test_a_create_that_was_overtaken_says_that_the_index_exists(vectors: Vectors) -> None:
    other = vectors.table.indexes
    with pytest.raises(VectorError) as caught:
        overtaken(vectors, lambda: other.create("embedding", lists=4)).create("embedding", lists=4)
    assert caught.value.problem == "exists"
    assert other.check("embedding").problems == ()


def test_a_refresh_of_an_index_that_is_dropped_meanwhile_does_not_bring_it_back(vectors: Vectors) -> None:
    other = vectors.table.indexes
    other.create("embedding", lists=4)
    vectors.append(10)
    with pytest.raises(NoSuchIndex):
        overtaken(vectors, lambda: other.drop("embedding")).refresh("embedding")
    assert other.records() == []


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_repair_removes_no_file_that_another_repair_has_written(
    vectors: Vectors, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = vectors.table.indexes.create("embedding", lists=4)
    segment = Path(record.segments[0].path.removeprefix("file://"))
    whole = segment.read_bytes()
    flipped = bytearray(whole)
    flipped[1000] ^= 0xFF
    segment.write_bytes(whole[:1000] if damage == "cut" else flipped)
    deleted: list[object] = []
    monkeypatch.setattr(PyArrowFileIO, "delete", lambda _, location: deleted.append(location))
    assert vectors.table.indexes.refresh("embedding") == record
    assert segment.read_bytes() == whole
    assert deleted == []


def test_builds_that_write_the_same_file_at_the_same_time_both_succeed(tmp_path: Path) -> None:
    """A file is whole at any time: the one that ends last replaces the other."""
    io, path = PyArrowFileIO(), tmp_path / "segment.puffin"

    def write(output: OutputFile, meanwhile: Callable[[], object] = lambda: None) -> int:
        with output.create() as stream:
            stream.write(b"first half, ")
            meanwhile()
            stream.write(b"second half")
        return len(output)

    def overtake() -> None:
        assert write_again(io, str(path), write) == 23
        assert path.read_bytes() == b"first half, second half"

    assert write_again(io, str(path), lambda output: write(output, overtake)) == 23
    assert write_again(io, path.as_uri(), write) == 23
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"first half, second half"]
