"""A purge deletes the table's own files and reads nothing else, whatever the table's metadata says."""

from __future__ import annotations

import json
import os
import resource
import shutil
import uuid
import zlib
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.client import FrazilCatalog
from tests.kit.catalog_databases import Client

SCHEMA = Schema(NestedField(1, "id", LongType()))
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture
def database(tmp_path: Path) -> str:
    """One database is enough: what is asked of it is the same as in the tests of drops and commits, which run
    on both.
    """
    return f"sqlite:///{tmp_path / 'catalog.db'}"


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[EmbeddedCatalog]:
    """Tables may overlap here, as in lakes from before that was refused: a purge must spare the others' files all the
    same.
    """
    warehouses = {"default": str(tmp_path / "warehouse"), "cold": str(tmp_path / "cold")}
    allowed = [str(tmp_path / "allowed")]
    with running_catalog(
        tmp_path, database=database, warehouses=warehouses, allow_locations=allowed, allow_overlap=True
    ) as running:
        yield running


@pytest.fixture
def lake(server: EmbeddedCatalog) -> FrazilCatalog:
    client = FrazilCatalog("lake", **server.properties)
    client.create_namespace("ns")
    return client


def path_of(location: str) -> Path:
    return Path(unquote(urlparse(location).path))


def victim(lake: FrazilCatalog, name: str = "ns.victim", **options: Any) -> Table:
    table = lake.create_table(name, SCHEMA, **options)
    table.append(ROWS)
    table.append(ROWS)
    return lake.load_table(name)


def files_below(folder: str | Path) -> set[Path]:
    folder = path_of(folder) if isinstance(folder, str) else folder
    return {path for path in folder.rglob("*") if path.is_file()}


def purge(client: Client, server: EmbeddedCatalog, name: str) -> None:
    assert client.delete(f"/namespaces/ns/tables/{name}", purgeRequested="true").status == 204
    finished(server)


def finished(server: EmbeddedCatalog) -> None:
    """Waits until the background work before now is done: the only thread for it must not hang."""
    waiting: Future[int] = server.app.ctx.background.submit(int)
    waiting.result(timeout=120)


def forge(lake: FrazilCatalog, server: EmbeddedCatalog, **changes: Any) -> str:
    """The location of a metadata file that a client wrote into the warehouse by itself."""
    table = lake.create_table(f"ns.x{uuid.uuid4().hex[:8]}", SCHEMA)
    table.append(ROWS)
    metadata = json.loads(path_of(lake.load_table(table.name()).metadata_location).read_bytes())
    metadata |= {"table-uuid": str(uuid.uuid4()), "location": f"{server.warehouse}/ns/{uuid.uuid4().hex}", **changes}
    location = f"{metadata['location']}/metadata/00000-forged.metadata.json"
    if "location" in changes:
        location = f"{server.warehouse}/forged/{uuid.uuid4().hex}/00000-forged.metadata.json"
    path_of(location).parent.mkdir(parents=True, exist_ok=True)
    path_of(location).write_text(json.dumps(metadata))
    return location


def test_a_table_without_neighbours_is_purged_whole(
    lake: FrazilCatalog, client: Client, server: EmbeddedCatalog
) -> None:
    result = victim(lake)
    purge(client, server, "victim")
    assert files_below(result.location()) == set()


def test_statistics_that_name_another_tables_metadata_do_not_delete_it(
    lake: FrazilCatalog, client: Client, server: EmbeddedCatalog
) -> None:
    kept = victim(lake)
    hostile = victim(lake, "ns.hostile")
    for path, status in ((kept.metadata_location, 400), (kept.current_snapshot().manifest_list, 200)):  # type: ignore[union-attr]
        file = {"snapshot-id": hostile.metadata.current_snapshot_id, "statistics-path": path, "file-size-in-bytes": 1}
        whole = {**file, "file-footer-size-in-bytes": 1, "blob-metadata": []}
        assert (
            client.commit({"action": "set-statistics", "snapshot-id": 1, "statistics": whole}, table="hostile").status
            == status
        )
        more = {"action": "set-partition-statistics", "partition-statistics": file}
        assert client.commit(more, table="hostile").status == status
    before = files_below(kept.location())
    purge(client, server, "hostile")
    assert files_below(kept.location()) == before


@pytest.mark.parametrize("place", ["victim", "victim/data", "victim/metadata", "", "/"])
def test_a_table_moved_onto_others_just_before_the_purge_deletes_nothing(
    lake: FrazilCatalog, client: Client, server: EmbeddedCatalog, place: str
) -> None:
    kept = victim(lake)
    location = f"{server.warehouse}/ns/{place}".rstrip("/") if place != "/" else server.warehouse
    hostile = lake.register_table("ns.hostile", forge(lake, server, **the_past(kept)))
    assert hostile.location() != kept.location()
    # may be refused: so much the better
    client.commit({"action": "set-location", "location": location}, table="hostile")
    before = files_below(kept.location())
    purge(client, server, "hostile")
    assert files_below(kept.location()) == before
    assert lake.load_table("ns.victim").scan().to_arrow().num_rows == 6


def the_past(table: Table) -> dict[str, Any]:
    """What a metadata file must hold to lead to the files of another table."""
    metadata = json.loads(path_of(table.metadata_location).read_bytes())
    return {
        key: metadata[key]
        for key in ("snapshots", "refs", "current-snapshot-id", "last-sequence-number", "metadata-log")
    }


def json_snapshots(table: Table) -> list[Any]:
    """The snapshots of a table, with the current one last named as in a metadata file."""
    return json.loads(path_of(table.metadata_location).read_bytes())["snapshots"]  # type: ignore[no-any-return]


def test_a_forged_metadata_log_does_not_delete_what_it_names(
    lake: FrazilCatalog, client: Client, server: EmbeddedCatalog
) -> None:
    kept = victim(lake)
    log = [{"metadata-file": kept.metadata_location, "timestamp-ms": 1}]
    file = {
        "snapshot-id": 1,
        "statistics-path": kept.metadata_location,
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
    }
    forged = {"metadata-log": log, "statistics": [{**file, "blob-metadata": []}], "partition-statistics": [file]}
    lake.register_table("ns.hostile", forge(lake, server, **forged))
    purge(client, server, "hostile")
    assert path_of(kept.metadata_location).exists()


def test_a_log_that_is_cut_after_a_commit_deletes_only_the_tables_own_versions(
    lake: FrazilCatalog, client: Client, server: EmbeddedCatalog
) -> None:
    kept = victim(lake)
    properties = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    log = [{"metadata-file": kept.metadata_location, "timestamp-ms": 1}]
    lake.register_table("ns.hostile", forge(lake, server, **{"metadata-log": log, "properties": properties}))
    first = client.load("hostile")["metadata-location"]
    for number in range(3):
        assert client.commit({"action": "set-properties", "updates": {"n": str(number)}}, table="hostile").status == 200
    finished(server)
    assert path_of(kept.metadata_location).exists()
    assert not path_of(first).exists()
    assert len(list(path_of(client.load("hostile")["metadata-location"]).parent.iterdir())) == 2


def test_a_log_that_is_cut_spares_the_versions_of_a_table_that_is_registered_twice(
    lake: FrazilCatalog, client: Client, server: EmbeddedCatalog
) -> None:
    properties = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    result = victim(lake, properties=properties)
    register_elsewhere(server, result.metadata_location)
    for number in range(3):
        assert client.commit({"action": "set-properties", "updates": {"n": str(number)}}, table="victim").status == 200
    finished(server)
    assert path_of(result.metadata_location).exists()


def register_elsewhere(server: EmbeddedCatalog, location: str) -> None:
    """Points a table of the other warehouse to a metadata file, as an older server let clients do."""
    from frazil.catalog.names import Name
    from frazil.catalog.store import namespaces, relations

    metadata = json.loads(path_of(location).read_bytes())
    swap = relations.Swap(Name(("ns",), "twin"), "table", None, location, metadata["table-uuid"], metadata["location"])
    database = server.app.ctx.database
    if namespaces.find(database.read(), "cold", ("ns",)) is None:
        database.write(lambda sql: namespaces.create(sql, "cold", ("ns",), {}))
    assert database.write(lambda sql: relations.swap(sql, "cold", swap))


def peak_bytes() -> int:
    """The most memory that this process, and the server in it, ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def avro_bomb() -> bytes:
    """A small Avro file whose only block unpacks to 300 MB."""
    packer = zlib.compressobj(1, wbits=-15)
    block = b"".join(packer.compress(bytes(1 << 20)) for _ in range(300)) + packer.flush()
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]}).encode()
    header = b"Obj\x01\x04" + b"".join(
        varint(len(field)) + field for field in (b"avro.schema", schema, b"avro.codec", b"deflate")
    )
    return header + b"\x00" + bytes(16) + varint(300 << 20) + varint(len(block)) + block + bytes(16)


def varint(number: int) -> bytes:
    zigzag, result = number << 1, bytearray()
    while zigzag > 0x7F:
        result.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*result, zigzag])


@pytest.mark.parametrize("kind", ["fifo", "/dev/zero", "huge", "damaged", "packed"])
def test_a_manifest_list_that_is_no_file_neither_blocks_nor_fills_memory(
    lake: FrazilCatalog, client: Client, server: EmbeddedCatalog, kind: str
) -> None:
    result = victim(lake)
    path = path_of(result.location()) / "metadata" / "snap-hostile.avro"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "huge":
        path.touch()
        os.truncate(path, 1 << 40)
    elif kind == "damaged":
        path.write_bytes(b"Obj\x01" + b"\xff" * 100)
    elif kind == "packed":
        path.write_bytes(avro_bomb())
    location = "file:///dev/zero" if kind == "/dev/zero" else f"file://{path}"
    snapshot = {**json_snapshots(result)[-1], "snapshot-id": 77, "sequence-number": 9, "manifest-list": location}
    snapshot["parent-snapshot-id"] = result.metadata.current_snapshot_id
    assert client.commit({"action": "add-snapshot", "snapshot": snapshot}, table="victim").status == 200
    data = files_below(f"{result.location()}/data")
    before = peak_bytes()
    purge(client, server, "victim")
    assert not any(file.exists() for file in data)
    assert peak_bytes() - before < 200 << 20


@pytest.mark.parametrize("kind", ["fifo", "huge", "device"])
def test_a_metadata_file_that_is_no_file_is_refused_at_once(client: Client, server: EmbeddedCatalog, kind: str) -> None:
    path = path_of(client.create()["metadata-location"])
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "huge":
        path.touch()
        os.truncate(path, 1 << 40)
    else:
        path.symlink_to("/dev/zero")
    server.app.ctx.files.cache.drop(f"file://{path}")
    assert client.get("/namespaces/ns/tables/t").status == 422
    answer = client.post("/namespaces/ns/register", {"name": "r", "metadata-location": f"file://{path}"})
    assert answer.status in (400, 403)


def test_files_that_another_table_leads_to_are_left(
    lake: FrazilCatalog, client: Client, server: EmbeddedCatalog
) -> None:
    result = victim(lake)
    borrowed = [task.file.file_path for task in result.scan().plan_files()][:1]
    lake.create_table("ns.borrower", SCHEMA).add_files(borrowed)
    purge(client, server, "victim")
    assert files_below(result.location()) == {path_of(item) for item in borrowed}
    assert lake.load_table("ns.borrower").scan().to_arrow().num_rows == 3


def test_files_that_a_table_of_another_warehouse_leads_to_are_left(
    lake: FrazilCatalog, client: Client, server: EmbeddedCatalog
) -> None:
    result = victim(lake)
    register_elsewhere(server, result.metadata_location)
    before = files_below(result.location())
    purge(client, server, "victim")
    assert files_below(result.location()) == before


def test_a_link_inside_the_folder_does_not_lead_a_purge_outside(
    lake: FrazilCatalog, client: Client, server: EmbeddedCatalog
) -> None:
    outside = server.folder / "warehouse" / "dropped"
    outside.mkdir(parents=True)
    pq.write_table(ROWS, outside / "f.parquet")
    result = victim(lake)
    (path_of(result.location()) / "data" / "link").symlink_to(outside)
    (path_of(result.location()) / "data" / "f.parquet").symlink_to(outside / "f.parquet")
    result.add_files([f"{result.location()}/data/link/f.parquet", f"{result.location()}/data/f.parquet"])
    purge(client, server, "victim")
    assert (outside / "f.parquet").exists()


def test_a_data_folder_that_tables_share_is_left(lake: FrazilCatalog, client: Client, server: EmbeddedCatalog) -> None:
    shared = {"write.data.path": f"{server.warehouse}/ns/shared"}
    result = victim(lake, properties=shared)
    victim(lake, "ns.other", properties=shared)
    before = files_below(shared["write.data.path"])
    assert len(before) == 4
    purge(client, server, "victim")
    assert files_below(shared["write.data.path"]) == before
    assert files_below(result.location()) == set()


def test_a_data_folder_of_its_own_is_purged(lake: FrazilCatalog, client: Client, server: EmbeddedCatalog) -> None:
    own = {
        "write.data.path": f"{server.warehouse}/ns/apart",
        "write.metadata.path": f"{server.warehouse}/ns/apart-metadata",
    }
    result = victim(lake, properties=own)
    purge(client, server, "victim")
    assert [files_below(folder) for folder in (result.location(), *own.values())] == [set(), set(), set()]


def test_a_table_that_cannot_be_read_may_lead_anywhere(
    lake: FrazilCatalog, client: Client, server: EmbeddedCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    result, broken = victim(lake), victim(lake, "ns.broken")
    path_of(broken.metadata_location).write_text("{half a fi")
    server.app.ctx.files.cache.drop(broken.metadata_location)
    before = files_below(result.location())
    purge(client, server, "victim")
    assert files_below(result.location()) == before
    assert "ns.broken" in caplog.text


@pytest.mark.parametrize("place", ["/dev/zero", "fifo", "nowhere"])
def test_a_hostile_manifest_list_does_not_keep_others_from_being_purged(
    lake: FrazilCatalog, client: Client, server: EmbeddedCatalog, place: str
) -> None:
    result, hostile = victim(lake), victim(lake, "ns.hostile")
    path = server.folder / place if place != "/dev/zero" else Path(place)
    if place == "fifo":
        os.mkfifo(path)
    snapshot = {
        **json_snapshots(hostile)[-1],
        "snapshot-id": 77,
        "sequence-number": 9,
        "manifest-list": f"file://{path}",
    }
    snapshot["parent-snapshot-id"] = hostile.metadata.current_snapshot_id
    assert client.commit({"action": "add-snapshot", "snapshot": snapshot}, table="hostile").status == 200
    purge(client, server, "victim")
    assert files_below(result.location()) == set()


def test_a_purge_of_a_table_whose_folder_is_gone_ends(
    lake: FrazilCatalog, client: Client, server: EmbeddedCatalog
) -> None:
    result = victim(lake)
    shutil.rmtree(path_of(result.location()))
    purge(client, server, "victim")
    assert client.raw("GET", "/livez").status == 200
