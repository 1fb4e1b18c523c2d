"""Plans and searches read only files of the table that the caller may read, whatever its metadata names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import write_manifest_list

from frazil import Lake
from frazil.catalog.access.quotas import Quota
from frazil.catalog.manifests import MemoryIO, read_manifest_list
from frazil.client import FrazilCatalog
from tests.kit.access import Guarded, guarded_catalog, namespace
from tests.kit.catalog_databases import Answer, Client

SCHEMA = pa.schema([("id", pa.int64()), ("embedding", pa.list_(pa.float32()))])
SEARCH = {"column": "embedding", "vector": [1.0, 0.0], "k": 1}
FORBIDDEN = (403, "ForbiddenException")


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    database = f"sqlite:///{tmp_path / 'catalog.db'}"
    with guarded_catalog(tmp_path, database, routes_of=["frazil.console"]) as running:
        for name in ("ns", "hidden"):
            running.admin.post("/namespaces", {"namespace": [name]})
        yield running


def connect(guarded: Guarded, client: Client) -> FrazilCatalog:
    token = str(client.session.headers["Authorization"]).removeprefix("Bearer ")
    return FrazilCatalog("lake", uri=guarded.server.uri, warehouse="default", token=token)


def fill(catalog: FrazilCatalog, name: str, *, rows: int = 1) -> Any:
    catalog.create_table(name, SCHEMA)
    if rows:
        Lake(catalog=catalog).table(name).append([{"id": 42, "embedding": [1.0, 0.0]}] * rows)
    return catalog.load_table(name)


def name_files(client: Client, manifest_list: str) -> None:
    """Commits a snapshot with this manifest list to ns.mine."""
    snapshot = {
        "snapshot-id": 7,
        "sequence-number": 9,
        "timestamp-ms": 4_000_000_000_000,
        "manifest-list": manifest_list,
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    point = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7}
    assert client.commit({"action": "add-snapshot", "snapshot": snapshot}, point, table="mine").status == 200


def ask(client: Client, name: str = "ns/tables/mine") -> tuple[Answer, Answer]:
    plan = client.post(f"/namespaces/{name}/plan", {})
    return plan, client.post(f"/namespaces/{name}/search", SEARCH)


def preview(client: Client) -> list[Answer]:
    """The rows and the files of ns.mine in the console."""
    return [client.raw("GET", f"/console/api/default/namespaces/ns/tables/mine/{part}") for part in ("rows", "files")]


def test_a_snapshot_that_names_files_of_another_table_is_neither_planned_nor_searched(guarded: Guarded) -> None:
    secret = fill(connect(guarded, guarded.admin), "hidden.secret")
    assert [answer.status for answer in ask(guarded.admin, "hidden/tables/secret")] == [200, 200]  # now in the cache
    ann = guarded.user("ann", ("create", namespace("ns")))
    mine = fill(connect(guarded, ann), "ns.mine", rows=0)
    foreign = secret.current_snapshot().manifest_list
    own = Path(mine.location().removeprefix("file://")) / "metadata" / "own.avro"
    manifests = list(read_manifest_list(MemoryIO(read_file).new_input(foreign)))
    output = PyArrowFileIO().new_output(f"file://{own}")
    with write_manifest_list(2, output, 7, None, 9, "null") as writer:
        writer.add_manifests(manifests)
    link = own.with_name("link.avro")
    link.symlink_to(foreign.removeprefix("file://"))
    for named in (foreign, f"file://{own}", f"file://{link}", f"{mine.location()}/../secret/x.avro"):
        name_files(ann, named)
        for answer in (*ask(ann), *preview(ann)):
            assert answer.error[:2] == FORBIDDEN, named
        assert ann.commit({"action": "remove-snapshot-ref", "ref-name": "main"}, table="mine").status == 200
        assert ann.commit({"action": "remove-snapshots", "snapshot-ids": [7]}, table="mine").status == 200


def read_file(location: str) -> bytes:
    return Path(location.removeprefix("file://")).read_bytes()


def test_a_search_reads_no_data_file_of_another_table_and_a_plan_may_name_it(guarded: Guarded) -> None:
    secret = fill(connect(guarded, guarded.admin), "hidden.secret")
    assert guarded.admin.post("/namespaces/hidden/tables/secret/search", SEARCH).status == 200
    ann = guarded.user("ann", ("create", namespace("ns")))
    mine = fill(connect(guarded, ann), "ns.mine")
    assert ask(ann)[1].body["rows"] == [{"id": 42, "embedding": [1.0, 0.0], "_distance": 0.0}]
    (task,) = secret.scan().plan_files()
    mine.add_files([task.file.file_path])
    plan, search = ask(ann)
    assert plan.status == 200
    assert [answer.error[:2] for answer in (search, *preview(ann))] == [FORBIDDEN] * 3
    assert task.file.file_path in search.error[2]


def test_files_in_places_that_a_table_has_left_are_read(guarded: Guarded, tmp_path: Path) -> None:
    root = guarded.user("eve", ("manage", namespace("ns")))
    mine = fill(connect(guarded, root), "ns.mine")
    move = {"action": "set-location", "location": f"{mine.location()}2"}
    assert root.commit(move, table="mine").status == 200
    assert [answer.status for answer in ask(root)] == [200, 200]


def test_planned_files_of_a_principal_are_limited(guarded: Guarded) -> None:
    fill(connect(guarded, guarded.admin), "ns.mine")
    guarded.server.app.ctx.plan_quota = Quota(0.001, "planned files")
    assert [ask(guarded.admin)[0].status for _ in range(2)] == [200, 429]
    bob = guarded.user("bob", ("read", namespace("ns")))
    assert ask(bob)[0].status == 200
