"""Vector indexes of a table through the Python API: created, used by searches, refreshed, repaired and dropped."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyiceberg.table.statistics import StatisticsFile

import frazil
from frazil import Lake
from frazil.catalog.embedded import EmbeddedCatalog
from frazil.client import FrazilCatalog
from frazil.errors import DeclarationError, VectorError
from frazil.puffin import Blob, PuffinWriter, read_blobs
from frazil.tables import VectorIndex
from frazil.vector import IndexRecord, index_files
from frazil.vector.builder import plan_merges
from frazil.vector.metric import METRICS, Metric
from frazil.vector.portable import ROOT
from tests.contract.test_vector_nearest import DIMENSION, Vectors, queries, truth
from tests.kit.raising import raises


@pytest.fixture
def vectors(catalog: FrazilCatalog, tmp_path: Path) -> Vectors:
    world = Vectors(catalog, tmp_path)
    world.append(300)
    world.append(200)
    return world


def recall(vectors: Vectors, metric: Metric | None = None) -> float:
    asked, right = queries(20), 0
    nearest = vectors.table.scan(columns=["id"]).nearest("embedding", asked, k=5, metric=metric).to_arrow().to_pylist()
    for number, query in enumerate(asked):
        expected = truth(vectors.rows, query, 5, metric or "cosine")
        right += len({row["id"] for row in nearest if row["_query"] == number} & {*expected})
    return right / (5 * len(asked))


@pytest.mark.parametrize("metric", METRICS)
def test_an_index_is_used_by_searches_of_its_metric(vectors: Vectors, metric: Metric) -> None:
    record = vectors.table.indexes.create("embedding", metric=metric, lists=10)
    assert (record.name, record.dimension, record.vectors, record.version) == (f"embedding_{metric}", DIMENSION, 500, 1)
    assert len(record.segments) == 1
    nearest = vectors.table.scan().nearest("embedding", queries(1)[0])  # the metric of the only index
    assert (nearest.explain().files_indexed, nearest.explain().files_exact) == (2, 0)
    other = next(each for each in METRICS if each != metric)
    assert vectors.table.scan().nearest("embedding", queries(1)[0], metric=other).explain().files_exact == 2
    assert vectors.table.scan().nearest("embedding", queries(1)[0], exact=True).explain().files_exact == 2


def test_a_refresh_indexes_only_new_files(vectors: Vectors) -> None:
    indexes = vectors.table.indexes
    before = indexes.create("embedding", lists=10)
    vectors.append(100)
    assert vectors.table.scan().nearest("embedding", queries(1)[0]).explain().rows_exact == 100
    after = indexes.refresh("embedding")
    assert (after.vectors, after.version, after.codebook) == (600, before.version + 1, before.codebook)
    assert vectors.table.scan().nearest("embedding", queries(1)[0]).explain().rows_exact == 0
    assert indexes.refresh("embedding") == after  # nothing to do
    assert recall(vectors) >= 0.95


def test_a_file_that_leaves_lists_empty_is_indexed_too(vectors: Vectors) -> None:
    vectors.table.indexes.create("embedding", lists=10)
    vectors.append(1)
    assert vectors.table.indexes.refresh("embedding").vectors == 501
    assert vectors.table.indexes.check("embedding").problems == ()


def test_the_same_build_writes_the_same_bytes(vectors: Vectors) -> None:
    record = vectors.table.indexes.create("embedding", lists=10)
    paths = [
        Path(path.removeprefix("file://")) for path in (record.codebook, *(segment.path for segment in record.segments))
    ]
    before = [path.read_bytes() for path in paths]
    vectors.table.indexes.drop(record.name)
    for path in paths:
        path.unlink()
    assert vectors.table.indexes.create("embedding", lists=10).segments == record.segments
    assert [path.read_bytes() for path in paths] == before


def test_a_build_goes_on_with_the_files_that_a_killed_one_has_left(vectors: Vectors) -> None:
    record = vectors.table.indexes.create("embedding", lists=10)
    vectors.table.indexes.drop(record.name)
    codebook, segment = (Path(path.removeprefix("file://")) for path in (record.codebook, record.segments[0].path))
    segment.write_bytes(segment.read_bytes()[:1000])  # it was killed while it wrote
    written = codebook.stat().st_mtime_ns
    again = vectors.table.indexes.create("embedding", lists=10)
    assert again.segments == record.segments
    assert codebook.stat().st_mtime_ns == written


@pytest.mark.parametrize("damage", ["gone", "cut", "flipped"])
def test_a_lost_segment_is_reported_searched_exactly_and_repaired(
    vectors: Vectors, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    record = vectors.table.indexes.create("embedding", lists=10)
    segment = Path(record.segments[0].path.removeprefix("file://"))
    content = bytearray(segment.read_bytes())
    for place in range(len(content) // 4, len(content) * 3 // 4, 100):
        content[place] ^= 0xFF
    segment.unlink() if damage == "gone" else segment.write_bytes(content[:1000] if damage == "cut" else content)
    nearest = vectors.table.scan(columns=["id"]).nearest("embedding", queries(1)[0], k=5)
    assert nearest.to_arrow()["id"].to_pylist() == truth(vectors.rows, queries(1)[0], 5, "cosine")
    assert nearest.explain().problem
    assert "frazil index refresh" in caplog.text
    assert vectors.table.indexes.refresh("embedding").vectors == 500
    assert vectors.table.scan().nearest("embedding", queries(1)[0]).explain().files_indexed == 2


def test_a_lost_codebook_is_reported_and_the_index_is_built_again(
    vectors: Vectors, caplog: pytest.LogCaptureFixture
) -> None:
    """The segments that are left were encoded with the lost codebook: they are not used with another."""
    record = vectors.table.indexes.create("embedding", lists=10)
    Path(record.codebook.removeprefix("file://")).unlink()
    nearest = vectors.table.scan(columns=["id"]).nearest("embedding", queries(1)[0], k=5)
    assert nearest.to_arrow()["id"].to_pylist() == truth(vectors.rows, queries(1)[0], 5, "cosine")
    assert "frazil index refresh" in caplog.text
    vectors.append(100)
    after = vectors.table.indexes.refresh("embedding")
    assert (after.vectors, after.version) == (600, 2)
    assert {info.path for info in after.segments}.isdisjoint(info.path for info in record.segments)
    assert vectors.table.scan().nearest("embedding", queries(1)[0]).explain().files_indexed == 3


def test_a_refresh_writes_little_next_to_a_large_segment() -> None:
    assert plan_merges([300_000, 30, 200]) == [[1, 2]]
    assert plan_merges([300_000, 90_000, 200]) == [[1, 0]]


def test_what_cannot_be_indexed_is_refused(vectors: Vectors, catalog: FrazilCatalog) -> None:
    indexes = vectors.table.indexes
    for column in ("nothing", "kind"):
        with pytest.raises(VectorError):
            indexes.create(column)
    for option, value in (("metric", "manhattan"), ("name", "a/b"), ("name", "größe"), ("lists", -1), ("lists", 0)):
        with raises(VectorError, option=option):
            indexes.create("embedding", **{option: value})  # type: ignore[arg-type]
    with pytest.raises(VectorError) as caught:
        indexes.refresh("embedding")
    assert caught.value.problem == "no-index"
    indexes.create("embedding", lists=4)
    with pytest.raises(VectorError) as caught:
        indexes.create("embedding")
    assert caught.value.problem == "exists"
    empty = Vectors(catalog, vectors.folder)
    with pytest.raises(VectorError) as caught:
        empty.table.indexes.create("embedding")
    assert caught.value.problem == "empty"


def test_a_query_of_another_dimension_is_refused(vectors: Vectors) -> None:
    vectors.table.indexes.create("embedding", lists=4)
    with pytest.raises(VectorError) as caught:
        vectors.table.scan().nearest("embedding", np.ones(DIMENSION + 1))
    assert caught.value.problem == "dimension"


# --- files -----------------------------------------------------------------------------------------------------------


def index_paths(record: IndexRecord) -> list[Path]:
    paths = (record.codebook, *(segment.path for segment in record.segments))
    return [Path(path.removeprefix("file://")) for path in paths]


def test_the_removal_of_orphans_keeps_the_files_of_indexes_and_removes_those_of_dropped_ones(vectors: Vectors) -> None:
    kept, dropped = (vectors.table.indexes.create("embedding", metric=metric, lists=4) for metric in ("l2", "ip"))
    vectors.table.indexes.drop(dropped.name)
    for path in (*index_paths(kept), *index_paths(dropped)):
        os.utime(path, (1, 1))
    vectors.table.maintain("orphans", dry_run=False)
    assert all(path.exists() for path in index_paths(kept))
    assert not any(path.exists() for path in index_paths(dropped))


def test_a_purge_deletes_the_files_of_indexes_with_the_table(vectors: Vectors, catalog: FrazilCatalog) -> None:
    record = vectors.table.indexes.create("embedding", lists=4)
    catalog.purge_table(vectors.name)
    assert not any(path.exists() for path in index_paths(record))


def test_a_table_that_is_registered_again_has_its_indexes_again(vectors: Vectors, catalog: FrazilCatalog) -> None:
    record, metadata = vectors.table.indexes.create("embedding", lists=4), vectors.table.load().metadata_location
    catalog.drop_table(vectors.name)
    catalog.register_table(vectors.name, metadata)
    assert vectors.table.indexes.records() == [record]
    assert vectors.table.scan().nearest("embedding", queries(1)[0]).explain().files_indexed == 2


# --- the copy in the table's statistics ------------------------------------------------------------------------------


def used(vectors: Vectors) -> int:
    return vectors.table.scan().nearest("embedding", queries(1)[0]).explain().files_indexed


def replace_statistics(vectors: Vectors) -> None:
    """The newest snapshot gets a statistics file of another engine, which copies nothing."""
    table = vectors.table.load()
    path = f"{table.location()}/metadata/{uuid.uuid4()}.stats"
    with PuffinWriter(table.io.new_output(path)) as writer:
        writer.add(Blob("apache-datasketches-theta-v1", (1,), b"sketch"), snapshot_id=vectors.head(), sequence_number=1)
    assert writer.written is not None
    facts = {"snapshot-id": vectors.head(), "statistics-path": path, "file-size-in-bytes": writer.written.size}
    facts |= {"file-footer-size-in-bytes": writer.written.footer_size, "blob-metadata": []}
    with table.update_statistics() as update:
        update.set_statistics(StatisticsFile.model_validate(facts))


@pytest.mark.requirement("flow.vector")
def test_an_index_is_found_by_its_copy_when_the_catalog_has_lost_the_record(
    vectors: Vectors, catalog: FrazilCatalog
) -> None:
    records = [vectors.table.indexes.create("embedding", metric=metric, lists=4) for metric in ("cosine", "l2")]
    for record in records:
        catalog.drop_index(vectors.name, record.name)
    vectors.append(10)
    assert [record.name for record in vectors.table.indexes.records()] == ["embedding_cosine", "embedding_l2"]
    assert vectors.table.scan().nearest("embedding", queries(1)[0], metric="l2").explain().files_indexed == 2
    restored = vectors.table.indexes.refresh("embedding_l2")
    assert (restored.version, restored.vectors) == (1, 510)
    stored = catalog.list_indexes(vectors.name)
    assert stored is not None
    assert [each["name"] for each in stored] == ["embedding_l2"]


@pytest.mark.requirement("flow.vector")
def test_one_lost_record_of_several_is_found_by_its_copy(vectors: Vectors, catalog: FrazilCatalog) -> None:
    for metric in METRICS:
        vectors.table.indexes.create("embedding", metric=metric, lists=4)
    catalog.drop_index(vectors.name, "embedding_l2")
    vectors.append(10)
    vectors.table.indexes.refresh("embedding_cosine")  # writes the copy again, with that of the lost one
    assert {record.name for record in vectors.table.indexes.records()} == {f"embedding_{metric}" for metric in METRICS}
    assert vectors.table.scan().nearest("embedding", queries(1)[0], metric="l2").explain().files_indexed == 2
    body = {"column": "embedding", "vector": queries(1)[0].tolist(), "metric": "l2"}
    namespace, name = vectors.name.split(".")
    answer = catalog.session.post(catalog.url(f"namespaces/{namespace}/tables/{name}/search"), json=body)
    assert answer.json()["search"]["files-indexed"] == 2
    assert vectors.table.indexes.refresh("embedding_l2").version == 1


@pytest.mark.requirement("flow.vector")
def test_maintenance_restores_a_record_that_the_catalog_has_lost(vectors: Vectors, catalog: FrazilCatalog) -> None:
    record = vectors.table.indexes.create("embedding", lists=4)
    catalog.drop_index(vectors.name, record.name)
    (plan,) = vectors.table.maintain("indexes")
    assert plan.lines == ("restore the catalog's record of index embedding_cosine from its copy",)
    (report,) = vectors.table.maintain("indexes", dry_run=False)
    assert report.lines == ("restored the catalog's record of index embedding_cosine from its copy",)
    assert [each["record"] for each in catalog.list_indexes(vectors.name) or ()] == [record.to_json()]
    (plan,) = vectors.table.maintain("indexes")
    assert (plan.lines, plan.detail) == ((), None)


def test_the_removal_of_orphans_keeps_the_files_of_an_index_whose_record_is_lost(
    vectors: Vectors, catalog: FrazilCatalog
) -> None:
    records = [vectors.table.indexes.create("embedding", metric=metric, lists=4) for metric in ("cosine", "l2")]
    catalog.drop_index(vectors.name, "embedding_l2")
    assert {path for record in records for path in index_paths(record)} == {
        Path(path.removeprefix("file://")) for path in index_files(catalog, vectors.name)
    }


class DroppedMeanwhile(FrazilCatalog):
    """Another client drops the index when the record of a refresh is stored, and before its copy is written."""

    def replace_index(self, identifier: Any, name: str, record: Any, *, version: int) -> dict[str, Any]:
        stored = super().replace_index(identifier, name, record, version=version)
        Lake(catalog=self).table(identifier).indexes.drop(name)
        return stored


def test_an_index_that_is_dropped_while_it_is_refreshed_does_not_come_back(
    vectors: Vectors, lake_server: EmbeddedCatalog
) -> None:
    vectors.table.indexes.create("embedding", lists=4)
    vectors.append(10)
    Lake(catalog=DroppedMeanwhile("lake", **lake_server.properties)).table(vectors.name).indexes.refresh("embedding")
    assert vectors.table.indexes.records() == []


@pytest.mark.requirement("flow.vector")
def test_an_index_is_found_by_its_record_when_an_engine_has_replaced_the_statistics(
    vectors: Vectors, catalog: FrazilCatalog
) -> None:
    record = vectors.table.indexes.create("embedding", lists=4)
    replace_statistics(vectors)
    assert used(vectors) == 2
    assert vectors.table.indexes.refresh("embedding") == record  # nothing to do but the copy
    catalog.drop_index(vectors.name, record.name)
    assert used(vectors) == 2


def test_the_copy_of_an_older_snapshot_counts_when_the_newest_have_none(
    vectors: Vectors, catalog: FrazilCatalog
) -> None:
    record = vectors.table.indexes.create("embedding", lists=4)
    vectors.append(10)
    replace_statistics(vectors)
    vectors.append(10)
    catalog.drop_index(vectors.name, record.name)
    assert used(vectors) == 2  # of four files


@pytest.mark.requirement("flow.vector")
def test_a_copy_is_left_when_an_engine_has_replaced_the_statistics_and_the_catalog_has_lost_the_record(
    vectors: Vectors, catalog: FrazilCatalog
) -> None:
    """ANALYZE replaces the statistics of the newest snapshot: the snapshot before has the copy, too."""
    record = vectors.table.indexes.create("embedding", lists=4)
    replace_statistics(vectors)
    catalog.drop_index(vectors.name, record.name)
    assert used(vectors) == 2
    assert vectors.table.indexes.refresh("embedding") == record


def test_the_copies_follow_a_refresh_after_a_rollback(vectors: Vectors, catalog: FrazilCatalog) -> None:
    record = vectors.table.indexes.create("embedding", lists=4)
    before = vectors.head()
    vectors.append(10)
    vectors.table.indexes.refresh("embedding")
    vectors.table.rollback(before)
    vectors.append(20)
    refreshed = vectors.table.indexes.refresh("embedding")
    catalog.drop_index(vectors.name, record.name)
    replace_statistics(vectors)
    assert [each.segments for each in vectors.table.indexes.records()] == [refreshed.segments]


def test_maintenance_writes_a_copy_that_is_gone(vectors: Vectors, catalog: FrazilCatalog) -> None:
    record = vectors.table.indexes.create("embedding", lists=4)
    (plan,) = vectors.table.maintain("indexes")
    assert (plan.lines, plan.detail) == ((), None)
    replace_statistics(vectors)
    (plan,) = vectors.table.maintain("indexes")
    line = "write the copy of index embedding_cosine in the table's statistics"
    assert plan.lines == (line,)
    segment = index_paths(record)[1]
    damaged = bytearray(segment.read_bytes())
    damaged[1000] ^= 0xFF
    segment.write_bytes(damaged)
    (report,) = vectors.table.maintain("indexes", dry_run=False)
    assert report.lines == ("wrote the copy of index embedding_cosine in the table's statistics",)
    assert [info.type for info, _ in read_blobs(vectors.table.load())] == ["apache-datasketches-theta-v1", ROOT]
    assert segment.read_bytes() == damaged  # the index itself was not read for that


def test_a_dropped_index_is_not_found_by_a_copy(vectors: Vectors) -> None:
    before = vectors.head()
    vectors.table.indexes.create("embedding", lists=4)
    vectors.append(10)
    vectors.table.indexes.refresh("embedding")
    vectors.table.indexes.drop("embedding")
    assert vectors.table.indexes.records() == []
    vectors.table.rollback(before)
    assert vectors.table.indexes.records() == []
    assert used(vectors) == 0


class Foreign(FrazilCatalog):
    """A client of a catalog that keeps no records of indexes."""

    def list_indexes(self, identifier: object) -> None:
        return None


def test_a_catalog_without_records_of_indexes_has_the_copy(vectors: Vectors, lake_server: EmbeddedCatalog) -> None:
    foreign = Lake(catalog=Foreign("lake", **lake_server.properties)).table(vectors.name)
    assert foreign.indexes.create("embedding", lists=4).version == 0
    assert foreign.scan().nearest("embedding", queries(1)[0]).explain().files_indexed == 2
    vectors.append(10)
    assert foreign.indexes.refresh("embedding").vectors == 510
    foreign.indexes.drop("embedding")
    assert foreign.indexes.records() == []


# --- upkeep ----------------------------------------------------------------------------------------------------------


def test_maintenance_refreshes_an_index_after_compaction(vectors: Vectors, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "frazil.vector")
    vectors.table.indexes.create("embedding", lists=4)
    plans = vectors.table.maintain("compact", "indexes", rewrite_all=True)
    assert [plan.lines for plan in plans if plan.step == "indexes"] == [()]
    reports = vectors.table.maintain("compact", "indexes", dry_run=False, rewrite_all=True)
    assert [report.lines for report in reports if report.step == "indexes"] == [
        ("refreshed index embedding_cosine: 1,000 vectors",)  # also those of the older snapshots
    ]
    assert "500 rows of rewritten files keep their codes" in caplog.text
    report = vectors.table.scan().nearest("embedding", queries(1)[0]).explain()
    assert (report.files_indexed, report.files_exact) == (1, 0)
    before = vectors.table.scan(at=next(iter(vectors.past))).nearest("embedding", queries(1)[0]).explain()
    assert (before.files_indexed, before.files_exact) == (1, 0)


def test_maintenance_repairs_an_index_and_goes_on_when_it_cannot(vectors: Vectors) -> None:
    record = vectors.table.indexes.create("embedding", lists=4)
    Path(record.segments[0].path.removeprefix("file://")).unlink()
    (plan,) = vectors.table.maintain("indexes")
    assert "repair index embedding_cosine" in plan.lines[1]
    vectors.table.maintain("indexes", dry_run=False)
    assert vectors.table.indexes.check("embedding").problems == ()
    data = Path(vectors.table.load().inspect.data_files()["file_path"][0].as_py().removeprefix("file://"))
    for path in (*index_paths(record), data):
        path.rename(path.with_suffix(".hidden"))
    (report,) = vectors.table.maintain("indexes", dry_run=False)
    assert data.name in report.problems[0]


# --- declared --------------------------------------------------------------------------------------------------------


COLUMNS = (
    frazil.column("id", "long"),
    frazil.column("embedding", frazil.list_of("float")),
    frazil.column("words", frazil.list_of("string")),
)


def declare(name: str, *indexes: VectorIndex) -> frazil.Table:
    return frazil.Table(name, *COLUMNS, indexes=indexes)


def test_a_declared_index_is_planned_applied_and_built_by_maintenance(catalog: FrazilCatalog) -> None:
    lake, name = Lake(catalog=catalog), f"lake.d{uuid.uuid4().hex[:8]}"
    lake.apply(declare(name))
    declared = declare(name, frazil.vector_index("embedding", metric="l2", lists=4))
    assert "vector.index.embedding_l2" in str(lake.plan(declared))
    lake.apply(declared)
    assert list(lake.plan(declared)) == []
    (plan,) = lake.table(name).maintain("indexes")
    assert plan.lines == ()  # there are no rows yet
    vectors = np.random.default_rng(1).standard_normal((60, 8))
    lake.table(name).append([{"id": number, "embedding": row.tolist()} for number, row in enumerate(vectors)])
    (report,) = lake.table(name).maintain("indexes", dry_run=False)
    assert report.lines == ("built index embedding_l2: 60 vectors",)
    (record,) = lake.table(name).indexes.records()
    assert (record.metric, record.dimension) == ("l2", 8)
    (plan,) = lake.table(name).maintain("indexes")
    assert plan.detail is None
    lake.table(name).indexes.drop("embedding")
    (plan,) = lake.table(name).maintain("indexes")
    assert plan.detail is None  # it is not declared any more
    assert len(list(lake.plan(declared))) == 1  # unless the code still says so


@pytest.mark.parametrize(
    "index",
    [
        frazil.vector_index("nothing"),
        frazil.vector_index("id"),
        frazil.vector_index("words"),
        frazil.vector_index("embedding", metric="manhattan"),
        frazil.vector_index("embedding", lists=0),
        frazil.vector_index("embedding", name="a/b"),
        "embedding",
    ],
)
def test_an_index_that_cannot_be_is_refused_where_it_is_declared(index: VectorIndex) -> None:
    with pytest.raises(DeclarationError) as caught:
        declare("lake.words", index)
    assert caught.value.option == "indexes"


@pytest.mark.parametrize(
    "value",
    ['{"column": "id", "metric": "l2"}', '{"column": "embedding", "metric": "x"}', '{"column": "embedding"}', "l2"],
)
def test_an_index_that_is_declared_as_a_property_is_checked_as_well(value: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        frazil.Table("lake.words", *COLUMNS, properties={"vector.index.mine": value})
    assert caught.value.option == "indexes"


def test_maintenance_leaves_rows_that_no_snapshot_has_out_of_an_index(vectors: Vectors, catalog: FrazilCatalog) -> None:
    vectors.table.indexes.create("embedding", lists=4)
    vectors.table.maintain("compact", "indexes", dry_run=False, rewrite_all=True)
    assert vectors.table.indexes.find("embedding").vectors == 1000  # older snapshots are searched by the index, too
    with catalog.load_table(vectors.name).maintenance.expire_snapshots() as expiry:
        for snapshot in catalog.load_table(vectors.name).snapshots()[:-1]:
            expiry.by_id(snapshot.snapshot_id)
    (plan,) = vectors.table.maintain("indexes")
    assert plan.lines == ("leave 500 rows out of index embedding_cosine: no snapshot has their files",)
    (report,) = vectors.table.maintain("indexes", dry_run=False)
    assert (report.lines, report.problems) == (("refreshed index embedding_cosine: 500 vectors",), ())
    assert used(vectors) == 1
    assert recall(vectors) >= 0.95
    (plan,) = vectors.table.maintain("indexes")
    assert plan.detail is None


def test_a_property_that_says_no_number_of_lists_is_a_problem_of_maintenance(vectors: Vectors) -> None:
    value = '{"column": "embedding", "metric": "l2", "lists": "x"}'
    with vectors.table.load().transaction() as change:
        change.set_properties({"vector.index.wrong": value})
    (report,) = vectors.table.maintain("indexes", dry_run=False)
    assert len(report.problems) == 1
    assert "lists" in report.problems[0]


def test_a_count_of_numpy_is_a_count(vectors: Vectors) -> None:
    vectors.table.indexes.create("embedding", lists=4)
    for k in (np.int64(5), np.uint8(5)):
        assert len(vectors.table.scan().nearest("embedding", queries(1)[0], k=k).to_arrow()) == 5
    for wrong in (True, np.float64(5), "5", None, np.int64(0)):
        with raises(VectorError, option="k"):
            vectors.table.scan().nearest("embedding", queries(1)[0], k=wrong)  # type: ignore[arg-type]


def test_vectors_of_a_new_dimension_are_compared_exactly_until_a_refresh_builds_the_index_again(
    vectors: Vectors, caplog: pytest.LogCaptureFixture
) -> None:
    record = vectors.table.indexes.create("embedding", lists=4)
    longer = np.random.default_rng(3).standard_normal((50, DIMENSION + 4)).astype(np.float32)
    vectors.table.overwrite(
        [{"id": number, "kind": "new", "embedding": row.tolist()} for number, row in enumerate(longer)]
    )
    search = vectors.table.scan(columns="id").nearest("embedding", longer[7], k=1)
    repair = f"frazil index refresh {vectors.name} {record.name}"
    assert (search.to_arrow()["id"].to_pylist(), search.explain().repair) == ([7], repair)
    assert repair in caplog.text
    with raises(VectorError, problem="dimension"):
        vectors.table.scan().nearest("embedding", queries(1)[0]).to_arrow()
    assert vectors.table.indexes.refresh("embedding").dimension == DIMENSION + 4
    report = vectors.table.scan().nearest("embedding", longer[7], k=1).explain()
    assert (report.files_indexed, report.problem) == (1, None)
