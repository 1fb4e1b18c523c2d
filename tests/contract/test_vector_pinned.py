"""Searches of one scan share its plan, the records of indexes and the rows that its filter keeps."""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from frazil.client import FrazilCatalog
from frazil.scan.planning import FileTask
from frazil.scan.reading import FileReader
from frazil.scan.reading.openfile import OpenFile
from frazil.vector import rows
from frazil.vector.pinned import _pinned
from tests.contract.test_vector_nearest import DIMENSION, Vectors, distance, queries, truth


@pytest.fixture
def vectors(catalog: FrazilCatalog, tmp_path: Path) -> Vectors:
    world = Vectors(catalog, tmp_path)
    world.append(300)
    return world


def test_searches_of_a_scan_ask_the_catalog_for_its_indexes_once(
    vectors: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, list_indexes = [], FrazilCatalog.list_indexes

    def count(catalog: FrazilCatalog, name: str) -> object:
        asked.append(name)
        return list_indexes(catalog, name)

    monkeypatch.setattr(FrazilCatalog, "list_indexes", count)
    scan = vectors.table.scan()
    assert scan.nearest("embedding", queries(1)[0]).explain().files_exact == 1
    vectors.table.indexes.create("embedding", lists=10)
    asked.clear()
    for query in queries(3):
        assert scan.nearest("embedding", query).explain().files_indexed == 1  # the index that came later
    assert len(asked) == 1


def test_files_without_an_index_are_decoded_twice_and_then_kept_for_all_scans(
    vectors: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, read = [], FileReader.read

    def count(reader: FileReader, task: FileTask) -> object:
        reads.append(task.path)
        return read(reader, task)

    monkeypatch.setattr(FileReader, "read", count)
    table = vectors.table
    for query in queries(4):
        nearest = table.scan(columns=["id"]).nearest("embedding", query, k=5)
        assert nearest.to_arrow()["id"].to_pylist() == truth(vectors.rows, query, 5, "cosine")
        assert nearest.explain().rows_exact == len(vectors.rows)
    assert len(reads) == 4 + 2  # each search looks how long the vectors are
    vectors.delete_in_place()
    for query in queries(3):
        for kind in (None, "red"):
            scan = table.scan(f"kind = '{kind}'" if kind else None, columns=["id"])
            nearest = scan.nearest("embedding", query, k=5)
            assert nearest.to_arrow()["id"].to_pylist() == truth(vectors.rows, query, 5, "cosine", kind)


def test_a_scan_keeps_its_snapshot_and_its_filter_through_many_searches(vectors: Vectors) -> None:
    vectors.table.indexes.create("embedding", lists=10)
    scans = {kind: vectors.table.scan(f"kind = '{kind}'", columns=["id"]) for kind in ("red", "green")}
    before = dict(vectors.rows)
    for turn in range(2):
        for kind, scan in scans.items():
            for query in queries(4):
                nearest = scan.nearest("embedding", query, k=300).to_arrow()["id"].to_pylist()
                assert {*nearest} == {*truth(before, query, 300, "cosine", kind)}
        if not turn:
            vectors.append(50)
            vectors.delete_in_place()
            vectors.table.indexes.refresh("embedding")
    for query in queries(2):
        fresh = vectors.table.scan("kind = 'red'", columns=["id"]).nearest("embedding", query, k=400).to_arrow()
        assert {*fresh["id"].to_pylist()} == {*truth(vectors.rows, query, 400, "cosine", "red")}


@pytest.mark.parametrize(("held", "most"), [(1 << 20, 1 << 20), (3_000, 1 << 20), (1 << 20, 0)])
def test_rows_of_answers_are_right_whether_row_groups_are_kept_or_not(
    vectors: Vectors, monkeypatch: pytest.MonkeyPatch, held: int, most: int
) -> None:
    monkeypatch.setattr(rows, "HELD_BYTES", held)
    monkeypatch.setattr(rows, "MOST_BYTES", most)
    with vectors.catalog.load_table(vectors.name).transaction() as changes:
        changes.set_properties({"write.parquet.row-group-limit": "64"})
    vectors.append(300)
    vectors.delete_by_value()
    vectors.table.indexes.create("embedding", lists=10)
    scan, opened, opens = vectors.table.scan(columns=["kind", "id"]), [], FileReader.opened

    def count(reader: FileReader, task: FileTask) -> AbstractContextManager[OpenFile]:
        opened.append(task.path)
        return opens(reader, task)

    monkeypatch.setattr(FileReader, "opened", count)
    for turn in range(3):
        opened.clear()
        for query in (*queries(4), queries(3)):
            answer = scan.nearest("embedding", query, k=20).to_arrow().to_pydict()
            for at, each in enumerate(query.reshape(-1, DIMENSION)):
                own = slice(20 * at, 20 * (at + 1))
                assert answer["kind"][own] == [vectors.rows[key][0] for key in answer["id"][own]]
                expected = [distance(vectors.rows[key][1], each, "cosine") for key in answer["id"][own]]
                assert answer["_distance"][own] == pytest.approx(expected, abs=0.02)
        assert (not opened) == (turn > 0 and (held, most) == (1 << 20, 1 << 20))


def test_nothing_is_kept_of_a_scan_that_is_gone(vectors: Vectors) -> None:
    gc.collect()
    before = len(_pinned)
    scan = vectors.table.scan()
    scan.nearest("embedding", queries(1)[0]).to_arrow()
    assert len(_pinned) == before + 1
    del scan
    gc.collect()
    assert len(_pinned) == before
