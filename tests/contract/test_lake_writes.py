"""Writes through the Python API: append, overwrite, upsert and delete, each in one commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from frazil import Lake, Table, column
from frazil.client import Change, FrazilCatalog
from frazil.errors import (
    CommitUnknown,
    HistoryError,
    NoSuchTable,
    RowRefused,
    ScanError,
    SchemaMismatch,
    SinkError,
    UpkeepError,
)
from frazil.lake import LakeTable
from frazil.sinks import WriteResult, append
from tests.contract.history_lake import Past, rows
from tests.kit.raising import raises

ORDERS = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "country", StringType()),
    NestedField(3, "amount", DoubleType()),
)
BY_COUNTRY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "country"))


@pytest.fixture(params=["partitioned", "unpartitioned"])
def orders(request: pytest.FixtureRequest, catalog: FrazilCatalog, past: Past) -> LakeTable:
    """Two files of orders, of three countries (one is NULL), or one file per country."""
    name = f"{past.name}_orders"
    spec = BY_COUNTRY if request.param == "partitioned" else PartitionSpec()
    catalog.create_table(name, ORDERS, partition_spec=spec)
    table = Lake(catalog=catalog).table(name)
    table.append([order(1, "NO"), order(2, "SE"), order(3, None)])
    table.append([order(4, "NO"), order(5, "SE", None)])
    return table


def order(number: int, country: str | None, amount: float | None = 10.0) -> dict[str, Any]:
    return {"id": number, "country": country, "amount": amount}


def ids(table: LakeTable, at: Any = None) -> list[int]:
    return sorted(table.scan(at=at).to_arrow()["id"].to_pylist())


def snapshots(table: LakeTable) -> int:
    return len(table.load().metadata.snapshots)


# --- append ----------------------------------------------------------------------------------------------------------


def test_append_takes_rows_of_every_kind_in_one_snapshot_each(past: Past) -> None:
    import polars

    table = past.table
    frame = polars.DataFrame({"id": [6]})
    kinds: Sequence[Any] = [{"id": 1}, [{"id": 2}, {"id": 3}], rows(4), rows(5).to_batches()[0], frame]
    for number, kind in enumerate(kinds, start=1):
        result = table.append(kind)
        assert (result.snapshot_id, snapshots(table)) == (past.head(), number)
    assert ids(table) == [1, 2, 3, 4, 5, 6]
    assert not [name for name in table.load().properties if name.startswith("frazil.")]


def test_append_takes_a_generator(past: Past) -> None:
    past.table.append({"id": number} for number in range(3))
    assert ids(past.table) == [0, 1, 2]


@pytest.mark.parametrize(
    "wrong", [[1, 2], [(1,)], [None], [{"id": 1}, None], "id", b"id", None, 5, [rows(1)]], ids=repr
)
def test_what_is_no_row_is_named_and_nothing_is_written(past: Past, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"expected .*row"):
        past.table.append(wrong)
    assert snapshots(past.table) == 0


def test_append_of_no_rows_commits_nothing(past: Past) -> None:
    assert past.table.append([]) == past.table.append(rows()) == WriteResult(past.name)
    assert snapshots(past.table) == 0


def test_a_bad_row_stops_the_append_and_nothing_is_written(past: Past) -> None:
    with pytest.raises(RowRefused):
        past.table.append([{"id": 1}, {"id": "one"}])
    with pytest.raises(RowRefused):
        past.table.append([{"id": 1}, {"id": -1}], checks="id > 0")
    assert snapshots(past.table) == 0


def test_bad_rows_go_to_the_quarantine_in_the_same_commit(past: Past) -> None:
    result = past.table.append([{"id": 1}, {"id": -1}], checks="id > 0", bad_rows="quarantine")
    assert (result.inserted, result.quarantined) == (1, 1)
    assert [row.reason for row in past.table.quarantine.rows()] == ["check 'id > 0' failed"]
    assert past.table.quarantine.replay(dry_run=True).replayed == 0


def test_append_goes_to_a_branch_and_main_stays(past: Past) -> None:
    past.append(1)
    past.table.create_branch("dev")
    past.table.append([{"id": 2}], branch="dev")
    assert (ids(past.table), ids(past.table, "dev")) == ([1], [1, 2])


def test_append_can_add_columns(past: Past) -> None:
    past.table.append([{"id": 1, "extra": 1.5}], extra_fields="evolve")
    assert past.table.scan().to_arrow().to_pylist() == [{"id": 1, "name": None, "extra": 1.5}]


def test_writes_to_a_table_that_is_not_there_name_near_ones(past: Past) -> None:
    with pytest.raises(NoSuchTable) as caught:
        past.lake.table(f"{past.name}x").append([{"id": 1}])
    assert past.name in str(caught.value.hint)


def test_an_append_next_to_a_sink_leaves_its_progress_alone(past: Past) -> None:
    sink = past.sink()
    sink.write(rows(1), position=1)
    sink.commit()
    past.table.append([{"id": 100}])
    sink.write(rows(2), position=2)
    sink.close()
    report = past.table.audit()
    assert (ids(past.table), report.problems, report.others) == ([1, 2, 100], (), 1)


# --- conflicts and lost replies --------------------------------------------------------------------------------------


class Unlucky:
    """A catalog on which another writer is faster once, and the reply to the next commit is lost."""

    def __init__(self, past: Past, *, lost: str) -> None:
        self._past, self._lost, self.commits = past, lost, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._past.catalog, name)

    def commit_changes(self, changes: Sequence[Change]) -> None:
        self.commits += 1
        if self.commits == 1:
            self._past.append(100)
        if self.commits == 2 and self._lost == "request":
            raise CommitUnknown("no reply")
        self._past.catalog.commit_changes(changes)
        if self.commits == 2:
            raise CommitUnknown("no reply")


@pytest.mark.parametrize("lost", ["request", "reply"])
def test_a_write_happens_once_after_a_conflict_and_a_lost_reply(past: Past, lost: str) -> None:
    past.append(1, 2)
    for write, expected in (
        (lambda table: table.append([{"id": 3}]), [1, 2, 3, 100]),
        (lambda table: table.upsert([{"id": 3, "name": "new"}, {"id": 4}], key="id"), [1, 2, 3, 4, 100, 100]),
        (lambda table: table.delete("id <= 2"), [3, 4, 100, 100, 100]),
        (lambda table: table.overwrite([{"id": 9}], "id = 3"), [4, 9, 100, 100, 100, 100]),
    ):
        unlucky = Unlucky(past, lost=lost)
        result = write(Lake(catalog=unlucky).table(past.name))  # type: ignore[arg-type]
        assert (ids(past.table), result.snapshot_id) == (expected, past.head())


# --- overwrite, delete, upsert ---------------------------------------------------------------------------------------


def test_delete_removes_what_matches_and_nothing_else(orders: LakeTable) -> None:
    assert orders.delete("country = 'NO'", dry_run=True) == WriteResult(orders.name, deleted=2, dry_run=True)
    assert ids(orders) == [1, 2, 3, 4, 5]
    result = orders.delete("country = 'NO'")
    assert (result.deleted, result.inserted, ids(orders)) == (2, 0, [2, 3, 5])
    assert orders.history()[0].snapshot_id == result.snapshot_id
    assert ids(orders, orders.history()[1].snapshot_id) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("filter", "left"),
    [
        ("amount > 0", [5]),  # NULL is not greater
        ("NOT amount > 0", [1, 2, 3, 4, 5]),
        ("amount IS NULL", [1, 2, 3, 4]),
        ("country <> 'NO'", [1, 3, 4]),
        ("id >= 1", []),
        ("id > 5", [1, 2, 3, 4, 5]),
    ],
)
def test_delete_treats_null_as_sql_does(orders: LakeTable, filter: str, left: list[int]) -> None:
    before = snapshots(orders)
    assert orders.delete(filter).deleted == 5 - len(left)
    assert (ids(orders), snapshots(orders) - before) == (left, int(len(left) < 5))


def test_delete_sees_rows_that_are_deleted_already(orders: LakeTable) -> None:
    orders.delete("id = 1")
    orders.delete("id = 2")
    assert (orders.delete("country IS NOT NULL").deleted, ids(orders)) == (2, [3])


def test_overwrite_replaces_all_rows_or_those_that_match(orders: LakeTable) -> None:
    result = orders.overwrite([order(7, "NO")], "country = 'NO'")
    assert (result.inserted, result.deleted, ids(orders)) == (1, 2, [2, 3, 5, 7])
    result = orders.overwrite([order(8, "DK")])
    assert (result.inserted, result.deleted, ids(orders)) == (1, 4, [8])
    assert (orders.overwrite([]).deleted, ids(orders)) == (1, [])
    assert (orders.overwrite([order(9, "SE")]).inserted, ids(orders)) == (1, [9])


def test_overwrite_of_an_empty_table_appends(past: Past) -> None:
    assert past.table.overwrite([{"id": 1}]).inserted == 1
    assert ids(past.table) == [1]


def test_overwrite_with_a_bad_row_leaves_the_table_as_it_was(orders: LakeTable) -> None:
    with pytest.raises(RowRefused):
        orders.overwrite([order(7, "NO"), order("x", "NO")])  # type: ignore[arg-type]
    assert ids(orders) == [1, 2, 3, 4, 5]


def test_writes_on_a_branch_leave_main_alone(orders: LakeTable) -> None:
    orders.create_branch("dev")
    orders.delete("country = 'NO'", branch="dev")
    orders.overwrite([order(6, "DK")], "country = 'SE'", branch="dev")
    assert (ids(orders, "dev"), ids(orders)) == ([3, 6], [1, 2, 3, 4, 5])


def test_upsert_updates_and_inserts_in_one_snapshot(orders: LakeTable) -> None:
    before = snapshots(orders)
    result = orders.upsert([order(1, "NO", 99.0), order(6, "DK")], key="id")
    assert (result.updated, result.inserted, snapshots(orders)) == (1, 1, before + 1)
    amounts = {row["id"]: row["amount"] for row in orders.scan("id = 1 OR id = 6").to_arrow().to_pylist()}
    assert amounts == {1: 99.0, 6: 10.0}
    changes = [{"op": "d", **order(6, "DK")}, {"op": "u", **order(1, "NO", 1.0)}]
    result = orders.upsert(changes, key=["id"], op="op")
    assert (result.deleted, result.updated, ids(orders)) == (1, 1, [1, 2, 3, 4, 5])


@pytest.mark.parametrize(
    ("write", "error"),
    [
        (lambda table: table.delete("contry = 'NO'"), ScanError),
        (lambda table: table.delete("country = "), ScanError),
        (lambda table: table.overwrite([], "contry = 'NO'"), ScanError),
        (lambda table: table.upsert([order(1, "NO")], key="idd"), SinkError),
        (lambda table: table.upsert([order(1, "NO")], key=()), SinkError),
        (lambda table: table.append([order(1, "NO")], bad_rows="ignore"), SinkError),
        (lambda table: table.delete(None), ScanError),
        (lambda table: table.append([order(6, "NO")], branch="dve"), HistoryError),
        (lambda table: table.overwrite([order(6, "NO")], branch="dve"), HistoryError),
        (lambda table: table.upsert([order(6, "NO")], key="id", branch="dve"), HistoryError),
        (lambda table: table.delete("id = 1", branch="dve"), HistoryError),
        (lambda table: table.maintain("compactt"), UpkeepError),
    ],
)
def test_a_write_that_is_asked_wrongly_changes_nothing(orders: LakeTable, write: Any, error: type[Exception]) -> None:
    before = snapshots(orders)
    with pytest.raises(error):
        write(orders)
    assert snapshots(orders) == before


@pytest.mark.parametrize(
    "write",
    [
        lambda table: table.append([order(6, "NO")], branch="dve"),
        lambda table: table.overwrite([order(6, "NO")], branch="dve"),
        lambda table: table.upsert([order(6, "NO")], key="id", branch="dve"),
        lambda table: table.delete("id = 1", branch="dve"),
        lambda table: table.sink(name="s", branch="dve"),
        lambda table: table.sink(name="s", branch="dve", mode="upsert", key="id"),
        lambda table: table.sink(name="s", branch="dve", host="spark"),
        lambda table: table.sink(name="s", branch="dve", host="bytewax").build_part("s", "part-0", None),
        lambda table: append(table.lake.catalog, table.load().name(), [order(6, "NO")], branch="dve"),
    ],
)
def test_a_branch_that_does_not_exist_is_not_made_by_a_write(orders: LakeTable, write: Any) -> None:
    orders.create_branch("dev")
    before = orders.load().metadata
    with raises(HistoryError, table=orders.name, ref="dve", problem="missing") as refused:
        write(orders)
    assert "dev, main" in refused.value.message
    assert f"frazil branch create {orders.name} dve" in (refused.value.hint or "")
    assert orders.load().metadata == before


def test_a_branch_that_is_dropped_during_a_write_is_not_made_again(orders: LakeTable) -> None:
    orders.create_branch("dev")

    def drop() -> Iterator[dict[str, Any]]:
        yield order(6, "NO")
        orders.drop_branch("dev")

    with raises(HistoryError, ref="dev", problem="missing"):
        orders.append(drop(), branch="dev")
    assert [branch.name for branch in orders.branches()] == ["main"]


def test_the_first_write_of_a_table_may_make_its_branch(past: Past) -> None:
    past.table.append([{"id": 1}], branch="dev")
    assert ([branch.name for branch in past.table.branches()], ids(past.table, "dev")) == (["dev"], [1])


@pytest.mark.parametrize(
    "write",
    [
        lambda table: table.append([order(6, "NO")], branch="v1"),
        lambda table: table.overwrite([order(6, "NO")], branch="v1"),
        lambda table: table.upsert([order(6, "NO")], key="id", branch="v1"),
        lambda table: table.delete("id = 1", branch="v1"),
        lambda table: table.rollback(table.history()[-1].snapshot_id, ref="v1"),
        lambda table: table.sink(name="stream", branch="v1"),
    ],
)
def test_a_tag_is_never_written_to(orders: LakeTable, write: Any) -> None:
    orders.create_tag("v1")
    before = orders.load().metadata
    with pytest.raises(HistoryError) as refused:
        write(orders)
    assert refused.value.ref == "v1"
    assert orders.load().metadata == before


def test_hints_name_the_options_of_the_call(past: Past) -> None:
    with pytest.raises(RowRefused) as refused:
        past.table.append({"id": -1}, checks="id > 0")
    assert refused.value.hint is not None
    assert ("bad_rows='quarantine'" in refused.value.hint, "sink" in refused.value.hint) == (True, False)
    with pytest.raises(SchemaMismatch) as extra:
        past.table.append({"id": 1, "more": 1})
    assert extra.value.hint is not None
    assert ("extra_fields='ignore'" in extra.value.hint, "sink" in extra.value.hint) == (True, False)


def test_the_audit_says_that_rows_of_append_came_outside_the_sinks(past: Past) -> None:
    past.table.append({"id": 1})
    (note,) = past.table.audit().notes
    assert note.endswith(": 1 row added outside the sinks")


# --- upkeep ----------------------------------------------------------------------------------------------------------


def test_maintain_previews_by_default(past: Past) -> None:
    for number in range(6):
        past.table.append([{"id": number}])
    before = past.live.metadata
    plans = past.table.maintain()
    assert [plan.step for plan in plans] == ["compact", "deletes", "manifests", "indexes", "expire", "orphans"]
    assert plans[0].files > 0
    assert past.live.metadata == before
    (report,) = past.table.maintain("compact", dry_run=False)
    assert (report.files, past.table.history()[0].operation) == (plans[0].files, "replace")
    assert ids(past.table) == list(range(6))


def test_arrow_streams_are_written_in_one_commit(past: Past) -> None:
    stream = pa.RecordBatchReader.from_batches(rows().schema, (rows(n).to_batches()[0] for n in range(50)))
    assert past.table.append(stream).inserted == 50
    assert (ids(past.table), snapshots(past.table)) == (list(range(50)), 1)


def test_rows_with_maps_are_deleted_replaced_and_copied(catalog: FrazilCatalog, past: Past) -> None:
    """A cast of filtered maps ended the process."""
    columns = [column("id", "long"), column("labels", "map<string, string>")]
    for name in ("labels", "copy"):
        catalog.create_table(f"{past.name}_{name}", Table("shop.labels", *columns).schema())
    labels, copy = (Lake(catalog=catalog).table(f"{past.name}_{name}") for name in ("labels", "copy"))
    labels.append([{"id": number, "labels": {"n": str(number)}} for number in range(5)])
    labels.delete("id = 2")
    labels.overwrite([{"id": 3, "labels": {"n": "three"}}], filter="id = 3")
    rows = labels.scan("id > 0").to_arrow()
    copy.append(rows.filter(pc.less(rows["id"], 4)))
    copied = sorted(copy.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [dict(row["labels"]) for row in copied] == [{"n": "1"}, {"n": "three"}]
