"""Indexes that are open for searches: each file is read with the keys of its own table, and few are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from pyiceberg.io.pyarrow import PyArrowFileIO

from frazil import Table, column, connect, list_of
from frazil.catalog import running_catalog
from frazil.vector.blocks import Fetched
from frazil.vector.opened import Newest, OpenIndexes


class Keyed(PyArrowFileIO):
    """Reads below one folder only, as keys of one table do."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def new_input(self, location: str) -> Any:
        assert location.startswith(self.folder), f"{location} was read with the keys of {self.folder}"
        return super().new_input(location)


def test_each_index_is_read_with_the_keys_of_its_own_table(tmp_path: Path) -> None:
    with running_catalog(tmp_path) as server, connect(server.uri) as lake:
        opened, indexes = OpenIndexes(), []
        for name in ("lake.a", "lake.b"):
            lake.apply(Table(name, column("embedding", list_of("float"))))
            vectors = np.random.default_rng(1).standard_normal((50, 8))
            lake.table(name).append([{"embedding": vector.tolist()} for vector in vectors])
            record = lake.table(name).indexes.create("embedding", lists=2)
            index, _ = opened.open(record, Keyed(lake.catalog.load_table(name).location()), table=name)
            indexes.append(index)
        for index in indexes:  # the first one was opened before the keys of the second came
            assert index is not None
            fetched = Fetched()
            index._blocks.codes(index._segments[:1], np.array([0, 1]), fetched)
            assert fetched.ranges == 1


def test_the_newest_things_are_kept_and_read_once() -> None:
    newest, read = Newest[str](2), []

    def get(path: str) -> str:
        return newest.get(path, lambda: read.append(path) or path)  # type: ignore[func-returns-value]

    assert [get(path) for path in ("a", "b", "a", "c", "a", "b")] == ["a", "b", "a", "c", "a", "b"]
    assert read == ["a", "b", "c", "b"]
