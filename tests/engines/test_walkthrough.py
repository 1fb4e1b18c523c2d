"""The walk-through of the REST catalog with plain PyIceberg, on the live catalog and SeaweedFS."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError, TableAlreadyExistsError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from frazil.client import FrazilCatalog
from tests.kit.lossy_proxy import lossy_proxy
from tests.kit.stack import Project
from tests.kit.stack_lake import SCHEMA, connection, rows, stored_objects, vector

NAMESPACE = "mynamespace"


@pytest.fixture
def rest_catalog(live_stack: Project) -> Iterator[Catalog]:
    """What `load_catalog` gives, with an empty namespace."""
    loaded = load_catalog("rest", **connection(live_stack))
    loaded.create_namespace_if_not_exists(NAMESPACE)
    yield loaded
    for identifier in loaded.list_tables(NAMESPACE):
        loaded.purge_table(identifier)
    loaded.drop_namespace(NAMESPACE)
    loaded.close()


@pytest.fixture
def table(rest_catalog: Catalog) -> Table:
    # A name of its own: files of refused commits stay behind where a table lay.
    return rest_catalog.create_table(f"{NAMESPACE}.mytable_{uuid.uuid4().hex[:8]}", schema=SCHEMA)


def ids(value: pa.Table) -> list[int]:
    return sorted(value["id"].to_pylist())


# --- loading ---------------------------------------------------------------------------------------------------------

ASK = (
    "from pyiceberg.catalog import load_catalog; c = load_catalog('lake'); print(type(c).__name__, c.uri, "
    "c.list_namespaces())"
)


def ask_in_a_fresh_process(folder: Path, **environment: str) -> str:
    """What a new Python says: PyIceberg reads its file and its variables when it is imported."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYICEBERG")}
    run = subprocess.run(
        [sys.executable, "-c", ASK],
        env={**inherited, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.requirement("flow.load")
def test_a_catalog_is_loaded_from_properties(rest_catalog: Catalog, live_stack: Project) -> None:
    assert (type(rest_catalog).__name__, rest_catalog.properties["warehouse"]) == (
        "RestCatalog",
        f"s3://{live_stack.settings.stack.bucket}/",
    )
    assert (NAMESPACE,) in rest_catalog.list_namespaces()


@pytest.mark.requirement("flow.load")
def test_a_catalog_is_loaded_from_pyicebergs_file(rest_catalog: Catalog, live_stack: Project, tmp_path: Path) -> None:
    lines = [f"    {key}: {value}" for key, value in connection(live_stack).items()]
    (tmp_path / ".pyiceberg.yaml").write_text("\n".join(["catalog:", "  lake:", *lines, ""]))
    said = ask_in_a_fresh_process(tmp_path, PYICEBERG_HOME=str(tmp_path))
    assert said.startswith(f"RestCatalog {connection(live_stack)['uri']} [")
    assert NAMESPACE in said


@pytest.mark.requirement("flow.load")
def test_a_catalog_is_loaded_from_environment_variables(
    rest_catalog: Catalog, live_stack: Project, tmp_path: Path
) -> None:
    variables = {
        f"PYICEBERG_CATALOG__LAKE__{key.upper().replace('.', '__').replace('-', '_')}": value
        for key, value in connection(live_stack).items()
    }
    assert NAMESPACE in ask_in_a_fresh_process(tmp_path, PYICEBERG_HOME=str(tmp_path), **variables)


# --- namespaces ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("flow.namespace")
def test_a_namespace_is_made_once_and_nothing_is_written_to_storage(rest_catalog: Catalog, live_stack: Project) -> None:
    before = stored_objects(live_stack)
    rest_catalog.create_namespace("onlymetadata", {"owner": "me"})
    with pytest.raises(NamespaceAlreadyExistsError):
        rest_catalog.create_namespace("onlymetadata")
    assert rest_catalog.load_namespace_properties("onlymetadata")["owner"] == "me"
    assert stored_objects(live_stack) == before
    rest_catalog.drop_namespace("onlymetadata")


@pytest.mark.requirement("flow.namespace")
def test_a_transient_failure_is_retried_by_the_client_and_answered_once(live_stack: Project) -> None:
    with lossy_proxy(connection(live_stack)["uri"]) as proxy:
        client = FrazilCatalog("lake", **{**connection(live_stack), "uri": proxy.uri})
        proxy.lose_reply(b"POST /v1/default/namespaces")
        client.create_namespace("unlucky")
        sent = [head for head in proxy.requests if head.startswith(b"POST")]
        client.drop_namespace("unlucky")
    assert len(sent) == 2


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("flow.create")
def test_a_table_gets_fresh_ids_and_a_place_of_its_own_from_the_server(
    rest_catalog: Catalog, live_stack: Project
) -> None:
    table = rest_catalog.create_table(f"{NAMESPACE}.mytable", schema=SCHEMA, properties={"owner": "me"})
    fields = [(field.field_id, field.name, str(field.field_type)) for field in table.schema().fields]
    assert fields == [(1, "id", "long"), (2, "name", "string"), (3, "embedding", "list<float>")]
    assert table.metadata.table_uuid.version == 4
    assert table.location().startswith(f"s3://{live_stack.settings.stack.bucket}/{NAMESPACE}/")
    key = table.metadata_location.removeprefix(f"s3://{live_stack.settings.stack.bucket}/")
    assert key in stored_objects(live_stack, f"{NAMESPACE}/")
    assert table.properties["owner"] == "me"
    with pytest.raises(TableAlreadyExistsError):
        rest_catalog.create_table(f"{NAMESPACE}.mytable", schema=SCHEMA)


@pytest.mark.requirement("flow.create")
def test_a_table_keeps_its_partition_spec_and_sort_order(rest_catalog: Catalog) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType(), required=False)
    )
    spec = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=BucketTransform(4), name="name_bucket"))
    order = SortOrder(SortField(source_id=2, transform=IdentityTransform()))
    created = rest_catalog.create_table(f"{NAMESPACE}.sorted", schema=schema, partition_spec=spec, sort_order=order)
    result = rest_catalog.load_table(f"{NAMESPACE}.sorted")
    assert [(f.name, str(f.transform), f.source_id) for f in result.spec().fields] == [("name_bucket", "bucket[4]", 2)]
    assert [(f.source_id, str(f.direction)) for f in result.sort_order().fields] == [(2, "ASC")]
    assert result.metadata == created.metadata


@pytest.mark.requirement("flow.stage")
def test_a_staged_table_appears_only_with_its_commit(rest_catalog: Catalog) -> None:
    staged = rest_catalog.create_table_transaction(f"{NAMESPACE}.staged", schema=SCHEMA)
    staged.append(rows(1, 2))
    assert not rest_catalog.table_exists(f"{NAMESPACE}.staged")
    staged.commit_transaction()
    assert ids(rest_catalog.load_table(f"{NAMESPACE}.staged").scan().to_arrow()) == [1, 2]


# --- appends ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("flow.append")
def test_an_append_packs_rows_into_files_with_statistics_and_makes_one_snapshot(table: Table) -> None:
    with table.transaction() as change:
        change.set_properties({"write.target-file-size-bytes": str(128 * 1024)})
    table.append(rows(*range(1000)))
    files = table.inspect.files().to_pylist()
    assert len(table.snapshots()) == 1
    assert len(files) > 1
    assert sum(file["record_count"] for file in files) == 1000
    bounds = [
        (metrics["id"]["lower_bound"], metrics["id"]["upper_bound"])
        for file in files
        if (metrics := file["readable_metrics"])
    ]
    assert sorted(bounds)[0][0] == 0
    assert sorted(bounds)[-1][1] == 999
    assert {file["file_format"] for file in files} == {"PARQUET"}
    assert sum(manifest["added_data_files_count"] for manifest in table.inspect.manifests().to_pylist()) == len(files)


@pytest.mark.requirement("flow.append")
def test_an_empty_append_writes_no_data_file(table: Table, live_stack: Project) -> None:
    table.append(rows())
    key = table.location().removeprefix(f"s3://{live_stack.settings.stack.bucket}/")
    assert [name for name in stored_objects(live_stack, key) if name.endswith(".parquet")] == []
    assert table.scan().to_arrow().num_rows == 0


@pytest.mark.requirement("flow.append")
def test_rows_of_another_schema_are_refused_with_the_difference(table: Table) -> None:
    with pytest.raises(ValueError, match=r"(?s)Mismatch in fields.*name.*long"):
        table.append(pa.table({"id": pa.array([1], pa.int64()), "name": pa.array([5], pa.int64())}))
    assert table.refresh().snapshots() == []


# --- scans -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("flow.scan")
def test_a_scan_filters_projects_and_limits(table: Table) -> None:
    table.append(rows(1, 2, 3, 4))
    result = table.scan(row_filter="id > 2 AND name != 'item-4'", selected_fields=("name", "embedding")).to_arrow()
    assert result.to_pylist() == [{"name": "item-3", "embedding": vector(3)}]
    assert table.scan(limit=3).to_arrow().num_rows == 3


@pytest.mark.requirement("flow.scan")
def test_a_scan_reads_an_older_snapshot_and_a_branch(table: Table) -> None:
    table.append(rows(1))
    first: Any = table.current_snapshot()
    table.append(rows(2))
    table.manage_snapshots().create_branch(first.snapshot_id, "audit").commit()
    table.append(rows(3), branch="audit")
    assert ids(table.scan(snapshot_id=first.snapshot_id).to_arrow()) == [1]
    assert ids(table.scan().to_arrow()) == [1, 2]
    assert ids(table.scan().use_ref("audit").to_arrow()) == [1, 3]


# --- commits ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("flow.requirements")
def test_a_commit_whose_requirements_fail_changes_nothing_and_one_that_holds_is_whole(
    rest_catalog: Catalog, table: Table
) -> None:
    table.append(rows(1))
    current: Any = table.current_snapshot()
    updates = (SetPropertiesUpdate(updates={"a": "1"}), SetPropertiesUpdate(updates={"b": "2"}))
    with pytest.raises(CommitFailedException, match="Requirement failed"):
        rest_catalog.commit_table(
            table, (AssertRefSnapshotId(ref="main", snapshot_id=current.snapshot_id + 1),), updates
        )
    assert rest_catalog.load_table(table.name()).metadata == table.metadata
    rest_catalog.commit_table(table, (AssertRefSnapshotId(ref="main", snapshot_id=current.snapshot_id),), updates)
    assert {"a": "1", "b": "2"}.items() <= rest_catalog.load_table(table.name()).properties.items()


@pytest.mark.requirement("flow.multitable")
def test_several_tables_change_together_or_not_at_all(table: Table, live_stack: Project) -> None:
    client = FrazilCatalog("lake", **connection(live_stack))
    other = client.create_table(f"{NAMESPACE}.other", schema=SCHEMA)
    with client.transaction() as tx:
        tx.table(table.name()).append(rows(1))
        tx.table(other.name()).append(rows(2))
    assert [ids(client.load_table(t.name()).scan().to_arrow()) for t in (table, other)] == [[1], [2]]
    stale = client.transaction()
    stale.table(table.name()).append(rows(3))
    stale.table(other.name()).append(rows(4))
    table.refresh().append(rows(9))
    with pytest.raises(Exception, match="refused"), stale:
        pass
    assert [ids(client.load_table(t.name()).scan().to_arrow()) for t in (table, other)] == [[1, 9], [2]]


@pytest.mark.requirement("flow.layout")
def test_data_and_metadata_lie_apart_and_old_files_stay_for_time_travel(table: Table, live_stack: Project) -> None:
    first_metadata = table.metadata_location
    table.append(rows(1))
    table.append(rows(2))
    bucket = f"s3://{live_stack.settings.stack.bucket}/"
    here = table.location().removeprefix(bucket)
    result = [key.removeprefix(f"{here}/") for key in stored_objects(live_stack, f"{here}/")]
    assert {key.split("/")[0] for key in result} == {"data", "metadata"}
    assert sum(key.startswith("data/") and key.endswith(".parquet") for key in result) == 2
    assert sum(key.endswith(".metadata.json") for key in result) == 3
    assert first_metadata.removeprefix(f"{bucket}{here}/") in result


@pytest.mark.requirement("flow.io")
@pytest.mark.parametrize(("codec", "level"), [("zstd", "9"), ("gzip", "9"), ("snappy", None)])
def test_codec_level_and_row_groups_of_a_table_are_seen_in_its_files(
    codec: str, level: str | None, table: Table, tmp_path: Path
) -> None:
    settings = {"write.parquet.compression-codec": codec, "write.parquet.row-group-limit": "100"}
    with table.transaction() as change:
        change.set_properties(settings | ({"write.parquet.compression-level": level} if level else {}))
    table.append(rows(*range(250)))
    (path,) = table.inspect.files()["file_path"].to_pylist()
    with table.io.new_input(path).open() as file:
        (tmp_path / "file.parquet").write_bytes(file.read())
    metadata = pq.ParquetFile(tmp_path / "file.parquet").metadata
    assert metadata.row_group(0).column(0).compression == codec.upper()
    assert [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)] == [100, 100, 50]
