"""Appends that were prepared on an older head: rebased where the table asks for it, else a conflict."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table

from frazil.catalog import newest_records
from frazil.catalog.appends import files
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.client import FrazilCatalog
from frazil.errors import CommitConflict
from frazil.protocol import PROPERTY_REBASE_APPENDS
from frazil.write.commit.manifests import read_list
from frazil.write.upsert.replace_rows import ReplaceRows
from tests.kit.access import guarded_catalog, load_as, namespace
from tests.kit.catalog_databases import Answer, Client
from tests.kit.fast_appends import (
    BYTES,
    ROWS,
    Json,
    load,
    new_file,
    open_table,
    prepare,
    send,
    snapshot_ids,
    snapshot_of,
)

CONFLICT = (409, "CommitFailedException")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedCatalog]:
    """On one database: what is decided does not depend on it. tests/faults/test_append_writers.py has both."""
    with running_catalog(tmp_path) as running:
        yield running


def local(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def file_paths(table: Table) -> list[str]:
    return sorted(table.inspect.files()["file_path"].to_pylist())


def known_head(uri: str) -> Table:
    """A table of one snapshot."""
    assert send(uri, prepare(open_table(uri))).status == 200
    return load(uri)


def outcome(answer: Answer) -> tuple[int, str]:
    return answer.error[:2]


# --- what is rebased -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2", "3"])
def test_appends_that_were_prepared_on_one_head_all_come_in(server: EmbeddedCatalog, version: str) -> None:
    table = open_table(server.uri, **{"format-version": version})
    files = [new_file(table) for _ in range(3)]
    requests = [prepare(table, file) for file in files]
    answers = [send(server.uri, request) for request in requests]
    assert [answer.status for answer in answers] == [200, 200, 200]
    table, ids = load(server.uri), [snapshot_of(request)["snapshot-id"] for request in requests]
    assert [snapshot.snapshot_id for snapshot in table.metadata.snapshots] == ids
    assert [snapshot.parent_snapshot_id for snapshot in table.metadata.snapshots] == [None, *ids[:2]]
    assert [snapshot.sequence_number for snapshot in table.metadata.snapshots] == [1, 2, 3]
    assert file_paths(table) == sorted(file.path for file in files)
    summary = table.metadata.snapshots[-1].summary
    assert summary is not None
    totals = ("total-data-files", "total-records", "total-files-size", "added-records")
    assert [summary[key] for key in totals] == ["3", str(3 * ROWS), str(3 * BYTES), str(ROWS)]


def test_the_reply_has_the_snapshot_that_was_made(server: EmbeddedCatalog) -> None:
    table = open_table(server.uri)
    first, late = prepare(table), prepare(table)
    send(server.uri, first)
    metadata = send(server.uri, late).body["metadata"]
    snapshot = metadata["snapshots"][-1]
    assert metadata["current-snapshot-id"] == snapshot["snapshot-id"] == snapshot_of(late)["snapshot-id"]
    assert snapshot["parent-snapshot-id"] == snapshot_of(first)["snapshot-id"]
    assert snapshot["manifest-list"] != snapshot_of(late)["manifest-list"]
    assert local(snapshot["manifest-list"]).parent == local(snapshot_of(late)["manifest-list"]).parent


def test_the_clients_own_list_stays_as_it_is(server: EmbeddedCatalog) -> None:
    table = open_table(server.uri)
    first, late = prepare(table), prepare(table)
    own = local(snapshot_of(late)["manifest-list"])
    before = own.read_bytes()
    assert [send(server.uri, request).status for request in (first, late)] == [200, 200]
    assert own.read_bytes() == before


def test_rows_of_format_3_have_ids_of_their_own(server: EmbeddedCatalog) -> None:
    table = open_table(server.uri, **{"format-version": "3"})
    for request in [prepare(table, new_file(table, rows=rows)) for rows in (5, 7, 11)]:
        assert send(server.uri, request).status == 200
    table = load(server.uri)
    snapshots = Client(server.uri).load()["metadata"]["snapshots"]
    assert [(each["first-row-id"], each["added-rows"]) for each in snapshots] == [(0, 5), (5, 7), (12, 11)]
    head = table.current_snapshot()
    assert head is not None
    assert [manifest[15] for manifest in read_list(table, head)] == [12, 5, 0]


def test_a_branch_of_its_own_is_no_reason_for_a_conflict(server: EmbeddedCatalog) -> None:
    """The sequence number of a table is one for all branches: without rebase the later append is refused."""
    table = open_table(server.uri)
    send(server.uri, prepare(table))
    table = load(server.uri)
    head = table.metadata.snapshots[0].snapshot_id
    branch = {"action": "set-snapshot-ref", "ref-name": "audit", "type": "branch", "snapshot-id": head}
    assert Client(server.uri).commit(branch).status == 200
    table = load(server.uri)
    requests = [prepare(table), prepare(table, ref="audit"), prepare(table, ref="audit")]
    assert [send(server.uri, request).status for request in requests] == [200, 200, 200]
    refs = load(server.uri).metadata.refs
    assert refs["main"].snapshot_id == snapshot_of(requests[0])["snapshot-id"]
    assert refs["audit"].snapshot_id == snapshot_of(requests[2])["snapshot-id"]


def test_the_server_may_rebase_by_default_and_a_table_may_not(tmp_path: Path) -> None:
    with running_catalog(tmp_path, rebase_appends=True) as server:
        for name, properties in (("a", {}), ("b", {PROPERTY_REBASE_APPENDS: "false"})):
            Client(server.uri).create(name, properties=properties)
            table = load(server.uri, name)
            first, late = prepare(table), prepare(table)
            statuses = [send(server.uri, request, name).status for request in (first, late)]
            assert statuses == [200, 200 if name == "a" else 409]


def test_a_transaction_of_one_table_is_moved_like_its_commit(server: EmbeddedCatalog) -> None:
    table = open_table(server.uri)
    requests = [prepare(table) for _ in range(3)]
    assert [send_transaction(server, request).status for request in requests] == [204, 204, 204]
    assert snapshot_ids(server.uri) == [snapshot_of(request)["snapshot-id"] for request in requests]


def send_transaction(server: EmbeddedCatalog, request: Json) -> Answer:
    changes = [{"identifier": {"namespace": ["ns"], "name": "t"}, **request}]
    return Client(server.uri).post("/transactions/commit", {"table-changes": changes})


@contextlib.contextmanager
def second_server(server: EmbeddedCatalog) -> Iterator[EmbeddedCatalog]:
    """Another server of the same database and warehouse, that has read nothing yet."""
    warehouses = {"default": server.warehouse.removeprefix("file://")}
    with running_catalog(
        server.folder / "second", database=f"sqlite:///{server.folder / 'catalog.db'}", warehouses=warehouses
    ) as second:
        yield second


def test_an_append_comes_in_through_a_server_that_has_not_seen_the_last_hundred_commits(
    server: EmbeddedCatalog,
) -> None:
    """A writer that took long, and a server that has started meanwhile."""
    table = known_head(server.uri)
    *others, late = [prepare(table) for _ in range(101)]
    assert {send(server.uri, request).status for request in others} == {200}
    with second_server(server) as second:
        assert send(second.uri, late).status == 200
    assert snapshot_ids(server.uri)[1:] == [snapshot_of(request)["snapshot-id"] for request in (*others, late)]


@pytest.mark.parametrize(
    ("limit", "value", "statuses"),
    [
        ("MOST_NEWER", 5, [409, 409, 409]),
        ("MOST_NEWER", 6, [200]),
        ("NEWER_SECONDS", -1.0, [409, 409, 409]),
        ("NEWER_BYTES", 0, [409, 409, 409]),
        ("NEWER_BYTES", 2.5, [409, 409, 200]),  # what was read is kept: the next try goes on
    ],
)
def test_what_is_read_of_the_commits_of_others_is_limited(
    server: EmbeddedCatalog, monkeypatch: pytest.MonkeyPatch, limit: str, value: float, statuses: list[int]
) -> None:
    table = known_head(server.uri)
    *others, late = [prepare(table) for _ in range(7)]
    assert {send(server.uri, request).status for request in others} == {200}
    if limit == "NEWER_BYTES":  # a number of manifests
        folder = local(table.location()) / "metadata"
        value = int(value * max(file.stat().st_size for file in folder.glob("*-m*.avro")))
    monkeypatch.setattr(files, limit, value)
    with second_server(server) as second:
        answered = [send(second.uri, late).status]
        while answered[-1] != 200 and len(answered) < 3:
            answered.append(send(second.uri, late).status)
    assert answered == statuses


def test_an_append_after_a_merge_of_manifests_by_another_writer_comes_in(server: EmbeddedCatalog) -> None:
    table = open_table(server.uri, **{"commit.manifest.min-count-to-merge": "2"})
    for _ in range(2):
        send(server.uri, prepare(load(server.uri)))
    table = load(server.uri)
    merging = prepare(table)  # the two that are there become one
    Client(server.uri).commit({"action": "set-properties", "updates": {"commit.manifest.min-count-to-merge": "100"}})
    late = prepare(load(server.uri))
    assert [send(server.uri, request).status for request in (merging, late)] == [200, 200]
    assert len(file_paths(load(server.uri))) == 4


# --- what stays a conflict -------------------------------------------------------------------------------------------


def commit(server: EmbeddedCatalog, *updates: Json) -> None:
    assert Client(server.uri).commit(*updates).status == 200


def rename_column(server: EmbeddedCatalog, table: Table) -> None:
    schema = Client(server.uri).load()["metadata"]["schemas"][0]
    fields = [{**field, "name": field["name"] + "_new"} for field in schema["fields"]]
    set_current = {"action": "set-current-schema", "schema-id": -1}
    commit(server, {"action": "add-schema", "schema": {**schema, "fields": fields}}, set_current)
    send(server.uri, prepare(load(server.uri)))


def partition_otherwise(server: EmbeddedCatalog, table: Table) -> None:
    spec = {"fields": [{"source-id": 1, "name": "bucket", "transform": "bucket[4]"}]}
    commit(server, {"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1})
    commit(server, {"action": "set-snapshot-ref", "ref-name": "x", "type": "branch", "snapshot-id": head_id(table)})
    send(server.uri, prepare(table))


def head_id(table: Table) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def roll_back(server: EmbeddedCatalog, table: Table) -> None:
    first = table.metadata.snapshots[0].snapshot_id
    commit(server, {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": first})
    send(server.uri, prepare(load(server.uri)))


def expire_parent(server: EmbeddedCatalog, table: Table) -> None:
    send(server.uri, prepare(load(server.uri)))
    ids = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    commit(server, {"action": "remove-snapshots", "snapshot-ids": ids})


def switch_off(server: EmbeddedCatalog, table: Table) -> None:
    commit(server, {"action": "set-properties", "updates": {PROPERTY_REBASE_APPENDS: "false"}})
    send(server.uri, prepare(load(server.uri)))


def add_file_elsewhere(server: EmbeddedCatalog, table: Table) -> None:
    assert send(server.uri, prepare(table, new_file(table, f"{table.location()}/data/same.parquet"))).status == 200


def recreate(server: EmbeddedCatalog, table: Table) -> None:
    client = Client(server.uri)
    assert client.delete("/namespaces/ns/tables/t").status == 204
    client.create(location=table.location(), properties=table.properties)


BETWEEN = [
    rename_column, partition_otherwise, roll_back, expire_parent, switch_off, add_file_elsewhere, recreate,
]  # fmt: skip


@pytest.mark.parametrize("happens", BETWEEN, ids=lambda happens: happens.__name__)
def test_an_append_that_does_not_fit_what_came_in_between_is_a_conflict(
    server: EmbeddedCatalog, happens: Callable[[EmbeddedCatalog, Table], None]
) -> None:
    open_table(server.uri)
    for _ in range(2):
        assert send(server.uri, prepare(load(server.uri))).status == 200
    table = load(server.uri)
    late = prepare(table, new_file(table, f"{table.location()}/data/same.parquet"))
    happens(server, table)
    before = snapshot_ids(server.uri)
    assert outcome(send(server.uri, late)) == CONFLICT
    assert snapshot_ids(server.uri) == before


def test_a_table_without_the_property_refuses_a_late_append(server: EmbeddedCatalog) -> None:
    Client(server.uri).create()
    table = load(server.uri)
    first, late = prepare(table), prepare(table)
    assert send(server.uri, first).status == 200
    assert outcome(send(server.uri, late)) == CONFLICT


KAFKA_CONNECT = {"kafka.connect.offsets.control-iceberg.0": '{"0":12}', "kafka.connect.valid-through-ts": "2026-01-01"}
FLINK = {"flink.job-id": "a", "flink.operator-id": "b", "flink.max-committed-checkpoint-id": "7"}
SPARK = {"spark.sql.streaming.queryId": "q", "spark.sql.streaming.epochId": "3"}


@pytest.mark.parametrize("marks", [KAFKA_CONNECT, FLINK, SPARK], ids=["Kafka Connect", "Flink", "Spark"])
def test_a_commit_with_the_marks_of_a_streaming_writer_is_never_moved(
    server: EmbeddedCatalog, marks: dict[str, str]
) -> None:
    """Kafka Connect compares the offsets of its base with its own before it commits: only the conflict tells it that
    the base has changed.
    """
    table = open_table(server.uri)
    coordinator, zombie = prepare(table, summary=marks), prepare(table, summary=marks)
    assert send(server.uri, coordinator).status == 200
    assert outcome(send(server.uri, zombie)) == CONFLICT
    assert snapshot_ids(server.uri) == [snapshot_of(coordinator)["snapshot-id"]]


def test_a_merged_append_stays_a_conflict(server: EmbeddedCatalog) -> None:
    open_table(server.uri, **{"commit.manifest.min-count-to-merge": "2"})
    for _ in range(2):
        send(server.uri, prepare(load(server.uri)))
    table = load(server.uri)
    first, merging = prepare(table), prepare(table)
    assert send(server.uri, first).status == 200
    assert outcome(send(server.uri, merging)) == CONFLICT


def test_a_transaction_of_several_tables_is_never_moved(server: EmbeddedCatalog) -> None:
    tables = {name: open_table(server.uri, name) for name in "ab"}
    requests = {name: [prepare(table), prepare(table)] for name, table in tables.items()}
    assert send(server.uri, requests["a"][0], "a").status == 200
    changes = [{"identifier": {"namespace": ["ns"], "name": name}, **requests[name][1]} for name in "ab"]
    assert outcome(Client(server.uri).post("/transactions/commit", {"table-changes": changes})) == CONFLICT
    assert snapshot_ids(server.uri, "b") == []


def test_an_overwrite_that_found_an_empty_table_is_never_moved(server: EmbeddedCatalog) -> None:
    """It has no rows to replace, and is to replace those of the append before it."""
    table = open_table(server.uri)
    overwrite = ReplaceRows(table.name(), AlwaysTrue(), (new_file(table),))
    change = overwrite.build(table, attempt=0, summary={}, properties={})
    assert send(server.uri, prepare(table)).status == 200
    with pytest.raises(CommitConflict):
        FrazilCatalog("lake", uri=server.uri).commit_changes([change])


def test_the_same_append_sent_again_is_a_conflict(server: EmbeddedCatalog) -> None:
    table = open_table(server.uri)
    requests = [prepare(table), prepare(table)]
    assert [send(server.uri, request).status for request in requests] == [200, 200]
    for request in requests:
        assert outcome(send(server.uri, request)) == CONFLICT
    assert len(snapshot_ids(server.uri)) == 2


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@pytest.mark.parametrize(("properties", "stored"), [({}, ["first", "second"]), ({"load": "day 1"}, ["first"])])
def test_an_overwrite_that_finds_nothing_is_an_append_unless_it_has_a_property(
    server: EmbeddedCatalog, properties: dict[str, str], stored: list[str]
) -> None:
    """Its request is that of an append. With a property of its own it gets the conflict, and PyIceberg validates."""
    schema = open_table(server.uri).schema().as_arrow()
    catalog = load_catalog("lake", type="rest", uri=server.uri)
    tables = [catalog.load_table("ns.t") for _ in range(2)]
    for table, text in zip(tables, ("first", "second"), strict=True):
        row = pa.table({"id": [1], "data": [text]}, schema=schema)
        with contextlib.suppress(ValidationException):
            table.overwrite(row, "id = 1", snapshot_properties=properties)
    assert sorted(load(server.uri).scan().to_arrow()["data"].to_pylist()) == stored


# --- hostile files ---------------------------------------------------------------------------------------------------


def forge(request: Json, path: str) -> Json:
    snapshot_of(request)["manifest-list"] = path
    return request


def test_files_of_another_table_are_not_read(server: EmbeddedCatalog) -> None:
    table, other = open_table(server.uri), open_table(server.uri, "other")
    first, late, foreign = prepare(table), prepare(table), prepare(other)
    send(server.uri, first)
    assert outcome(send(server.uri, forge(late, snapshot_of(foreign)["manifest-list"]))) == CONFLICT


def test_what_is_known_of_another_table_is_not_used(server: EmbeddedCatalog) -> None:
    """Its list would be copied into a folder that the writer may read."""
    table, other = open_table(server.uri), open_table(server.uri, "other")
    for request in [prepare(other), prepare(other)]:
        assert send(server.uri, request, "other").status == 200
    late, head = prepare(table), prepare(table)
    theirs = Client(server.uri).load("other")["metadata"]["snapshots"][-1]["manifest-list"]
    assert send(server.uri, forge(head, theirs)).status == 200
    assert outcome(send(server.uri, late)) == CONFLICT


def test_a_list_that_was_read_in_a_newer_format_is_read_again_in_the_older_one(server: EmbeddedCatalog) -> None:
    """A table is upgraded, dropped, and registered as it was before: its files are the same."""
    open_table(server.uri)
    client = Client(server.uri)
    stale = load(server.uri)
    for _ in range(2):
        assert send(server.uri, prepare(load(server.uri))).status == 200
    before, late = client.load()["metadata-location"], prepare(stale)
    commit(server, {"action": "upgrade-format-version", "format-version": 3})
    assert outcome(send(server.uri, prepare(stale))) == CONFLICT  # now the head is known
    assert client.delete("/namespaces/ns/tables/t").status == 204
    assert client.post("/namespaces/ns/register", {"name": "t", "metadata-location": before}).status == 200
    assert send(server.uri, late).status == 200
    assert len(file_paths(load(server.uri))) == 3


@pytest.mark.parametrize("kind", ["missing", "a folder", "noise", "cut", "a link", "dots", "no location"])
def test_a_list_that_cannot_be_read_leaves_a_conflict(server: EmbeddedCatalog, tmp_path: Path, kind: str) -> None:
    table = open_table(server.uri)
    first, late = prepare(table), prepare(table)
    assert send(server.uri, first).status == 200
    own = local(snapshot_of(late)["manifest-list"])
    content = own.read_bytes()
    paths = {"dots": f"{table.location()}/metadata/../metadata/{own.name}", "no location": "\x00"}
    own.unlink()
    if kind == "a folder":
        own.mkdir()
    elif kind == "a link":
        (tmp_path / "outside").write_bytes(content)
        own.symlink_to(tmp_path / "outside")
    elif kind != "missing":
        own.write_bytes({"noise": b"x" * 99, "cut": content[:-9]}.get(kind, content))
    assert outcome(send(server.uri, forge(late, paths.get(kind, str(own))))) == CONFLICT
    own.rmdir() if kind == "a folder" else own.unlink(missing_ok=True)
    own.write_bytes(content)
    assert send(server.uri, forge(late, str(own))).status == 200  # it was the file alone


def test_a_manifest_of_another_length_than_its_list_says_leaves_a_conflict(server: EmbeddedCatalog) -> None:
    table = open_table(server.uri)
    first, late = prepare(table), prepare(table)
    assert send(server.uri, first).status == 200
    for manifest in local(f"{table.location()}/metadata").glob("*-m0.avro"):
        manifest.write_bytes(manifest.read_bytes() + b" ")
    assert outcome(send(server.uri, late)) == CONFLICT


# --- keys, rights and records ----------------------------------------------------------------------------------------


def test_a_rebased_append_is_answered_again_by_its_key(server: EmbeddedCatalog) -> None:
    table = open_table(server.uri)
    first, late = prepare(table), prepare(table)
    assert send(server.uri, first).status == 200
    key = {"Idempotency-Key": str(uuid.uuid4())}
    answers = [send(server.uri, late, **key) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200]
    assert answers[0].body == answers[1].body
    assert len(snapshot_ids(server.uri)) == 2


def test_who_may_not_write_is_refused_and_who_may_is_recorded(tmp_path: Path) -> None:
    with guarded_catalog(tmp_path, f"sqlite:///{tmp_path / 'catalog.db'}") as guarded:
        guarded.admin.create(properties={PROPERTY_REBASE_APPENDS: "true"})
        writer = guarded.user("w", ("write", namespace("ns")))
        reader = guarded.user("r", ("read", namespace("ns")))
        table = load_as(guarded)
        requests = [prepare(table) for _ in range(3)]
        statuses = [
            send("", request, client=client).status
            for request, client in zip(requests, (guarded.admin, reader, writer), strict=True)
        ]
        assert statuses == [200, 403, 200]
        ids = [snapshot["snapshot-id"] for snapshot in guarded.admin.load()["metadata"]["snapshots"]]
        assert ids == [snapshot_of(requests[number])["snapshot-id"] for number in (0, 2)]
        records = newest_records(guarded.database.read(), limit=2, decision="allowed")
        assert [(record.actor, record.operation, record.decision) for record in records] == [
            ("root", "updateTable", "allowed"),
            ("w", "updateTable", "allowed"),
        ]


# --- readers ---------------------------------------------------------------------------------------------------------


def test_pyiceberg_and_duckdb_read_what_was_rebased(server: EmbeddedCatalog) -> None:
    from tests.contract.test_duckdb_writes import attached

    table = open_table(server.uri)
    tables = [load(server.uri) for _ in range(3)]
    schema = table.schema().as_arrow()
    for number, stale in enumerate(tables):
        stale.append(pa.table({"id": [number], "data": [f"row {number}"]}, schema=schema))
    expected = [(0, "row 0"), (1, "row 1"), (2, "row 2")]
    rows = load(server.uri).scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["data"]) for row in rows) == expected
    with attached(server) as duck:
        assert duck.execute("SELECT id, data FROM lake.ns.t ORDER BY id").fetchall() == expected
        duck.execute("INSERT INTO lake.ns.t VALUES (3, 'row 3')")
    assert len(load(server.uri).scan().to_arrow()) == 4


def test_pyiceberg_goes_on_from_the_reply_to_its_late_append(server: EmbeddedCatalog) -> None:
    first, late = open_table(server.uri), load(server.uri)
    rows = [pa.table({"id": [id], "data": ["x"]}, schema=first.schema().as_arrow()) for id in range(3)]
    first.append(rows[0])
    late.append(rows[1])
    ids = snapshot_ids(server.uri)
    head = late.current_snapshot()
    assert head is not None
    assert (head.snapshot_id, head.parent_snapshot_id) == (ids[1], ids[0])
    assert sorted(late.scan().to_arrow()["id"].to_pylist()) == [0, 1]
    late.append(rows[2])
    assert sorted(load(server.uri).scan().to_arrow()["id"].to_pylist()) == [0, 1, 2]


@pytest.mark.parametrize("version", ["2", "3"])
def test_duckdb_takes_the_reply_to_its_late_append(server: EmbeddedCatalog, version: str) -> None:
    from tests.contract.test_duckdb_writes import attached

    table = open_table(server.uri, **{"format-version": version})
    assert send(server.uri, prepare(table)).status == 200
    other = prepare(load(server.uri))
    with attached(server) as duck:
        duck.execute("BEGIN; INSERT INTO lake.ns.t VALUES (3, 'late')")
        assert send(server.uri, other).status == 200
        duck.execute("COMMIT; INSERT INTO lake.ns.t VALUES (4, 'next')")
    first, second, late, following = load(server.uri).metadata.snapshots
    assert second.snapshot_id == snapshot_of(other)["snapshot-id"]
    assert (late.parent_snapshot_id, following.parent_snapshot_id) == (second.snapshot_id, late.snapshot_id)
    assert [snapshot.sequence_number for snapshot in (first, second, late, following)] == [1, 2, 3, 4]
