"""Builds of a vector index are killed at random moments: no half index is ever used, and the next build goes on."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import FloatType, ListType, LongType, NestedField

from frazil import Lake
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.client import FrazilCatalog
from frazil.errors import DataFileUnreadable
from frazil.puffin import PuffinReader
from frazil.vector import IndexRecord
from frazil.vector.metric import Matrix
from tests.conftest import Campaign
from tests.faults.sink_processes import PROCESSES
from tests.faults.vector_builder import build

TABLE, DIMENSION, LONGEST_SECONDS = "lake.words", 64, 120
SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "embedding", ListType(3, FloatType(), element_required=False))
)


@dataclass
class Words:
    """A table of vectors, and processes that build its index."""

    server: EmbeddedCatalog
    catalog: FrazilCatalog
    vectors: Matrix

    def append(self, count: int) -> None:
        new = np.random.default_rng(len(self.vectors)).standard_normal((count, DIMENSION)).astype(np.float32)
        rows = [{"id": len(self.vectors) + number, "embedding": row.tolist()} for number, row in enumerate(new)]
        self.lake.table(TABLE).append(rows)
        self.vectors = np.concatenate([self.vectors, new])

    @property
    def lake(self) -> Lake:
        return Lake(catalog=self.catalog)

    @property
    def folder(self) -> Path:
        return Path(self.catalog.load_table(TABLE).location().removeprefix("file://")) / "_index"

    def files(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in sorted(self.folder.rglob("*.puffin"))}

    def records(self) -> list[IndexRecord]:
        return self.lake.table(TABLE).indexes.records()

    def build(self, *, kill_after: float = LONGEST_SECONDS) -> float | None:
        """How long a build took; None if it was killed before its end."""
        ours, theirs = PROCESSES.Pipe()
        process = PROCESSES.Process(target=build, args=(self.server.properties, TABLE, theirs), daemon=True)
        process.start()
        assert ours.recv() == "begins"
        start = time.monotonic()
        process.join(kill_after)
        took = time.monotonic() - start if process.exitcode == 0 else None
        process.kill()
        process.join()
        return took

    def complete(self) -> dict[Path, int]:
        """The files that can be read to their end, and when they were written."""
        times = {}
        io = self.catalog.load_table(TABLE).io
        for path in self.folder.rglob("*.puffin"):
            try:
                assert PuffinReader(io.new_input(str(path))).blobs
                times[path] = path.stat().st_mtime_ns
            except DataFileUnreadable:
                pass
        return times

    def check(self) -> None:
        """The nearest rows are those of the table, by the index that the catalog has, or without one."""
        asked = self.vectors[:: len(self.vectors) // 7]
        nearest = self.lake.table(TABLE).scan().nearest("embedding", asked, k=1)
        assert nearest.to_arrow()["id"].to_pylist() == list(range(0, len(self.vectors), len(self.vectors) // 7))
        assert nearest.explain().problem is None


@pytest.fixture
def words(tmp_path: Path) -> Iterator[Words]:
    with running_catalog(tmp_path) as server:
        catalog = FrazilCatalog("lake", **server.properties)
        catalog.create_namespace("lake")
        catalog.create_table(TABLE, SCHEMA)
        words = Words(server, catalog, np.empty((0, DIMENSION), np.float32))
        for _ in range(6):
            words.append(500)
        yield words


@pytest.mark.requirement("flow.vector-build")
def test_a_build_that_is_killed_leaves_no_half_index_and_the_next_one_goes_on(words: Words, campaign: Campaign) -> None:
    chance, seconds = campaign.random(), words.build()
    assert seconds is not None
    (record,), files = words.records(), words.files()
    words.lake.table(TABLE).indexes.drop(record.name)
    for _ in range(campaign.size(short=1, full=40)):
        shutil.rmtree(words.folder)
        complete: dict[Path, int] = {}
        while words.build(kill_after=chance.uniform(0, seconds)) is None and not words.records():
            words.check()
            assert complete.items() <= words.complete().items(), "what was complete is written again"
            complete = words.complete()
        (again,) = words.records()
        assert (again.codebook, again.segments) == (record.codebook, record.segments)
        words.check()
        assert words.files() == files
        words.lake.table(TABLE).indexes.drop(record.name)


def test_a_refresh_that_is_killed_leaves_the_index_as_it_was(words: Words, campaign: Campaign) -> None:
    chance = campaign.random()
    assert words.build() is not None
    for _ in range(campaign.size(short=1, full=40)):
        words.append(600)
        (before,) = words.records()
        seconds = 1.0
        while words.build(kill_after=chance.uniform(0, seconds)) is None:
            (record,) = words.records()
            assert record == before or record.vectors == len(words.vectors)
            words.check()
            seconds *= 1.2
        (after,) = words.records()
        assert (after.vectors, after.version) == (len(words.vectors), before.version + 1)
        words.check()
