"""Pages of index files on the local disk: what is there is not asked for again, and damage is noticed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from frazil.vector.disk import LOOK_BYTES, PAGE, DiskCache

LOCATION = "s3://bucket/index/segment.puffin"


class Store:
    """A file in a store, and the ranges that were asked for."""

    def __init__(self, size: int) -> None:
        self.content = random.Random(1).randbytes(size)
        self.asked: list[tuple[int, int]] = []

    def fetch(self, start: int, end: int) -> bytes:
        self.asked.append((start, end))
        return self.content[start:end]


@pytest.fixture
def store() -> Store:
    return Store(20 * PAGE + 100)


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "indexes", 100 * PAGE)


def test_ranges_are_what_the_store_has_and_are_asked_for_once(cache: DiskCache, store: Store) -> None:
    chance = random.Random(2)
    for _ in range(300):
        start, end = sorted(chance.choices(range(len(store.content) + 1), k=2))
        assert cache.read(LOCATION, start, end, store.fetch) == store.content[start:end]
    cache.read(LOCATION, 0, len(store.content), store.fetch)
    store.asked.clear()
    assert cache.read(LOCATION, 0, len(store.content), store.fetch) == store.content
    assert store.asked == []


def test_another_process_finds_the_pages(cache: DiskCache, store: Store, tmp_path: Path) -> None:
    cache.read(LOCATION, 10, 5 * PAGE, store.fetch)
    other = DiskCache(tmp_path / "indexes", 100 * PAGE)
    assert other.read(LOCATION, PAGE, 2 * PAGE + 5, store.fetch) == store.content[PAGE : 2 * PAGE + 5]
    assert len(store.asked) == 1
    assert [other.size(LOCATION, lambda: 7), cache.size(LOCATION, lambda: 9)] == [7, 7]


def test_pages_that_lie_near_each_other_are_one_request(cache: DiskCache, store: Store) -> None:
    cache.read(LOCATION, 5 * PAGE, 6 * PAGE, store.fetch)
    cache.read(LOCATION, 12 * PAGE, 20 * PAGE, store.fetch)
    store.asked.clear()
    cache.read(LOCATION, 0, len(store.content), store.fetch)
    assert store.asked == [(0, 12 * PAGE), (20 * PAGE, 21 * PAGE)]


@pytest.mark.parametrize("kind", ["pages", "entries"])
def test_damaged_and_lost_pages_are_asked_for_again(cache: DiskCache, store: Store, tmp_path: Path, kind: str) -> None:
    cache.read(LOCATION, 0, 4 * PAGE, store.fetch)
    (file,) = (tmp_path / "indexes").glob(f"*.{kind}")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    for damaged in (bytes(content), bytes(content)[: len(content) // 2], b""):
        file.write_bytes(damaged)
        assert cache.read(LOCATION, 0, 4 * PAGE, store.fetch) == store.content[: 4 * PAGE]
    assert len(store.asked) == 4


def test_a_file_that_is_forgotten_is_read_again(cache: DiskCache, store: Store) -> None:
    cache.read(LOCATION, 0, PAGE, store.fetch)
    store.content = store.content[::-1]
    assert cache.read(LOCATION, 0, PAGE, store.fetch) != store.content[:PAGE]
    cache.forget(LOCATION)
    assert cache.read(LOCATION, 0, PAGE, store.fetch) == store.content[:PAGE]


def test_a_file_that_ends_too_early_gives_less(cache: DiskCache, store: Store) -> None:
    store.content = store.content[: PAGE + 10]
    for _ in range(2):
        assert cache.read(LOCATION, 5, 3 * PAGE, store.fetch) == store.content[5:]
        assert cache.read(LOCATION, 2 * PAGE, 3 * PAGE, store.fetch) == b""


def test_the_folder_has_no_more_bytes_than_the_limit(tmp_path: Path) -> None:
    most = 3 * LOOK_BYTES
    cache, store = DiskCache(tmp_path, most), Store(LOOK_BYTES)
    for number in range(6):
        cache.read(f"s3://bucket/{number}", 0, LOOK_BYTES, store.fetch)
    size = sum(file.stat().st_blocks * 512 for file in tmp_path.iterdir())
    assert LOOK_BYTES < size <= most + 1_000_000
    store.asked.clear()
    assert cache.read("s3://bucket/5", 0, 10, store.fetch) == store.content[:10]
    assert store.asked == []


def test_a_folder_that_cannot_be_used_is_no_error(tmp_path: Path, store: Store) -> None:
    (tmp_path / "file").write_text("")
    cache = DiskCache(tmp_path / "file" / "indexes", 100 * PAGE)
    assert cache.read(LOCATION, 3, 9, store.fetch) == store.content[3:9]
    assert cache.size(LOCATION, lambda: 7) == 7
    cache.forget(LOCATION)


def test_an_error_of_the_store_is_passed_on(cache: DiskCache) -> None:
    def fetch(start: int, end: int) -> bytes:
        raise FileNotFoundError(LOCATION)

    with pytest.raises(FileNotFoundError):
        cache.read(LOCATION, 0, 10, fetch)
