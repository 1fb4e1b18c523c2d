"""Upserts that mark old rows as deleted: next to other writers and upkeep no row comes back, none is lost, and the
delete files are as the specification wants them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.update import UpgradeFormatVersionUpdate
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestampNanoType

import frazil.sinks
from frazil import Lake
from frazil.client import FrazilCatalog
from frazil.client.changes import Change
from frazil.errors import SinkError
from frazil.protocol import PROPERTY_REBASE_APPENDS
from frazil.scan.reading.read import scan_rows
from frazil.sinks.sink import ArrowSink
from frazil.upkeep.steps import Keeper, now_ms
from frazil.write.commit.entries import read_entries
from frazil.write.commit.format3 import OFFSET, REFERENCED
from frazil.write.commit.manifests import read_list
from frazil.write.commit.publish import RetryPolicy
from frazil.write.commit.totals import TOTALS, count_totals
from frazil.write.files.partitioning import partition_spec
from tests.contract.upkeep_lake import during
from tests.kit.changes import CHANGES, MERGE_ON_READ, SCHEMA, WAYS, Oracle, Rows, change, example_count, gone
from tests.kit.delete_files import delete_equal, delete_positions
from tests.kit.raising import raises

_names = count()
MARKS = {name: properties for name, properties in WAYS.items() if name != "copy-on-write"}
EAGER = {"upkeep.compact.min-input-files": "2"}
VECTORS = "deletion vectors"


def new_table(catalog: FrazilCatalog, way: str, *fields: str, schema: Schema = SCHEMA) -> str:
    name = f"lake.m{next(_names)}"
    spec = partition_spec(schema, fields) if fields else PartitionSpec()
    catalog.create_table(name, schema, partition_spec=spec, properties={**EAGER, **WAYS[way]})
    return name


@pytest.fixture(params=MARKS)
def table(request: pytest.FixtureRequest, catalog: FrazilCatalog) -> str:
    return new_table(catalog, request.param)


def open_sink(catalog: FrazilCatalog, table: str, **options: Any) -> ArrowSink:
    sink: dict[str, Any] = {"name": "changes", "key": ["id"], "sequence": "version", "op": "op", **options}
    return frazil.sinks.open(table, catalog=catalog, mode="upsert", **sink)


def apply(catalog: FrazilCatalog, table: str, *changes: dict[str, Any], **options: Any) -> None:
    with open_sink(catalog, table, **options) as sink:
        sink.write(list(changes))


def rows_of(catalog: FrazilCatalog, table: str) -> Rows:
    return sorted(scan_rows(catalog.load_table(table)).to_arrow().to_pylist(), key=lambda row: row["id"])


def values(catalog: FrazilCatalog, table: str) -> dict[int, str]:
    rows = rows_of(catalog, table)
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["value"] for row in rows}


def entries_of(catalog: FrazilCatalog, table: str, content: ManifestContent) -> list[ManifestEntry]:
    live = catalog.load_table(table)
    head = live.current_snapshot()
    manifests = [manifest for manifest in read_list(live, head) if manifest.content == content] if head else []
    return [entry for manifest in manifests for entry in read_entries(live, manifest)]


def deletes_of(catalog: FrazilCatalog, table: str) -> list[DataFile]:
    return [entry.data_file for entry in entries_of(catalog, table, ManifestContent.DELETES)]


def data_of(catalog: FrazilCatalog, table: str) -> set[str]:
    return {entry.data_file.file_path for entry in entries_of(catalog, table, ManifestContent.DATA)}


def named_by(catalog: FrazilCatalog, table: str, files: list[DataFile]) -> list[str]:
    """The data files that deletes name: one for each vector, each that a position delete file names."""
    io, named = catalog.load_table(table).io, []
    for file in files:
        if len(file) > OFFSET and file[OFFSET] is not None:
            named.append(file[REFERENCED])
        else:
            with io.new_input(file.file_path).open() as stream:
                named += pq.read_table(stream)["file_path"].unique().to_pylist()
    return named


def check_summary(catalog: FrazilCatalog, table: str) -> None:
    """The totals are those of the files."""
    live = catalog.load_table(table)
    head = live.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert {name: head.summary.additional_properties.get(name) for name in TOTALS} == count_totals(live.io, head)


def once(action: Callable[[], object], at: int = 2) -> RetryPolicy:
    """Does something before the commit of the changes: the first commit of a sink is its take-over."""
    seen = Counter[str]()

    def on_step(step: str) -> None:
        seen[step] += 1
        if step == "before commit" and seen[step] == at:
            action()

    return RetryPolicy(sleep=lambda _: None, on_step=on_step)


def maintain(catalog: FrazilCatalog, table: str, *steps: str, retry: RetryPolicy | None = None) -> None:
    days = 10 * 24 * 3_600_000
    keeper = Keeper(catalog, tuple(table.split(".")), retry=retry or RetryPolicy(), clock_ms=lambda: now_ms() + days)
    for step in steps:
        keeper.perform(keeper.plan(step))


# --- next to other writers and upkeep --------------------------------------------------------------------------------


def fill(catalog: FrazilCatalog, table: str) -> dict[int, str]:
    """Three files of ten rows, one of which has deletes of two commits."""
    for start in (0, 10, 20):
        apply(catalog, table, *(change(start + n, 1) for n in range(10)))
    apply(catalog, table, change(3, 2))
    apply(catalog, table, gone(4, 2))
    return {n: "v2" if n == 3 else "v1" for n in range(30) if n != 4}


@pytest.mark.parametrize("steps", [["compact"], ["compact", "deletes", "manifests"], ["deletes", "manifests"]])
def test_upkeep_between_the_look_and_the_commit_brings_no_row_back(
    catalog: FrazilCatalog, table: str, steps: list[str]
) -> None:
    rows = fill(catalog, table)
    retry = once(lambda: maintain(catalog, table, *steps))
    apply(catalog, table, change(3, 3), change(15, 2), gone(16, 2), change(99, 1), change(20, 0), retry=retry)
    rows |= {3: "v3", 15: "v2", 99: "v1"}
    del rows[16]
    assert values(catalog, table) == rows
    head = catalog.load_table(table).current_snapshot()
    assert head is not None
    entries = entries_of(catalog, table, ManifestContent.DELETES)
    fresh = [entry.data_file for entry in entries if entry.snapshot_id == head.snapshot_id]
    assert fresh
    assert set(named_by(catalog, table, fresh)) <= data_of(catalog, table)  # nothing that upkeep has removed


@pytest.mark.parametrize("step", ["files written", "before commit"])
@pytest.mark.parametrize(
    ("way", "upkeep"), [("position deletes", "compact"), ("position deletes", "deletes"), (VECTORS, "compact")]
)
def test_an_upsert_between_what_upkeep_reads_and_its_commit_is_kept(
    catalog: FrazilCatalog, way: str, upkeep: str, step: str
) -> None:
    table, calls = new_table(catalog, way), []
    rows = fill(catalog, table)

    def meanwhile() -> None:
        # Each file keeps rows: one that is gone would be reason enough to leave its group out.
        apply(catalog, table, change(5, 2), change(15, 2), gone(16, 2))
        calls.append(1)

    maintain(catalog, table, upkeep, retry=during(meanwhile, step))
    assert calls
    rows |= {5: "v2", 15: "v2"}
    del rows[16]
    assert values(catalog, table) == rows
    apply(catalog, table, change(15, 3))
    assert values(catalog, table) == rows | {15: "v3"}


def test_rows_that_a_faster_upsert_has_marked_are_found_again(catalog: FrazilCatalog, table: str) -> None:
    rows = fill(catalog, table)
    apply(catalog, table, change(25, 9), change(26, 9))

    def rival() -> None:
        changes = [change(3, 9, "rival"), change(15, 2, "rival"), gone(16, 5), change(99, 1), gone(25, 10)]
        apply(catalog, table, *changes, name="rival")

    changes = [change(3, 3), change(15, 2), change(16, 4), change(99, 1, "last"), change(25, 5, "back")]
    apply(catalog, table, *changes, retry=once(rival))
    # Equal versions go by arrival, and a delete leaves no trace: what the rival deleted is new again, whatever it was.
    rows |= {3: "rival", 15: "v2", 16: "v4", 99: "last", 25: "back", 26: "v9"}
    assert values(catalog, table) == rows
    head = catalog.load_table(table).current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert json.loads(head.summary["frazil.upsert"] or "") == {"inserted": 2, "updated": 2, "deleted": 0, "late": 1}
    check_summary(catalog, table)


def test_what_a_conflict_did_not_touch_is_not_written_again(catalog: FrazilCatalog, table: str) -> None:
    fill(catalog, table)
    retry = once(lambda: apply(catalog, table, change(50, 1), name="rival"))
    apply(catalog, table, change(15, 2), retry=retry)
    folder = Path(catalog.load_table(table).location().removeprefix("file://"))
    assert len(list(folder.rglob("*-deletes.*"))) == 3  # two of `fill`, and one of both attempts


class Racing:
    """A catalog where another writer commits just before the first commit."""

    def __init__(self, catalog: FrazilCatalog, rival: Callable[[], object]) -> None:
        self._catalog, self._rivals = catalog, [rival]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def commit_changes(self, changes: Sequence[Change]) -> None:
        if self._rivals:
            self._rivals.pop()()
        self._catalog.commit_changes(changes)


def test_new_keys_are_not_rebased_onto_those_of_another_writer(catalog: FrazilCatalog, table: str) -> None:
    apply(catalog, table, change(1, 1))
    with catalog.load_table(table).transaction() as transaction:
        transaction.set_properties({PROPERTY_REBASE_APPENDS: "true"})
    rival = Racing(catalog, lambda: apply(catalog, table, change(7, 1, "rival")))
    row = {name: value for name, value in change(7, 2).items() if name != "op"}
    result = frazil.sinks.upsert(rival, tuple(table.split(".")), [row], key="id")  # type: ignore[arg-type]
    assert ((result.inserted, result.updated), values(catalog, table)) == ((0, 1), {1: "v1", 7: "v2"})


ACTIONS = st.one_of(
    st.tuples(st.just("upsert"), st.lists(CHANGES, min_size=1, max_size=8)),
    st.tuples(st.sampled_from(["compact", "deletes", "manifests", "expire"]), st.just([])),
)


@pytest.mark.parametrize("way", MARKS)
@settings(max_examples=example_count(short=5, full=150))
@given(
    turns=st.lists(
        st.tuples(st.lists(CHANGES, min_size=1, max_size=8), st.booleans(), st.lists(ACTIONS, max_size=2)),
        min_size=2,
        max_size=5,
    )
)
def test_upserts_and_upkeep_in_any_order_leave_the_rows_of_a_dictionary(
    way: str, catalog: FrazilCatalog, turns: list[tuple[Rows, bool, list[tuple[str, Rows]]]]
) -> None:
    table, oracle = new_table(catalog, way, "bucket(2, id)"), Oracle()

    def others(actions: list[tuple[str, Rows]]) -> None:
        for step, changes in actions:
            if step == "upsert":
                apply(catalog, table, *changes, name="rival")
                oracle.apply(changes)
            else:
                maintain(catalog, table, step)

    for changes, meanwhile, actions in turns:
        # The others come before these changes, or between their look at the table and their commit.
        retry = once(lambda actions=actions: others(actions)) if meanwhile else RetryPolicy()
        if not meanwhile:
            others(actions)
        apply(catalog, table, *changes, retry=retry)
        oracle.apply(changes)
    assert rows_of(catalog, table) == oracle.all()
    maintain(catalog, table, "compact", "deletes", "manifests", "expire", "orphans")
    assert rows_of(catalog, table) == oracle.all()


# --- what is written -------------------------------------------------------------------------------------------------


def test_old_rows_are_marked_and_no_file_is_written_anew(catalog: FrazilCatalog, table: str) -> None:
    fill(catalog, table)
    before = data_of(catalog, table)
    apply(catalog, table, change(15, 2), change(30, 1))
    assert before < data_of(catalog, table)
    assert len(data_of(catalog, table) - before) == 1
    summary = catalog.load_table(table).current_snapshot().summary  # type: ignore[union-attr]
    assert summary is not None
    assert (summary.operation.value, summary["added-position-deletes"], summary["added-delete-files"]) == (
        "overwrite",
        "1",
        "1",
    )
    check_summary(catalog, table)


def test_position_deletes_are_one_sorted_file_for_each_partition(catalog: FrazilCatalog) -> None:
    table = new_table(catalog, "position deletes", "region")
    for start in (0, 10):
        apply(catalog, table, *(change(start + n, 1, region="north" if n % 2 else "south") for n in range(10)))
    apply(catalog, table, *(change(n, 2, region="north") for n in (13, 3, 1, 2, 12)))
    files = deletes_of(catalog, table)
    assert sorted((file.partition[0], file.record_count) for file in files) == [("north", 3), ("south", 2)]
    for file in files:
        with catalog.load_table(table).io.new_input(file.file_path).open() as stream:
            rows = pq.read_table(stream)
        assert rows == rows.sort_by([("file_path", "ascending"), ("pos", "ascending")])
        bounds = [rows["file_path"][at].as_py().encode() for at in (0, -1)]
        assert [file.lower_bounds[2147483546], file.upper_bounds[2147483546]] == bounds
        assert file.file_path.split("/")[-2] == f"region={file.partition[0]}"


@pytest.mark.parametrize("way", MARKS)
def test_every_reader_finds_the_deletes_of_a_partition_of_nan(catalog: FrazilCatalog, way: str) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True), NestedField(2, "value", DoubleType(), required=False)
    )
    table = new_table(catalog, way, "value", schema=schema)
    rows = [[{"id": number, "value": math.nan} for number in ids] for ids in ((1, 2, 3), (4, 5, 6), (1, 4), (2, 5))]
    for some in rows:
        apply(catalog, table, *some, sequence=None, op=None)
    read = [scan_rows(catalog.load_table(table)).to_arrow(), catalog.load_table(table).scan().to_arrow()]
    assert [sorted(result["id"].to_pylist()) for result in read] == [[1, 2, 3, 4, 5, 6]] * 2
    maintain(catalog, table, "deletes")
    assert sorted(catalog.load_table(table).scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5, 6]


def test_deletes_hold_in_partitions_that_another_writer_has_cut_to_32_bits(catalog: FrazilCatalog) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "value", DoubleType()))
    table = new_table(catalog, "position deletes", "value", schema=schema)
    with catalog.load_table(table).transaction() as transaction:
        transaction.set_properties({"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"})
    for ids in ((1, 2, 3), (4, 5, 6), (7, 8, 9)):  # PyIceberg merges the manifests
        catalog.load_table(table).append(pa.table({"id": ids, "value": [0.1] * 3}))
    for some in ((1, 4), (2, 5), (7, 8, 9)):  # the last ones take a file out of the manifest, which is written again
        apply(catalog, table, *({"id": number, "value": 0.1} for number in some), sequence=None, op=None)
    # While there are position deletes, no partition gets another value: the deletes of other engines have the old one.
    data = entries_of(catalog, table, ManifestContent.DATA)
    assert {entry.data_file.partition[0] for entry in data} == {0.1, 0.10000000149011612}
    maintain(catalog, table, "deletes", "manifests")
    read = [scan_rows(catalog.load_table(table)).to_arrow(), catalog.load_table(table).scan().to_arrow()]
    assert [sorted(result["id"].to_pylist()) for result in read] == [list(range(1, 10))] * 2


def test_a_data_file_has_one_vector_with_all_its_deleted_rows(catalog: FrazilCatalog) -> None:
    table = new_table(catalog, VECTORS)
    apply(catalog, table, *(change(n, 1) for n in range(10)))
    for n in (2, 7, 4):
        apply(catalog, table, change(n, 2))
    assert max(Counter(named_by(catalog, table, deletes_of(catalog, table))).values()) == 1
    (vector,) = deletes_of(catalog, table)
    assert vector.record_count == 3
    summary = catalog.load_table(table).current_snapshot().summary  # type: ignore[union-attr]
    assert summary is not None
    names = ("added-dvs", "removed-dvs", "added-position-deletes", "removed-position-deletes", "total-position-deletes")
    assert [summary[name] for name in names] == ["1", "1", "3", "2", "3"]
    check_summary(catalog, table)


def test_a_file_of_which_no_row_is_left_is_dropped(catalog: FrazilCatalog, table: str) -> None:
    apply(catalog, table, *(change(n, 1) for n in range(10)))
    for version in (2, 3, 4):
        apply(catalog, table, change(1, version), change(2, version))
    assert len(data_of(catalog, table)) == 2  # the first, and that of the last changes
    apply(catalog, table, *(gone(n, 9) for n in range(10)))
    assert (data_of(catalog, table), values(catalog, table)) == (set(), {})
    check_summary(catalog, table)


def test_position_deletes_of_before_an_upgrade_are_part_of_the_vector(catalog: FrazilCatalog) -> None:
    table = new_table(catalog, "position deletes")
    apply(catalog, table, *(change(n, 1) for n in range(6)))
    apply(catalog, table, change(0, 2))
    catalog.commit_changes(
        [Change(catalog.load_table(table).name(), (), (UpgradeFormatVersionUpdate(format_version=3),))]
    )
    apply(catalog, table, change(1, 2))
    (vector,) = deletes_of(catalog, table)
    assert (vector.record_count, vector.file_path.endswith(".puffin")) == (2, True)
    assert values(catalog, table) == {0: "v2", 1: "v2"} | dict.fromkeys(range(2, 6), "v1")


def test_an_upgrade_between_two_attempts_makes_vectors_of_them(catalog: FrazilCatalog) -> None:
    table = new_table(catalog, "position deletes")
    apply(catalog, table, *(change(n, 1) for n in range(6)))

    def upgrade() -> None:
        apply(catalog, table, change(9, 1), name="rival")
        update = UpgradeFormatVersionUpdate(format_version=3)
        catalog.commit_changes([Change(catalog.load_table(table).name(), (), (update,))])

    apply(catalog, table, change(1, 2), retry=once(upgrade))
    assert [file.file_path.rpartition(".")[2] for file in deletes_of(catalog, table)] == ["puffin"]
    assert values(catalog, table) == {**dict.fromkeys(range(6), "v1"), 1: "v2", 9: "v1"}


def test_keys_that_differ_by_a_nanosecond_are_different(catalog: FrazilCatalog) -> None:
    schema = Schema(NestedField(1, "at", TimestampNanoType(), required=True), NestedField(2, "value", StringType()))
    table = new_table(catalog, VECTORS, schema=schema)
    for value in ("old", "new"):
        moments = pa.array([1_700_000_000_000_000_001, 1_700_000_000_000_000_002], pa.timestamp("ns"))
        rows = pa.table([moments[: 1 if value == "new" else 2]], ["at"])
        with open_sink(catalog, table, key=["at"], sequence=None, op=None) as sink:
            sink.write(rows.append_column("value", pa.array([value] * len(rows))))
    assert sorted(scan_rows(catalog.load_table(table)).to_arrow()["value"].to_pylist()) == ["new", "old"]


def test_nan_is_the_highest_sequence_in_a_batch_and_in_the_table(catalog: FrazilCatalog, table: str) -> None:
    with catalog.load_table(table).update_schema() as update:
        update.add_column("order", DoubleType())
    for order, value in ((5.0, "first"), (math.nan, "nan"), (9.0, "late"), (math.nan, "again")):
        row = {"id": 1, "region": "north", "value": value, "order": order}
        apply(catalog, table, row, {**row, "order": 0.0, "value": "lower"}, sequence="order", op=None)
    assert values(catalog, table) == {1: "again"}


def test_rows_that_other_engines_have_deleted_are_not_updated(catalog: FrazilCatalog, table: str) -> None:
    apply(catalog, table, *(change(n, 5) for n in range(6)))
    delete_positions(catalog, table, [1, 4])
    delete_equal(catalog, table, "id", [2])
    result = (
        Lake(catalog=catalog)
        .table(table)
        .upsert(
            [{name: value for name, value in change(n, 1).items() if name != "op"} for n in (0, 1, 2)],
            key="id",
            sequence="version",
        )
    )
    assert (result.inserted, result.updated, result.unchanged) == (2, 0, 1)
    assert values(catalog, table) == {0: "v5", 1: "v1", 2: "v1", 3: "v5", 5: "v5"}


def test_files_of_an_older_spec_get_deletes_of_their_own_partition(catalog: FrazilCatalog, table: str) -> None:
    apply(catalog, table, change(1, 1), change(2, 1, region="south"), change(3, 1))
    with catalog.load_table(table).update_spec() as spec:
        spec.add_identity("region")
    apply(catalog, table, *(change(n, 1) for n in (4, 5)))
    apply(catalog, table, change(1, 2, region="east"), change(4, 2), change(2, 2))
    assert sorted((file.spec_id, len(file.partition)) for file in deletes_of(catalog, table)) == [(0, 0), (1, 1)]
    assert values(catalog, table) == {1: "v2", 2: "v2", 3: "v1", 4: "v2", 5: "v1"}
    assert values(catalog, table) == {
        row["id"]: row["value"] for row in catalog.load_table(table).scan().to_arrow().to_pylist()
    }


def test_after_many_upserts_upkeep_leaves_few_files_and_the_same_rows(catalog: FrazilCatalog, table: str) -> None:
    oracle = Oracle()
    for turn in range(12):
        batch = [change((turn * 7 + n) % 40, turn, f"{turn}/{n}") for n in range(15)] + [gone(turn, turn)]
        apply(catalog, table, *batch)
        oracle.apply(batch)
    assert len(data_of(catalog, table)) == 5
    maintain(catalog, table, "compact", "deletes", "manifests", "expire", "orphans")
    assert (len(data_of(catalog, table)), deletes_of(catalog, table)) == (1, [])
    assert rows_of(catalog, table) == oracle.all()


def test_manifests_of_deletes_do_not_pile_up(catalog: FrazilCatalog, table: str) -> None:
    with catalog.load_table(table).transaction() as transaction:
        transaction.set_properties({"commit.manifest.min-count-to-merge": "3"})
    for start in range(0, 80, 10):
        apply(catalog, table, *(change(start + n, 1) for n in range(10)))
    for start in range(0, 80, 10):  # each marks a row of another file
        apply(catalog, table, change(start, 2))
    live = catalog.load_table(table)
    head = live.current_snapshot()
    assert head is not None
    manifests = [manifest for manifest in read_list(live, head) if manifest.content == ManifestContent.DELETES]
    assert (len(manifests) <= 3, len(deletes_of(catalog, table))) == (True, 8)
    assert values(catalog, table) == {n: "v1" if n % 10 else "v2" for n in range(80)}
    check_summary(catalog, table)


def test_the_log_counts_the_rows_that_a_vector_adds(catalog: FrazilCatalog, table: str) -> None:
    apply(catalog, table, *(change(n, 1) for n in range(10)))
    apply(catalog, table, change(1, 2), change(2, 2))
    apply(catalog, table, change(3, 2))
    newest = Lake(catalog=catalog).table(table).history()[0]
    assert (newest.added_rows, newest.removed_rows) == (1, 1)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "properties",
    [{"write.merge.mode": "merge_on_read"}, {"format-version": "3"}, {"write.merge.mode": "", "format-version": "3"}],
)
def test_a_mode_that_cannot_be_written_is_refused_before_anybody_is_fenced(
    catalog: FrazilCatalog, properties: dict[str, str]
) -> None:
    table = f"lake.m{next(_names)}"
    catalog.create_table(table, SCHEMA, properties=properties)
    with raises(SinkError, option="write.merge.mode"):
        open_sink(catalog, table)
    assert catalog.load_table(table).snapshots() == []


def test_a_table_of_format_1_is_rewritten(catalog: FrazilCatalog) -> None:
    table = f"lake.m{next(_names)}"
    catalog.create_table(table, SCHEMA, properties={**MERGE_ON_READ, "format-version": "1"})
    apply(catalog, table, change(1, 1), change(2, 1))
    apply(catalog, table, change(1, 2))
    assert (values(catalog, table), deletes_of(catalog, table)) == ({1: "v2", 2: "v1"}, [])


def test_a_mode_that_is_changed_while_changes_wait_holds_for_them(catalog: FrazilCatalog) -> None:
    table = new_table(catalog, "copy-on-write")
    apply(catalog, table, *(change(n, 1) for n in range(5)))
    sink = open_sink(catalog, table)
    sink.write([change(1, 2)])
    with catalog.load_table(table).transaction() as transaction:
        transaction.set_properties(MERGE_ON_READ)
    sink.commit()
    assert (len(deletes_of(catalog, table)), values(catalog, table)[1]) == (1, "v2")
