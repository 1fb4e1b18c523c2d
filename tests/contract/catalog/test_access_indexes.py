"""Indexes of a catalog with authentication, as users with one privilege each meet them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from frazil import Lake
from frazil.errors import VectorError
from frazil.lake import LakeTable
from tests.contract.catalog.test_access_files import SCHEMA, connect
from tests.kit.access import Guarded, guarded_catalog, namespace
from tests.kit.raising import raises

VECTORS = np.random.default_rng(1).standard_normal((100, 8)).astype(np.float32)


class Words:
    """A table with an index that the admin has made."""

    def __init__(self, guarded: Guarded) -> None:
        self.guarded = guarded
        guarded.admin.post("/namespaces", {"namespace": ["ns"]})
        catalog = connect(guarded, guarded.admin)
        catalog.create_table("ns.words", SCHEMA)
        self.admin = Lake(catalog=catalog).table("ns.words")
        self.append()
        self.admin.indexes.create("embedding", name="first", lists=4)

    def append(self) -> None:
        self.admin.append([{"id": number, "embedding": row.tolist()} for number, row in enumerate(VECTORS)])

    def user(self, *privileges: str) -> LakeTable:
        grants = [(privilege, namespace("ns")) for privilege in privileges]
        client = self.guarded.user("-".join(privileges), *grants)
        return Lake(catalog=connect(self.guarded, client)).table("ns.words")


@pytest.fixture
def words(tmp_path: Path) -> Iterator[Words]:
    with guarded_catalog(tmp_path, f"sqlite:///{tmp_path / 'catalog.db'}") as running:
        yield Words(running)


def test_a_reader_searches_by_the_index_and_changes_none(words: Words) -> None:
    reader = words.user("read")
    nearest = reader.scan(columns="id").nearest("embedding", VECTORS[7], k=1)
    assert (nearest.to_arrow()["id"].to_pylist(), nearest.explain().files_indexed) == ([7], 1)
    rows = reader.lake.catalog.search_table("ns.words", "embedding", VECTORS[7], k=1, select=["id"])
    assert rows["id"].to_pylist() == [7]
    assert reader.indexes.check("first").problems == ()
    words.append()
    with raises(VectorError, problem="refused"):
        reader.indexes.refresh("first")
    assert words.admin.indexes.find("first").version == 1


def test_who_may_not_read_the_table_sees_no_index(words: Words) -> None:
    with raises(VectorError, problem="refused"):
        words.user("discover").indexes.records()


def test_who_maintains_a_table_builds_indexes_and_drops_its_own(words: Words) -> None:
    with raises(VectorError, problem="refused"):
        words.user("write").indexes.create("embedding", name="second", lists=4)
    keeper = words.user("maintain")
    words.append()
    assert keeper.indexes.refresh("first").vectors == 200
    keeper.indexes.create("embedding", name="second", lists=4)
    keeper.indexes.drop("second")
    assert [record.name for record in words.admin.indexes.records()] == ["first"]


def test_a_drop_that_is_refused_leaves_the_index_and_its_copy(words: Words) -> None:
    with raises(VectorError, problem="refused"):
        words.user("maintain").indexes.drop("first")
    catalog = words.admin.lake.catalog
    catalog.drop_index("ns.words", "first")
    assert [record.version for record in words.admin.indexes.records()] == [0]  # found by its copy
