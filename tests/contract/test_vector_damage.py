"""Vector search over every way in, Python, SQL and HTTP: what it says that it did, and the same rows when the index is
damaged, gone, or made for another metric.
"""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import FloatType, ListType, NestedField

from frazil import Lake
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.cli.context import Context
from frazil.cli.explain import explain
from frazil.client import FrazilCatalog
from frazil.errors import VectorError
from frazil.lake import LakeTable
from frazil.puffin import MAGIC, PuffinReader
from frazil.vector import IndexRecord
from frazil.vector.codebook import Codebook
from frazil.vector.segment import CoveredFile, Rows, Segment, empty_rows, write_segment
from tests.contract.test_catalog_search import SCHEMA, query, vectors_from
from tests.kit.catalog_databases import Client

Search = Callable[["Damaged"], list[int]]


class Damaged:
    """A table with an index of 400 of its 440 rows, in a lake of its own for each test: nothing of it is in memory."""

    def __init__(self, server: EmbeddedCatalog) -> None:
        self.server = server
        self.catalog = FrazilCatalog("lake", **server.properties)
        self.catalog.create_namespace("lake")
        self.catalog.create_table("lake.points", SCHEMA)
        self.table.append(vectors_from(0, 400))
        self.record = self.table.indexes.create("embedding", metric="l2", lists=8)
        self.table.append(vectors_from(400, 40))

    @property
    def lake(self) -> Lake:
        return Lake(catalog=self.catalog)

    @property
    def table(self) -> LakeTable:
        return self.lake.table("lake.points")

    def exact(self) -> list[int]:
        nearest = self.table.scan(columns="id").nearest("embedding", query(), k=5, metric="l2", exact=True)
        ids: list[int] = nearest.to_arrow()["id"].to_pylist()
        return ids


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[Damaged]:
    with running_catalog(tmp_path) as server:
        yield Damaged(server)


def by_python(damaged: Damaged) -> list[int]:
    nearest = damaged.table.scan(columns="id").nearest("embedding", query(), k=5, metric="l2")
    ids: list[int] = nearest.to_arrow()["id"].to_pylist()
    return ids


def by_sql(damaged: Damaged) -> list[int]:
    sql = f"SELECT id FROM nearest('lake.points', 'embedding', {query()}, k := 5, metric := 'l2') ORDER BY _distance"
    ids: list[int] = damaged.lake.sql(sql).to_arrow()["id"].to_pylist()
    return ids


def by_http(damaged: Damaged) -> list[int]:
    body = {"column": "embedding", "vector": query(), "k": 5, "metric": "l2", "select": ["id"]}
    answer = Client(damaged.server.uri).post("/namespaces/lake/tables/points/search", body)
    return [row["id"] for row in answer.body["rows"]]


WAYS: dict[str, Search] = {"python": by_python, "sql": by_sql, "http": by_http}


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def remove_segment(record: IndexRecord) -> None:
    path_of(record.segments[0].path).unlink()


def remove_codebook(record: IndexRecord) -> None:
    path_of(record.codebook).unlink()


def cut_segment(record: IndexRecord) -> None:
    path = path_of(record.segments[0].path)
    path.write_bytes(path.read_bytes()[:-100])


def empty_segment(record: IndexRecord) -> None:
    path_of(record.segments[0].path).write_bytes(b"")


def turn_bits_of_blocks(record: IndexRecord) -> None:
    """What is read before a search looks whole; every block that it reads then is damaged."""
    segment = Segment(PyArrowFileIO().new_input(record.segments[0].path), dimension=8)
    path = path_of(record.segments[0].path)
    content = bytearray(path.read_bytes())
    for start in segment.code_ranges(np.flatnonzero(segment.lists.counts))[0]:
        content[start] ^= 0xFF
    path.write_bytes(content)


def turn_bits_of_bytes(record: IndexRecord) -> None:
    """The codes are whole; the bytes of every vector are damaged."""
    segment = Segment(PyArrowFileIO().new_input(record.segments[0].path), dimension=8)
    path = path_of(record.segments[0].path)
    content = bytearray(path.read_bytes())
    for start in segment.byte_ranges(np.arange(segment.lists.starts[-1]))[0]:
        content[start] ^= 0x01
    path.write_bytes(content)


def turn_a_bit_of_the_codebook(record: IndexRecord) -> None:
    """The exponent of one number of the rotation."""
    path = path_of(record.codebook)
    codebook = Codebook.read(PyArrowFileIO().new_input(record.codebook))
    rotation = codebook.rotation.copy()
    rotation[0, 0] *= 2
    fingerprint = codebook.fingerprint
    path.unlink()
    changed = replace(codebook, rotation=rotation)
    changed.__dict__["fingerprint"] = fingerprint
    changed.write(PyArrowFileIO().new_output(record.codebook), field_id=record.field_id)


def write_puffin(path: Path, footer: bytes, before: bytes = b"") -> None:
    tail = len(footer).to_bytes(4, "little") + bytes(4) + MAGIC
    path.write_bytes(MAGIC + before + MAGIC + footer + tail)


def footer_of_another_shape(record: IndexRecord) -> None:
    write_puffin(path_of(record.segments[0].path), b'{"blobs": 5}')


def footer_without_end(record: IndexRecord) -> None:
    write_puffin(path_of(record.segments[0].path), b"[" * 100_000)


def a_place_that_is_a_text(record: IndexRecord) -> None:
    blob = {"type": "x", "fields": [], "snapshot-id": 1, "sequence-number": 1, "offset": "here", "length": None}
    write_puffin(path_of(record.segments[0].path), json.dumps({"blobs": [blob]}).encode())


def a_length_without_end(record: IndexRecord) -> None:
    blob = {"type": "x", "fields": [], "snapshot-id": 1, "sequence-number": 1, "offset": 4, "length": float("inf")}
    write_puffin(path_of(record.codebook), json.dumps({"blobs": [blob]}).encode())


def a_codebook_that_fills_the_memory(record: IndexRecord) -> None:
    """300 MB of zeros, in a few kB."""
    packed = bytes(pa.compress(bytes(300_000_000), codec="zstd", asbytes=True))
    known = PuffinReader(PyArrowFileIO().new_input(record.codebook)).blobs[0]
    blob = known.to_json() | {"offset": 4, "length": len(packed), "compression-codec": "zstd"}
    write_puffin(path_of(record.codebook), json.dumps({"blobs": [blob]}).encode(), packed)


def more_lists_than_the_codebook(record: IndexRecord) -> None:
    rewrite(record, lambda lists, segment: [*lists, empty_rows(segment.shape.dimension)])


def rows_that_no_file_has(record: IndexRecord) -> None:
    rewrite(
        record,
        lambda lists, _: [
            Rows(replace(rows.block, positions=rows.block.positions + 400), rows.refined) for rows in lists
        ],
    )


def the_same_row_again_and_again(record: IndexRecord) -> None:
    rewrite(
        record,
        lambda lists, _: [
            Rows(replace(rows.block, positions=rows.block.positions * 0), rows.refined) for rows in lists
        ],
    )


def a_file_covered_twice(record: IndexRecord) -> None:
    rewrite(record, lambda lists, _: lists, files=lambda files: files * 2)


def other_files_than_the_name_says(record: IndexRecord) -> None:
    rewrite(record, lambda lists, _: lists, files=lambda files: [*files, CoveredFile("other.parquet", 10)])


def more_rows_than_a_file_can_have(record: IndexRecord) -> None:
    rewrite(record, lambda lists, _: lists, files=lambda files: [CoveredFile(file.path, 1 << 70) for file in files])


def a_segment_of_another_build(record: IndexRecord) -> None:
    """Its lists are those of a codebook with other numbers."""
    rewrite(record, lambda lists, _: lists[::-1], codebook="0123456789abcdef")


def a_segment_of_an_earlier_version(record: IndexRecord) -> None:
    rewrite(record, lambda lists, _: lists, codebook="")


def a_codebook_for_another_metric(record: IndexRecord) -> None:
    codebook = Codebook.read(PyArrowFileIO().new_input(record.codebook))
    path_of(record.codebook).unlink()
    replace(codebook, metric="ip").write(PyArrowFileIO().new_output(record.codebook), field_id=record.field_id)


def as_they_are(files: list[CoveredFile]) -> list[CoveredFile]:
    return files


def rewrite(
    record: IndexRecord,
    change: Callable[[list[Rows], Segment], list[Rows]],
    *,
    files: Callable[[list[CoveredFile]], list[CoveredFile]] = as_they_are,
    codebook: str | None = None,
) -> None:
    """The segment again with other lists, files or codebook, and with checksums that are right."""
    path = record.segments[0].path
    segment = Segment(PyArrowFileIO().new_input(path), dimension=8)
    lists = change(list(segment.read_all()), segment)
    path_of(path).unlink()
    facts = {"field_id": record.field_id, "codebook": str(segment.codebook) if codebook is None else codebook}
    write_segment(PyArrowFileIO().new_output(path), files(segment.files), lists, segment.shape, **facts)


DAMAGES = (
    *(remove_segment, remove_codebook, cut_segment, empty_segment, turn_bits_of_blocks, turn_bits_of_bytes),
    *(turn_a_bit_of_the_codebook, footer_of_another_shape, footer_without_end, a_place_that_is_a_text),
    *(a_codebook_that_fills_the_memory, more_lists_than_the_codebook, rows_that_no_file_has),
    *(the_same_row_again_and_again, a_file_covered_twice, other_files_than_the_name_says),
    *(more_rows_than_a_file_can_have, a_segment_of_another_build, a_segment_of_an_earlier_version),
    *(a_codebook_for_another_metric, a_length_without_end),
)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_index_changes_no_answer_and_the_command_that_repairs_it_is_named(
    damaged: Damaged, way: str, damage: Callable[[IndexRecord], None], caplog: pytest.LogCaptureFixture
) -> None:
    expected = damaged.exact()
    damage(damaged.record)
    with caplog.at_level(logging.WARNING, "frazil.vector"):
        assert WAYS[way](damaged) == expected
    assert "`frazil index refresh lake.points embedding_l2`" in caplog.text


def test_unusual_names_stand_in_quotes_in_the_command_that_repairs(damaged: Damaged) -> None:
    name, column = 'lake.o\'brien "é"', "größe 'x'"
    embedding = NestedField(1, column, ListType(2, FloatType(), element_required=False))
    damaged.catalog.create_table(name, Schema(embedding))
    table = damaged.lake.table(name)
    table.append([{column: row["embedding"]} for row in vectors_from(0, 50)])
    record = table.indexes.create(column, metric="l2")
    remove_segment(record)
    report = table.scan().nearest(column, query(), k=1).explain()
    assert shlex.split(report.repair or "") == ["frazil", "index", "refresh", name, "gr__e__x__l2"]
    assert table.indexes.refresh(record.name).vectors == 50


@pytest.mark.parametrize("way", WAYS)
def test_without_an_index_of_the_metric_the_answer_is_exact_and_nothing_is_wrong(
    damaged: Damaged, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    expected = damaged.exact()
    damaged.table.indexes.drop("embedding")
    damaged.table.indexes.create("embedding", metric="cosine", lists=8)
    assert WAYS[way](damaged) == expected
    damaged.table.indexes.drop("embedding")
    assert WAYS[way](damaged) == expected
    assert caplog.text == ""


def test_a_refresh_repairs_what_was_damaged(damaged: Damaged) -> None:
    remove_segment(damaged.record)
    report = damaged.table.scan().nearest("embedding", query(), k=5, metric="l2").explain()
    assert (report.files_indexed, report.files_exact) == (0, 2)
    assert report.repair == "frazil index refresh lake.points embedding_l2"
    damaged.table.indexes.refresh("embedding_l2")
    report = damaged.table.scan().nearest("embedding", query(), k=5, metric="l2").explain()
    assert (report.files_indexed, report.files_exact, report.problem) == (2, 0, None)


def problems(damaged: Damaged, name: str) -> tuple[str, ...]:
    return damaged.table.indexes.check(name).problems


def test_a_check_and_a_refresh_know_a_segment_of_another_index(damaged: Damaged) -> None:
    """Of the same column, metric and files: only the seed differs."""
    other = damaged.table.indexes.create("embedding", metric="l2", lists=8, name="other", seed=2)
    damaged.table.indexes.refresh("embedding_l2")
    record = damaged.table.indexes.find("embedding_l2")
    for swapped in (lambda each: each.segments[0].path, lambda each: each.codebook):
        first, second = path_of(swapped(record)), path_of(swapped(other))
        kept = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(kept)
        for name in (record.name, "other"):
            assert len(problems(damaged, name)) == 1
            damaged.table.indexes.refresh(name)
            assert problems(damaged, name) == ()
        assert by_python(damaged) == damaged.exact()
        record, other = (damaged.table.indexes.find(name) for name in (record.name, "other"))


@pytest.mark.parametrize("damage", [the_same_row_again_and_again, a_file_covered_twice], ids=lambda each: each.__name__)
def test_a_check_finds_a_row_that_is_twice_in_an_index(damaged: Damaged, damage: Callable[[IndexRecord], None]) -> None:
    damage(damaged.record)
    assert len(problems(damaged, "embedding_l2")) == 1
    damaged.table.indexes.refresh("embedding_l2")
    assert problems(damaged, "embedding_l2") == ()


def test_a_record_that_names_a_segment_twice_gives_no_row_twice(
    damaged: Damaged, caplog: pytest.LogCaptureFixture
) -> None:
    expected = damaged.exact()
    twice = damaged.record.with_segments(damaged.record.segments * 2)
    damaged.catalog.replace_index("lake.points", twice.name, twice.to_json(), version=twice.version)
    assert by_python(damaged) == expected
    assert "`frazil index refresh lake.points embedding" in caplog.text
    assert len(problems(damaged, twice.name)) == 1
    damaged.table.indexes.refresh(twice.name)
    assert problems(damaged, twice.name) == ()


# --- what a search did -----------------------------------------------------------------------------------------------


def test_a_report_says_what_came_from_where(damaged: Damaged) -> None:
    report = damaged.table.scan().nearest("embedding", [query(1), query(2)], k=5, metric="l2").explain()
    facts = report.to_json()
    assert facts["search"] == "5 rows for each of 2 vectors in embedding of lake.points, l2"
    assert facts["index"]["name"] == "embedding_l2"
    assert (facts["index"]["files"], facts["index"]["rows"], facts["index"]["lists"]) == (1, 400, 8)
    assert 2 <= facts["index"]["lists-probed"] <= 16
    assert 10 <= facts["index"]["rows-scored"] <= 800
    assert facts["index"]["bytes-read"] > 0
    assert facts["index"]["ranges-read"] > 0
    assert (facts["exact"]["files"], facts["exact"]["rows"]) == (1, 40)
    assert facts["problem"] is None
    for words in ("index embedding_l2: 1 file, 400 rows", "lists probed: ", "compared one by one: 1 file, 40 rows"):
        assert words in str(report)


def test_a_second_search_reads_the_index_from_memory(damaged: Damaged) -> None:
    table = damaged.table
    reports = [table.scan().nearest("embedding", query(), k=5, metric="l2").explain() for _ in range(2)]
    assert [report.index.fetched.size > 0 for report in reports] == [True, False]


def run(damaged: Damaged, *args: str) -> Any:
    context = Context()
    context.__dict__["catalog"] = damaged.catalog
    return CliRunner().invoke(explain, ["lake.points", *args], obj=context)


def test_the_command_explains_a_search(damaged: Damaged, tmp_path: Path) -> None:
    text = run(damaged, "--nearest", "embedding", "--vector", json.dumps(query()), "-k", "3").output
    assert "3 rows for a vector in embedding of lake.points, l2" in text
    assert "index embedding_l2: 1 file, 400 rows" in text
    (tmp_path / "vector.json").write_text(json.dumps(query()))
    result = run(
        damaged, "--nearest", "embedding", "--vector", f"@{tmp_path}/vector.json", "--exact", "--output", "json"
    )
    facts = json.loads(result.output)
    assert (facts["index"], facts["exact"]["rows"]) == (None, 440)
    remove_codebook(damaged.record)
    assert (
        "frazil index refresh lake.points embedding_l2"
        in run(damaged, "--nearest", "embedding", "--vector", json.dumps(query())).output
    )


@pytest.mark.parametrize(
    "args",
    [
        ["--nearest", "embedding"],
        ["--vector", "[1]"],
        ["--nearest", "embedding", "--vector", "north"],
        ["--nearest", "embedding", "--vector", "@/nowhere/at/all"],
        ["--nearest", "embedding", "--vector", "[1, 2]"],
        ["--nearest", "kind", "--vector", "[1, 2]"],
    ],
)
def test_the_command_refuses_what_is_no_search(damaged: Damaged, args: list[str]) -> None:
    assert isinstance(run(damaged, *args).exception, VectorError)
