"""A table with a vector index as its owner treats it: renamed, dropped, made again, moved, its columns changed, its
files removed by other engines. Searches stay right, and upkeep goes on.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from pyiceberg.table.update import SetLocationUpdate

from frazil.client import FrazilCatalog
from frazil.client.changes import Change
from frazil.errors import VectorError
from frazil.upkeep import STEPS
from tests.contract.test_vector_indexes import index_paths
from tests.contract.test_vector_nearest import SCHEMA, Vectors, queries, truth


@pytest.fixture
def vectors(catalog: FrazilCatalog, tmp_path: Path) -> Vectors:
    world = Vectors(catalog, tmp_path)
    world.append(300)
    world.append(200)
    return world


def check(vectors: Vectors, *, indexed: int) -> None:
    """The nearest rows are right, and the index covers this number of files."""
    nearest = vectors.table.scan(columns=["id"]).nearest("embedding", queries(1)[0], k=1)
    assert nearest.to_arrow()["id"].to_pylist() == truth(vectors.rows, queries(1)[0], 1, "cosine")
    assert nearest.explain().files_indexed == indexed


def index_folder(vectors: Vectors) -> Path:
    return Path(vectors.table.load().location().removeprefix("file://")) / "_index"


def test_a_renamed_table_keeps_its_index(vectors: Vectors, catalog: FrazilCatalog) -> None:
    record = vectors.table.indexes.create("embedding")
    before, vectors.name = vectors.name, f"{vectors.name}_renamed"
    catalog.rename_table(before, vectors.name)
    check(vectors, indexed=2)
    vectors.append(50)
    refreshed = vectors.table.indexes.refresh("embedding")
    assert (refreshed.vectors, refreshed.codebook) == (550, record.codebook)
    for path in index_folder(vectors).rglob("*.puffin"):
        os.utime(path, (1, 1))
    vectors.table.maintain("orphans", dry_run=False)
    assert all(path.exists() for path in index_paths(refreshed))
    check(vectors, indexed=3)
    catalog.create_table(before, SCHEMA)
    assert catalog.list_indexes(before) == []  # the name is free for another table


@pytest.mark.parametrize("purge", [False, True])
def test_a_table_of_the_same_name_does_not_inherit_the_index(
    vectors: Vectors, catalog: FrazilCatalog, purge: bool
) -> None:
    record = vectors.table.indexes.create("embedding")
    (catalog.purge_table if purge else catalog.drop_table)(vectors.name)
    catalog.create_table(vectors.name, SCHEMA)
    vectors.rows, vectors.past = {}, {}
    vectors.append(100)
    assert vectors.table.indexes.records() == []
    check(vectors, indexed=0)
    again = vectors.table.indexes.create("embedding")
    assert (again.vectors, again.version) == (100, 1)
    assert set(index_paths(again)).isdisjoint(index_paths(record))
    for path in index_paths(record):
        assert path.exists() != purge
    check(vectors, indexed=1)


def test_a_dropped_table_comes_back_with_its_index_under_another_name(vectors: Vectors, catalog: FrazilCatalog) -> None:
    record, metadata = vectors.table.indexes.create("embedding"), vectors.table.load().metadata_location
    catalog.drop_table(vectors.name)
    vectors.name = f"{vectors.name}_again"
    catalog.register_table(vectors.name, metadata)
    assert vectors.table.indexes.records() == [record]
    check(vectors, indexed=2)
    vectors.append(50)
    assert vectors.table.indexes.refresh("embedding").vectors == 550
    catalog.purge_table(vectors.name)
    assert not any(path.exists() for path in index_paths(record))


@pytest.mark.parametrize("repair", ["refresh", "maintain"])
def test_an_index_whose_files_are_all_gone_is_built_again(
    vectors: Vectors, repair: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As after the removal of orphans by an engine that knows no indexes."""
    record = vectors.table.indexes.create("embedding")
    shutil.rmtree(index_folder(vectors))
    check(vectors, indexed=0)
    assert f"`frazil index refresh {vectors.name} {record.name}` repairs it" in caplog.text
    assert len(vectors.table.indexes.check("embedding").problems) == 1
    if repair == "maintain":
        (report,) = vectors.table.maintain("indexes", dry_run=False)
        assert report.problems == ()
    else:
        vectors.table.indexes.refresh("embedding")
    assert vectors.table.indexes.check("embedding").problems == ()
    check(vectors, indexed=2)


def test_an_index_of_a_column_that_is_dropped_leaves_the_rest_of_the_table_alone(vectors: Vectors) -> None:
    vectors.table.indexes.create("embedding")
    with vectors.table.load().update_schema() as change:
        change.delete_column("embedding")
    assert vectors.table.scan(columns=["id"]).to_arrow().num_rows == 500
    (plan,) = vectors.table.maintain("indexes")
    assert "frazil index drop" in plan.lines[0]
    assert {report.step for report in vectors.table.maintain(dry_run=False)} == set(STEPS)
    with pytest.raises(VectorError) as caught:
        vectors.table.indexes.refresh("embedding_cosine")
    assert caught.value.problem == "no-column"
    vectors.table.indexes.drop("embedding_cosine")
    (plan,) = vectors.table.maintain("indexes")
    assert plan.lines == ()


def test_an_index_of_a_column_that_is_renamed_goes_on(vectors: Vectors) -> None:
    record = vectors.table.indexes.create("embedding")
    with vectors.table.load().update_schema() as change:
        change.rename_column("embedding", "vector")
    nearest = vectors.table.scan(columns=["id"]).nearest("vector", queries(1)[0], k=1)
    assert nearest.explain().files_indexed == 2
    assert vectors.table.indexes.refresh("vector") == record


def test_an_index_of_a_table_that_has_moved_is_built_at_the_new_place(vectors: Vectors) -> None:
    before = vectors.table.indexes.create("embedding")
    place = f"{vectors.table.load().location()}-moved"
    change = Change(vectors.table.load().name(), (), (SetLocationUpdate(location=place),))
    vectors.catalog.commit_changes([change])
    check(vectors, indexed=2)
    vectors.append(50)
    after = vectors.table.indexes.refresh("embedding")
    assert (after.vectors, after.codebook.startswith(f"{place}/_index/")) == (550, True)
    assert after.codebook != before.codebook
    check(vectors, indexed=3)
