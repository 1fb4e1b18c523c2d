"""What manifests tell a model without a query: that keys are new in a table, and which partitions were appended to."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from frazil import Lake, Table, column
from frazil.catalog import running_catalog
from frazil.client import FrazilCatalog
from frazil.pipelines import Stages
from frazil.pipelines.models.inputs import current_state, find_news
from frazil.pipelines.models.inserts import Inserts, has_plain_key, may_have_keys
from frazil.pipelines.models.reading import InputReader
from frazil.sinks import IcebergTarget
from frazil.write.commit import Append, Overtaken
from frazil.write.files import Buffer, TableLayout, WrittenFile

ORDERS = Table(
    "shop.orders",
    column("id", "long"),
    column("shop", "string"),
    column("day", "date"),
    column("share", "double"),
    partition_by=["day"],
)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrazilCatalog]:
    with running_catalog(tmp_path_factory.mktemp("lake")) as server:
        yield FrazilCatalog("lake", uri=server.uri)


@pytest.fixture
def lake(catalog: FrazilCatalog) -> Iterator[Lake]:
    lake = Lake(catalog=catalog)
    lake.apply(ORDERS)
    yield lake
    catalog.drop_table(ORDERS.name)


def rows(*pairs: tuple[int | None, str], day: int = 1) -> list[dict[str, Any]]:
    date = dt.date(2024, 1, day)
    return [{"id": number, "shop": shop, "day": date, "share": 0.5} for number, shop in pairs]


def files(lake: Lake, *pairs: tuple[int | None, str]) -> list[WrittenFile]:
    layout = TableLayout.of(lake.table(ORDERS.name).load())
    buffer = Buffer(layout)
    buffer.add(pa.Table.from_pylist(rows(*pairs), layout.arrow))
    return list(buffer.flush())


@pytest.mark.parametrize(
    ("key", "pairs", "expected"),
    [
        (["id"], [(4, "a"), (6, "b")], False),
        (["id"], [(3, "z")], True),
        (["id"], [(0, "a"), (9, "b")], True),
        (["id", "shop"], [(2, "d"), (3, "e")], False),
        (["id", "shop"], [(2, "b")], True),
        (["shop", "id"], [(7, "a")], False),
        (["id"], [(4, "a"), (None, "b")], True),  # a key that is NULL is for the merge to refuse
        (["id"], [], False),
    ],
)
def test_bounds_tell_that_keys_are_new(lake: Lake, key: list[str], pairs: list[Any], expected: bool) -> None:
    table = lake.table(ORDERS.name)
    table.append(rows((1, "a"), (2, "b")))
    table.append(rows((3, "c")))
    live = table.load()
    snapshot = live.current_snapshot()
    assert snapshot is not None
    assert may_have_keys(live, snapshot.snapshot_id, files(lake, *pairs), key) is expected


@pytest.mark.parametrize(("key", "expected"), [(["id"], True), (["shop", "day"], True), (["id", "share"], False)])
def test_bounds_tell_nothing_of_keys_with_several_forms_of_one_value(
    lake: Lake, key: list[str], expected: bool
) -> None:
    assert has_plain_key(lake.table(ORDERS.name).load(), key) is expected


def test_rows_that_were_new_in_another_snapshot_are_not_appended(lake: Lake) -> None:
    table = lake.table(ORDERS.name)
    table.append(rows((1, "a")))
    base = table.load().current_snapshot()
    assert base is not None
    target = IcebergTarget(lake.catalog, ("shop", "orders"))
    stages = Stages(lake.catalog, target, "p/part-0", 1)
    inserts = Inserts(stages, files(lake, (2, "a"), (3, "a")), Append, base.snapshot_id)
    assert inserts.counts == {"inserted": 2, "updated": 0, "deleted": 0, "unchanged": 0, "rows": 2}
    stage, _ = stages.begin()
    inserts(stage)
    assert table.load().scan().use_ref(stage).to_arrow().num_rows == 3
    table.append(rows((2, "b")))
    later, _ = stages.begin()
    with pytest.raises(Overtaken):
        inserts(later)


def reader(lake: Lake, since: int) -> InputReader:
    """What the last appends have brought, the first `since` of them left out."""
    live = lake.table(ORDERS.name).load()
    before = sorted(live.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)[since - 1]
    now = current_state(live.metadata)
    arrived = find_news(live.metadata, type(now)(now.uuid, before.snapshot_id), now, name=ORDERS.name)
    spark: Any = None  # manifests are read without it
    return InputReader(spark, "lake", live, arrived)


def test_manifests_tell_the_days_that_were_appended_to(lake: Lake) -> None:
    table = lake.table(ORDERS.name)
    for day in (1, 2, 2, 3):
        table.append(rows((day, "a"), day=day))
    days = reader(lake, since=1).appended_values({"on": "day"})
    assert days is not None
    assert days.cast(pa.schema([("on", pa.date32())])).sort_by("on").to_pylist() == [
        {"on": dt.date(2024, 1, 2)},
        {"on": dt.date(2024, 1, 3)},
    ]


def test_manifests_do_not_tell_columns_that_a_table_is_not_partitioned_by(lake: Lake) -> None:
    table = lake.table(ORDERS.name)
    for day in (1, 2):
        table.append(rows((day, "a"), day=day))
    asked = ({"shop": "shop"}, {"day": "day", "shop": "shop"}, {"on": "nowhere"})
    assert [reader(lake, since=1).appended_values(columns) for columns in asked] == [None, None, None]
    table.delete("id = 1")
    assert reader(lake, since=1).appended_values({"day": "day"}) is None  # rows have gone, too
