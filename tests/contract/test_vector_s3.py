"""Vector search on a real S3 server (SeaweedFS): few reads when it is cold, none of the index when it is not, and the
same rows.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyiceberg.expressions import EqualTo
from pyiceberg.io.pyarrow import PyArrowFileIO

from frazil import Lake
from frazil.cli.context import Context
from frazil.cli.explain import explain
from frazil.client import FrazilCatalog
from frazil.config import load_settings
from frazil.vector.disk import CachedFiles, DiskCache, _CachedFile
from tests.contract.test_catalog_search import SCHEMA, query, vectors_from

Ranges = list[tuple[str, int, int]]


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ranges:
    """The ranges of index files that are read from the store, with a cache of their own."""
    monkeypatch.setenv("FRAZIL_CACHE", str(tmp_path / "cache"))
    ranges: Ranges = []
    fetch = _CachedFile._fetch

    def count(self: _CachedFile, start: int, end: int) -> bytes:
        ranges.append((self.location, start, end))
        return fetch(self, start, end)

    monkeypatch.setattr(_CachedFile, "_fetch", count)
    return ranges


def search(catalog: FrazilCatalog, *, exact: bool = False) -> list[int]:
    """A search by a lake that has read nothing yet, for a vector of the table: an index finds it, whatever else it
    misses.
    """
    scan = Lake(catalog=catalog).table("lake.points").scan(columns="id")
    ids: list[int] = scan.nearest("embedding", own_vector(), k=1, exact=exact).to_arrow()["id"].to_pylist()
    return ids


def own_vector() -> list[float]:
    vector: list[float] = vectors_from(0, 1000)[7]["embedding"]
    return vector


@pytest.fixture
def points(s3_catalog: FrazilCatalog) -> FrazilCatalog:
    s3_catalog.create_table("lake.points", SCHEMA)
    table = Lake(catalog=s3_catalog).table("lake.points")
    for start in range(0, 2000, 1000):
        table.append(vectors_from(start, 1000))
    table.indexes.create("embedding", lists=32)
    return s3_catalog


def test_a_cold_search_needs_few_reads_and_a_warm_one_none(points: FrazilCatalog, fetched: Ranges) -> None:
    search(points, exact=True)
    assert fetched == []
    expected = search(points)
    assert 0 < len(fetched) <= 8  # the codebook, the segment's lists, its codes, its bytes
    assert len({location for location, _, _ in fetched}) == 2
    fetched.clear()
    assert search(points) == expected
    assert fetched == []


def test_the_catalog_searches_files_in_the_store(points: FrazilCatalog) -> None:
    """By its own keys: range by range, the index, rows that it does not cover, and the rows of the answer."""
    table = Lake(catalog=points).table("lake.points")
    table.append(vectors_from(2000, 50))
    table.delete("id = 2007")
    asked = [query(seed) for seed in range(5)]
    expected = table.scan("kind = 'red'").nearest("embedding", asked, k=7).to_arrow()
    assert points.search_table("lake.points", "embedding", asked, k=7, filter=EqualTo("kind", "red")).equals(expected)
    exact = table.scan().nearest("embedding", asked, k=7, exact=True).to_arrow()
    assert points.search_table("lake.points", "embedding", asked, k=7, exact=True).equals(exact)


def test_pages_that_are_damaged_on_disk_are_read_again(
    points: FrazilCatalog, fetched: Ranges, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = search(points)
    for file in (tmp_path / "cache/indexes").glob("*.pages"):
        file.write_bytes(bytes(file.stat().st_size))
    fetched.clear()
    assert search(points) == expected
    assert fetched != []
    assert caplog.text == ""


def test_a_repaired_index_is_not_hidden_by_the_cache(
    points: FrazilCatalog, fetched: Ranges, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The store has a damaged segment, which is read, and then the right one again, under the same name."""
    table = Lake(catalog=points).table("lake.points")
    (record,) = table.indexes.records()
    io, path = table.load().io, record.segments[0].path
    with io.new_input(path).open() as stream:
        content = stream.read()
    damaged = bytearray(content)
    damaged[1000:-2000] = bytes(len(damaged) - 3000)
    answers = [search(points, exact=True), search(points)]
    fetched.clear()
    shutil.rmtree(tmp_path / "cache")
    for stored, expected in zip((bytes(damaged), content), answers, strict=True):
        with io.new_output(path).create(overwrite=True) as output:
            output.write(stored)
        assert search(points) == expected
    assert caplog.text.count("`frazil index refresh lake.points embedding") == 1


def test_the_cache_can_be_turned_off(points: FrazilCatalog, tmp_path: Path, fetched: Ranges) -> None:
    context = Context()
    context.__dict__["catalog"] = points
    context.__dict__["settings"] = load_settings(flags={"search.cache_bytes": "0"}, environ={}, folder=tmp_path)
    args = ["lake.points", "--nearest", "embedding", "--vector", str(query()), "--output", "json"]
    result = CliRunner().invoke(explain, args, obj=context)
    assert '"lists-probed"' in result.output
    assert fetched == []
    assert not (tmp_path / "cache").exists()


def test_local_files_are_not_kept_twice(tmp_path: Path) -> None:
    files = CachedFiles(PyArrowFileIO(), DiskCache(tmp_path / "cache", 1_000_000))
    assert not isinstance(files.new_input(f"file://{tmp_path}/a"), _CachedFile)
    assert isinstance(files.new_input("s3://bucket/a"), _CachedFile)
