"""Rows leave the quarantine: replayed when they keep the contract, edited, dropped. The same for every kind
of table.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DecimalType, ListType, LongType, NestedField, StringType, TimestamptzType

import frazil.sinks
from frazil.catalog.embedded import EmbeddedCatalog
from frazil.client import FrazilCatalog
from frazil.errors import ArgumentError, CommitUnknown, SinkError
from frazil.quarantine.held import Choice, Holding, edited_rows
from frazil.quarantine.judging import DropResult, ReplayResult
from frazil.quarantine.replay import IcebergQuarantine, Rules
from frazil.quarantine.replay_delta import DeltaQuarantine
from frazil.sinks import ArrowSink
from frazil.sinks.delta.target import create_delta_table
from frazil.write.commit.publish import RetryPolicy
from frazil.write.commit.quarantine_table import quarantine_of
from frazil.write.files.partitioning import partition_spec
from tests.kit.lake import lake_catalog
from tests.kit.raising import raises

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "amount", DecimalType(12, 2)),
    NestedField(3, "at", TimestamptzType()),
    NestedField(4, "data", BinaryType()),
    NestedField(5, "tags", ListType(6, StringType(), element_required=False)),
    NestedField(7, "note", StringType()),
)
AT = dt.datetime(2024, 5, 1, 12, 30, 0, 250_000, tzinfo=dt.UTC)
POSITIVE, SMALL = "amount >= 0", "amount < 1000"
NO_CHECKS = Rules(checks=())


@dataclass
class QuarantinedTable:
    """A table of one kind and its quarantine."""

    open_sink: Callable[..., ArrowSink]
    quarantine: Callable[..., IcebergQuarantine | DeltaQuarantine]
    read: Callable[[], pa.Table]
    read_quarantine: Callable[[], pa.Table]
    evolve: Callable[[], None]

    def fill(self, *rows: dict[str, Any], start: int = 0, part: int = 0, **options: Any) -> None:
        """Rows with their ids as offsets; the bad ones go to the quarantine."""
        options = {"bad_rows": "quarantine", "checks": [POSITIVE, SMALL], **options}
        with self.open_sink(part=part, **options) as sink:
            sink.write_with_offsets(list(rows), source="events", offsets=list(range(start, start + len(rows))))

    def ids(self) -> list[int]:
        return sorted(self.read()["id"].to_pylist())

    def held(self) -> list[int]:
        return sorted(json.loads(raw)["id"] for raw in self.read_quarantine()["raw"].to_pylist())


def row(number: int, **changed: Any) -> dict[str, Any]:
    return {
        "id": number,
        "amount": Decimal(number),
        "at": AT,
        "data": b"\x00\xff",
        "tags": ["a", None],
        "note": f"row {number}",
        **changed,
    }


def bad(number: int) -> dict[str, Any]:
    return row(number, amount=Decimal(-number))


@pytest.fixture
def database_catalog(server: EmbeddedCatalog) -> FrazilCatalog:
    """On every database of the contract tests."""
    client = FrazilCatalog("lake", **server.properties)
    client.create_namespace("lake")
    return client


@pytest.fixture(scope="module")
def embedded() -> Iterator[FrazilCatalog]:
    with lake_catalog() as result:
        yield result


def iceberg_lake(catalog: FrazilCatalog) -> QuarantinedTable:
    name = ("lake", f"t{uuid.uuid4().hex[:8]}")
    catalog.create_table(name, SCHEMA, partition_spec=partition_spec(SCHEMA, ["bucket(3, id)"]))

    def evolve() -> None:
        with catalog.load_table(name).update_schema(allow_incompatible_changes=True) as update:
            update.make_column_optional("id")

    return QuarantinedTable(
        lambda **options: frazil.sinks.open(name, name="s", catalog=catalog, **options),
        lambda retry=None: IcebergQuarantine(catalog, name, retry or RetryPolicy(longest_pause_seconds=0.05)),
        lambda: catalog.load_table(name).scan().to_arrow(),
        lambda: catalog.load_table(quarantine_of(name)).scan().to_arrow(),
        evolve,
    )


def delta_lake(folder: Path) -> QuarantinedTable:
    uri = str(folder / "t")
    create_delta_table(uri, SCHEMA, partition_by=["bucket(3, id)"])
    return QuarantinedTable(
        lambda **options: frazil.sinks.open(uri, name="s", **options),
        lambda retry=None: DeltaQuarantine(uri, retry=retry or RetryPolicy(longest_pause_seconds=0.05)),
        lambda: pa.table(DeltaTable(uri).to_pyarrow_table()),
        lambda: pa.table(DeltaTable(uri + "__quarantine").to_pyarrow_table()),
        lambda: pytest.fail("Delta does not loosen a column"),
    )


@pytest.fixture(params=["iceberg", "delta"])
def lake(request: pytest.FixtureRequest, embedded: FrazilCatalog, tmp_path: Path) -> QuarantinedTable:
    return iceberg_lake(embedded) if request.param == "iceberg" else delta_lake(tmp_path)


@pytest.fixture
def iceberg(embedded: FrazilCatalog) -> QuarantinedTable:
    return iceberg_lake(embedded)


def test_what_is_held_is_counted_by_reason(lake: QuarantinedTable) -> None:
    lake.fill(row(0), bad(1), bad(2), row(3, amount=Decimal(5000)), row(4, amount="x"), row(5, amount=1.5))
    held = lake.quarantine().holding()
    assert held is not None
    assert (held.rows, dict(held.reasons)) == (
        5,
        {f"check '{POSITIVE}' failed": 2, f"check '{SMALL}' failed": 1, "field 'amount': expected decimal(12, 2)": 2},
    )
    assert held.oldest is not None
    assert held.oldest == held.newest


def test_nothing_was_ever_quarantined(lake: QuarantinedTable) -> None:
    lake.fill(row(0))
    quarantine = lake.quarantine()
    assert (quarantine.holding(), quarantine.rows(), quarantine.replay(), quarantine.drop(Choice())) == (
        None,
        [],
        ReplayResult(),
        DropResult(),
    )


def test_rows_that_pass_now_come_in_as_they_were_and_the_others_stay(lake: QuarantinedTable) -> None:
    lake.fill(row(0), bad(1), row(2, amount=Decimal(5000)))
    lake.fill(bad(3), start=3)
    result = lake.quarantine().replay(Rules(checks=(SMALL,)))
    assert (result.replayed, dict(result.failed)) == (2, {f"check '{SMALL}' failed": 1})
    rows = sorted(lake.read().select([field.name for field in SCHEMA.fields]).to_pylist(), key=lambda item: item["id"])
    assert rows == [row(0), bad(1), bad(3)]
    assert lake.held() == [2]


def test_a_second_replay_finds_nothing_to_do(lake: QuarantinedTable) -> None:
    lake.fill(bad(1), bad(2))
    assert lake.quarantine().replay(NO_CHECKS).replayed == 2
    assert lake.quarantine().replay(NO_CHECKS) == ReplayResult()
    assert (lake.ids(), lake.held()) == ([1, 2], [])


def test_without_known_checks_those_that_refused_a_row_still_hold(lake: QuarantinedTable) -> None:
    lake.fill(bad(1), row(2, amount=Decimal(5000)))
    result = lake.quarantine().replay()
    assert (result.replayed, sum(result.failed.values()), lake.ids()) == (0, 2, [])


def test_a_dry_run_changes_nothing(lake: QuarantinedTable) -> None:
    lake.fill(bad(1), row(2, note=7))
    result = lake.quarantine().replay(NO_CHECKS, dry_run=True)
    assert result == ReplayResult(1, {"field 'note': expected string": 1}, dry_run=True)
    assert (lake.ids(), lake.held()) == ([], [1, 2])


def test_rows_are_chosen_by_reason_and_part(lake: QuarantinedTable) -> None:
    lake.fill(bad(1), row(2, amount=Decimal(5000)))
    lake.fill(bad(3), part=1)
    lake.quarantine().replay(NO_CHECKS, choice=Choice(reason=POSITIVE, part="s/part-1"))
    assert (lake.ids(), lake.held()) == ([3], [1, 2])
    assert [json.loads(rejected.raw)["id"] for rejected in lake.quarantine().rows(Choice(reason="< 1000"))] == [2]


def test_rows_are_chosen_by_their_ids(lake: QuarantinedTable) -> None:
    lake.fill(bad(1), bad(2), bad(3))
    chosen = lake.quarantine().rows()[1]
    assert lake.quarantine().replay(NO_CHECKS, choice=Choice(ids=frozenset({chosen.id}))).replayed == 1
    assert chosen.id not in [rejected.id for rejected in lake.quarantine().rows()]
    assert len(lake.quarantine().rows()) == 2


@pytest.mark.parametrize("wrong", ["x", 3, frozenset({"a1"})])
def test_a_choice_or_rules_of_another_type_are_refused(lake: QuarantinedTable, wrong: Any) -> None:
    quarantine = lake.quarantine()
    for call in (quarantine.rows, quarantine.drop, lambda value: quarantine.replay(choice=value), quarantine.replay):
        with pytest.raises(ArgumentError):
            call(wrong)
    with raises(ArgumentError, option="choice"):
        quarantine.drop(None)  # type: ignore[arg-type]


def test_edited_rows_take_the_place_of_what_was_written(lake: QuarantinedTable) -> None:
    lake.fill(bad(1), bad(2), row(3, amount="7,50"))
    shown = [item.to_json() for item in lake.quarantine().rows()]
    shown[0]["raw"]["amount"] = "1.00"
    shown[2]["raw"]["amount"] = "7.50"
    edits = edited_rows(json.dumps([shown[0], shown[2], {"id": "gone", "raw": {}}]), name="f")
    result = lake.quarantine().replay(edits=edits)
    assert (result.replayed, list(result.missing)) == (2, ["gone"])
    amounts = dict(zip(lake.read()["id"].to_pylist(), lake.read()["amount"].to_pylist(), strict=True))
    assert (amounts, lake.held()) == ({1: Decimal("1.00"), 3: Decimal("7.50")}, [2])
    assert lake.quarantine().replay(edits=edits).missing == tuple(sorted(edits))


def test_an_edited_row_that_is_still_bad_stays_as_it_was(lake: QuarantinedTable) -> None:
    lake.fill(bad(1))
    (shown,) = lake.quarantine().rows()
    result = lake.quarantine().replay(edits={shown.id: '{"id": 1, "amout": "2.00"}'})
    assert dict(result.failed) == {"field 'amout': the table has no such field": 1}
    assert lake.quarantine().rows() == [shown]


def test_fields_that_the_sink_ignored_are_ignored_when_asked_to(lake: QuarantinedTable) -> None:
    lake.fill({**bad(1), "colour": "red"}, extra_fields="ignore")
    assert lake.quarantine().replay(NO_CHECKS).failed == {"field 'colour': the table has no such field": 1}
    assert lake.quarantine().replay(Rules((), "ignore")).replayed == 1


def test_rows_that_are_the_same_in_everything_are_distinguished(lake: QuarantinedTable) -> None:
    with lake.open_sink(bad_rows="quarantine", checks=[POSITIVE]) as sink:
        sink.write_with_offsets([bad(1), bad(1), bad(1)], source="events", offsets=[0, 0, 0])
    first, second, third = lake.quarantine().rows()
    assert (second.id, third.id) == (f"{first.id}.2", f"{first.id}.3")
    lake.quarantine().replay(edits={second.id: '{"id": 1, "amount": "1.00"}'})
    assert (lake.ids(), lake.held()) == ([1], [1, 1])


def test_dropped_rows_are_gone_and_the_others_stay(lake: QuarantinedTable) -> None:
    lake.fill(bad(1), row(2, amount=Decimal(5000)), bad(3))
    before = lake.quarantine().drop(Choice(reason=POSITIVE), dry_run=True)
    assert (before.dropped, dict(before.reasons), lake.held()) == (2, {f"check '{POSITIVE}' failed": 2}, [1, 2, 3])
    assert lake.quarantine().drop(Choice(reason=POSITIVE)).dropped == 2
    assert (lake.ids(), lake.held()) == ([], [2])
    lake.quarantine().drop(Choice())
    assert (lake.held(), lake.quarantine().holding()) == ([], Holding(lake.quarantine().name))


def test_a_sink_that_goes_on_after_a_replay_repeats_nothing(lake: QuarantinedTable) -> None:
    lake.fill(row(0), bad(1))
    lake.quarantine().replay(NO_CHECKS)
    lake.fill(row(0), bad(1), row(2), bad(3))
    assert (lake.ids(), lake.held()) == ([0, 1, 2], [3])


def test_rows_that_a_sink_sets_aside_in_the_meantime_stay(lake: QuarantinedTable) -> None:
    lake.fill(bad(1))
    disturbed: list[str] = []

    def disturb(step: str) -> None:
        if step == "before commit" and not disturbed:
            disturbed.append(step)
            lake.fill(bad(7), start=7)

    lake.quarantine(RetryPolicy(longest_pause_seconds=0.05, on_step=disturb)).replay(
        NO_CHECKS, choice=Choice(reason=POSITIVE)
    )
    assert sorted(lake.ids() + lake.held()) == [1, 7]
    lake.quarantine().replay(NO_CHECKS)
    assert (lake.ids(), lake.held()) == ([1, 7], [])


def test_replays_that_meet_bring_a_row_in_once(lake: QuarantinedTable) -> None:
    lake.fill(*[bad(number) for number in range(1, 30)])
    runs = [threading.Thread(target=lambda: _replay_quietly(lake)) for _ in range(3)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    lake.quarantine().replay(NO_CHECKS)
    assert (lake.ids(), lake.held()) == (list(range(1, 30)), [])


def _replay_quietly(lake: QuarantinedTable) -> None:
    with contextlib.suppress(SinkError):  # on Delta, who comes later takes over
        lake.quarantine().replay(NO_CHECKS)


@pytest.mark.parametrize("lost", ["before commit", "after commit"])
def test_a_request_or_a_reply_that_is_lost_is_found_out(lake: QuarantinedTable, lost: str) -> None:
    lake.fill(bad(1), row(2, note=7))
    losses = [lost, lost]

    def lose(step: str) -> None:
        if losses and step == losses[0]:
            losses.pop()
            raise (
                CommitUnknown("unknown outcome")
                if isinstance(lake.quarantine(), IcebergQuarantine)
                else OSError("unknown outcome")
            )

    result = lake.quarantine(RetryPolicy(longest_pause_seconds=0.05, on_step=lose)).replay(NO_CHECKS)
    assert (result.replayed, lake.ids(), lake.held()) == (1, [1], [2])


def test_rows_that_the_table_takes_since_it_was_changed_pass(iceberg: QuarantinedTable) -> None:
    iceberg.fill(row(0, id=None), row(1))
    assert iceberg.quarantine().replay().replayed == 0
    iceberg.evolve()
    assert iceberg.quarantine().replay().replayed == 1
    assert (iceberg.read()["id"].to_pylist().count(None), iceberg.read_quarantine().num_rows) == (1, 0)


def test_on_every_database_both_tables_change_in_one_commit(database_catalog: FrazilCatalog) -> None:
    lake = iceberg_lake(database_catalog)
    lake.fill(bad(1), row(2, note=7))
    assert lake.quarantine().replay(NO_CHECKS).replayed == 1
    assert (lake.ids(), lake.held()) == ([1], [2])


def test_files_of_a_replay_that_lost_a_race_are_deleted(iceberg: QuarantinedTable, embedded: FrazilCatalog) -> None:
    iceberg.fill(bad(1))
    name = iceberg.quarantine().identifier  # type: ignore[union-attr]
    disturbed: list[str] = []

    def disturb(step: str) -> None:
        if step == "before commit" and not disturbed:
            disturbed.append(step)
            iceberg.fill(bad(7), start=7)

    iceberg.quarantine(RetryPolicy(longest_pause_seconds=0.05, on_step=disturb)).replay(NO_CHECKS)
    table = embedded.load_table(name)
    files = list(Path(table.location().removeprefix("file://")).rglob("*.parquet"))
    assert len(files) == table.inspect.files().num_rows


def test_history_keeps_what_has_left(iceberg: QuarantinedTable, embedded: FrazilCatalog) -> None:
    iceberg.fill(bad(1), bad(2))
    iceberg.quarantine().replay(NO_CHECKS)
    name = iceberg.quarantine().identifier  # type: ignore[union-attr]
    table, result = embedded.load_table(name), embedded.load_table(quarantine_of(name))
    assert [snapshot.summary["frazil.replay"] for snapshot in table.snapshots()[-1:] if snapshot.summary] == [  # type: ignore[index]
        json.dumps({"rows": 2, "source": ".".join(quarantine_of(name))}, separators=(",", ":"))
    ]
    first, last = result.snapshots()
    assert (
        result.scan(snapshot_id=first.snapshot_id).to_arrow().num_rows,
        result.scan(snapshot_id=last.snapshot_id).to_arrow().num_rows,
    ) == (2, 0)
    assert last.summary is not None
    assert (last.summary.operation.value, last.summary["deleted-records"], last.summary["total-records"]) == (
        "overwrite",
        "2",
        "0",
    )
