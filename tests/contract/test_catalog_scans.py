"""Scan planning by the catalog: the same files as PyIceberg's own planning, in pages that any server can answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, In, IsNull, Not, Or, StartsWith
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import DecimalType, LongType, NestedField, StringType, TimestampType

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from tests.kit.catalog_databases import Client

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "country", StringType()),
    NestedField(3, "at", TimestampType()),
    NestedField(4, "amount", DecimalType(9, 2)),
)
SPEC = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "country"), PartitionField(3, 1001, DayTransform(), "day")
)
HOUR = 3_600_000_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCatalog]:
    with running_catalog(tmp_path_factory.mktemp("scans")) as running:
        yield running


@pytest.fixture(scope="module")
def planning_catalog(server: EmbeddedCatalog) -> RestCatalog:
    """PyIceberg that lets the server plan."""
    result = load_catalog("planned", **server.properties, **{"scan-planning-mode": "server"})
    result.create_namespace("lake")
    assert isinstance(result, RestCatalog)
    return result


@pytest.fixture(scope="module")
def orders(planning_catalog: RestCatalog) -> Table:
    """Four appends in three countries over six days: 24 files."""
    table = planning_catalog.create_table("lake.orders", SCHEMA, partition_spec=SPEC)
    for start in range(0, 120, 30):
        table.append(rows(start, 30))
    return table


def rows(start: int, count: int) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "country": [("NO", "SE", "DK")[n % 3] for n in numbers],
            "at": pa.array([n * 5 * HOUR % (144 * HOUR) for n in numbers], pa.timestamp("us")),
            "amount": pa.array([n * 100 for n in numbers], pa.int64())
            .cast(pa.decimal128(21, 2))
            .cast(pa.decimal128(9, 2)),
        }
    )


@pytest.fixture
def client(server: EmbeddedCatalog) -> Iterator[Client]:
    client = Client(server.uri)
    yield client
    client.session.close()


PLAN, TASKS = "/namespaces/lake/tables/orders/plan", "/namespaces/lake/tables/orders/tasks"
FILTERS = [
    EqualTo("country", "NO"),
    And(GreaterThanOrEqual("at", "1970-01-02T00:00:00"), EqualTo("country", "SE")),
    Or(EqualTo("id", 5), In("id", [70, 71])),
    Not(StartsWith("country", "N")),
    IsNull("country"),
    GreaterThanOrEqual("amount", "100.00"),
]


@pytest.mark.parametrize("expr", FILTERS, ids=str)
def test_the_server_plans_the_files_that_pyiceberg_plans(orders: Table, expr: Any) -> None:
    scan = orders.scan(row_filter=expr)
    theirs = {task.file.file_path: task.residual for task in scan._plan_files_local()}
    ours = {task.file.file_path: task.residual for task in scan.plan_files()}
    assert set(ours) == set(theirs)


def test_pyiceberg_reads_the_same_rows_through_the_servers_plan(orders: Table) -> None:
    expr = And(EqualTo("country", "NO"), GreaterThanOrEqual("id", 50))
    result = orders.scan(row_filter=expr).to_arrow().column("id").to_pylist()
    assert sorted(result) == [n for n in range(50, 120) if n % 3 == 0]


def test_pyiceberg_cannot_yet_take_a_plan_with_a_partition_that_is_null(
    planning_catalog: RestCatalog, client: Client
) -> None:
    table = planning_catalog.create_table("lake.nulls", SCHEMA, partition_spec=SPEC)
    table.append(rows(0, 1).set_column(1, "country", pa.nulls(1, pa.string())))
    body = client.post("/namespaces/lake/tables/nulls/plan", {}).body
    assert body["file-scan-tasks"][0]["data-file"]["partition"] == [None, "1970-01-01"]
    with pytest.raises(ValidationError, match="partition"):
        table.scan().plan_files()


def test_a_plan_names_partitions_sizes_and_what_is_left_of_the_filter(orders: Table, client: Client) -> None:
    body = client.post(PLAN, {"filter": {"type": "and", "left": eq("country", "NO"), "right": eq("id", 0)}}).body
    (task,) = body["file-scan-tasks"]
    assert task["residual-filter"] == eq("id", 0)
    assert task["data-file"]["partition"] == ["NO", "1970-01-01"]
    assert (task["data-file"]["content"], task["data-file"]["file-format"]) == ("data", "parquet")
    assert body["status"] == "completed"
    assert "plan-tasks" not in body


def test_pages_together_have_every_file_once_and_any_server_answers_them(
    orders: Table, server: EmbeddedCatalog
) -> None:
    files = {task.file.file_path for task in orders.scan()._plan_files_local()}
    with running_catalog(server.folder, limits=server.app.ctx.limits.model_copy(update={"plan_files": 5})) as other:
        first, two = Client(other.uri), Client(other.uri)
        body = first.post(PLAN, {}).body
        result, pending = paths(body), list(body["plan-tasks"])
        while pending:
            page = two.post(TASKS, {"plan-task": pending.pop()}).body
            assert len(paths(page)) <= 5
            result += paths(page)
            pending += page.get("plan-tasks", [])
    assert sorted(result) == sorted(files)


def test_a_plan_stays_with_its_snapshot_while_others_commit(
    planning_catalog: RestCatalog, server: EmbeddedCatalog
) -> None:
    table = planning_catalog.create_table("lake.pinned", SCHEMA, partition_spec=SPEC)
    table.append(rows(0, 30))
    plan = "/namespaces/lake/tables/pinned/plan"
    with running_catalog(server.folder, limits=server.app.ctx.limits.model_copy(update={"plan_files": 4})) as other:
        client = Client(other.uri)
        before = client.post(plan, {}).body
        expected = {task.file.file_path for task in table.scan()._plan_files_local()}
        table.append(rows(30, 30))
        result = paths(before)
        for task in before["plan-tasks"]:
            result += paths(client.post(plan.replace("plan", "tasks"), {"plan-task": task}).body)
        again = client.get(f"{plan}/{before['plan-id']}").body
    assert set(result) == expected
    assert paths(again) == paths(before)


def test_an_incremental_plan_has_what_was_appended_between(orders: Table, client: Client) -> None:
    snapshots = [snapshot.snapshot_id for snapshot in orders.metadata.snapshots]
    body = client.post(PLAN, {"start-snapshot-id": snapshots[0], "end-snapshot-id": snapshots[2]}).body
    before = {task.file.file_path for task in orders.scan(snapshot_id=snapshots[0])._plan_files_local()}
    after = {task.file.file_path for task in orders.scan(snapshot_id=snapshots[2])._plan_files_local()}
    assert set(paths(body)) == after - before


def test_statistics_come_for_the_fields_that_are_asked_for(orders: Table, client: Client) -> None:
    body = client.post(PLAN, {"filter": eq("id", 0), "stats-fields": ["id"]}).body
    file = body["file-scan-tasks"][0]["data-file"]
    assert file["lower-bounds"] == {"keys": [1], "values": ["0000000000000000"]}
    assert file["value-counts"]["keys"] == [1]


def test_a_scan_that_needs_few_rows_gets_few_files(orders: Table, server: EmbeddedCatalog) -> None:
    with running_catalog(server.folder, limits=server.app.ctx.limits.model_copy(update={"plan_files": 2})) as other:
        client = Client(other.uri)
        assert "plan-tasks" not in client.post(PLAN, {"min-rows-requested": 1}).body
        assert "plan-tasks" in client.post(PLAN, {"min-rows-requested": 1, "filter": eq("country", "NO")}).body


def test_what_cannot_be_pruned_by_is_left_to_the_client_as_it_was_sent(orders: Table, client: Client) -> None:
    bucket = {"type": "eq", "term": {"type": "transform", "transform": "bucket[4]", "term": "id"}, "value": 1}
    both = {"type": "and", "left": bucket, "right": eq("country", "NO")}
    body = client.post(PLAN, {"filter": {"type": "not", "child": {"type": "not", "child": both}}}).body
    assert {task["data-file"]["partition"][0] for task in body["file-scan-tasks"]} == {"NO"}
    assert body["file-scan-tasks"][0]["residual-filter"]["child"]["child"] == both


def test_newer_spellings_of_filters_mean_the_same(orders: Table, client: Client) -> None:
    column = {"type": "reference", "name": "COUNTRY"}
    newer = {"type": "eq", "left": {"type": "literal", "value": "NO"}, "right": column}
    by_id = {
        "type": "in",
        "child": {"type": "reference", "id": 2},
        "values": {"type": "literals", "values": ["NO"], "data-type": "string"},
    }
    expected = sorted(paths(client.post(PLAN, {"filter": eq("country", "NO")}).body))
    assert sorted(paths(client.post(PLAN, {"filter": newer, "case-sensitive": False}).body)) == expected
    assert sorted(paths(client.post(PLAN, {"filter": by_id}).body)) == expected


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            {"filter": {"type": "eq", "term": "contry", "value": "NO"}},
            "lake.orders has no column 'contry'. did you mean country?",
        ),
        (
            {"filter": {"type": "eq", "term": "id", "value": "many"}},
            "column 'id' is of type long, and cannot be compared with 'many'",
        ),
        ({"filter": {"type": "gt", "term": "at", "value": "soon"}}, "write it as '2024-01-18T09:30:00'"),
        ({"filter": {"type": "near", "term": "id", "value": 1}}, "the expression type must be one of true, false"),
        ({"filter": 5}, "an expression must be true, false or an object"),
        ({"select": ["amont"]}, "did you mean amount?"),
        ({"stats-fields": ["idd"]}, "has no column 'idd'"),
        ({"snapshot-id": 42}, "lake.orders has no snapshot 42. it has: "),
        ({"start-snapshot-id": 1}, "needs 'end-snapshot-id'"),
        ({"snapshot-id": 1, "start-snapshot-id": 1, "end-snapshot-id": 2}, "exclude each other"),
        ({"case-sensitive": "yes"}, "'case-sensitive' must be true or false"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_bad_request_names_what_is_wrong(orders: Table, client: Client, body: dict[str, Any], said: str) -> None:
    status, kind, message = client.post(PLAN, body).error
    assert (status, kind) == (400, "BadRequestException")
    assert said in message


def test_unknown_tokens_and_those_of_another_table_are_refused(
    orders: Table, planning_catalog: RestCatalog, client: Client
) -> None:
    planning_catalog.create_table("lake.other", SCHEMA)
    token = client.post("/namespaces/lake/tables/other/plan", {}).body["plan-id"]
    for wrong in ("nonsense", token[:-2], token):
        assert client.post(TASKS, {"plan-task": wrong}).error[:2] == (404, "NoSuchPlanTaskException")
        assert client.get(f"{PLAN}/{wrong}").error[:2] == (404, "NoSuchPlanIdException")
        assert client.delete(f"{PLAN}/{wrong}").error[:2] == (404, "NoSuchPlanIdException")
    assert client.delete(f"/namespaces/lake/tables/other/plan/{token}").status == 204
    assert client.post("/namespaces/lake/tables/none/plan", {}).error[:2] == (404, "NoSuchTableException")


def test_a_manifest_that_is_damaged_or_elsewhere_is_named(planning_catalog: RestCatalog, client: Client) -> None:
    table = planning_catalog.create_table("lake.broken", SCHEMA)
    table.append(rows(0, 3))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    (manifest,) = snapshot.manifests(table.io)
    Path(manifest.manifest_path.removeprefix("file://")).write_bytes(b"Obj\x01 and no more")
    status, kind, message = client.post("/namespaces/lake/tables/broken/plan", {}).error
    assert (status, kind) == (422, "UnprocessableEntityException")
    assert manifest.manifest_path in message


def eq(column: str, value: Any) -> dict[str, Any]:
    return {"type": "eq", "term": column, "value": value}


def paths(body: dict[str, Any]) -> list[str]:
    return [task["data-file"]["file-path"] for task in body["file-scan-tasks"]]
