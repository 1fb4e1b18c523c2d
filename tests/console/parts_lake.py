"""Tables whose parts are looked at: partitions of two specs, files that compaction would rewrite, bounds of columns."""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from frazil.client import FrazilCatalog
from frazil.sinks import open as open_sink
from frazil.vector import Indexes
from tests.console.lake import MARKUP, RIGHT_TO_LEFT, sales

EVENTS = pa.schema([("id", pa.int64()), ("shop", pa.string()), ("at", pa.timestamp("us", tz="UTC"))])
FIELDS = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "shop", StringType()), NestedField(3, "at", TimestamptzType())
)
DAYS = 20
FIRST = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


def events(days: range, shops: tuple[str, ...] = ("oslo",)) -> pa.Table:
    """An event per day and shop."""
    rows = [(day * 10 + at, shop, FIRST + dt.timedelta(days=day)) for day in days for at, shop in enumerate(shops)]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), EVENTS, strict=True)],
        schema=EVENTS,
    )


def vectors(start: int, count: int) -> pa.Table:
    """Rows with vectors of four numbers."""
    numbers = range(start, start + count)
    embeddings = [[float(number % 7), float(number % 5), 1.0, float(number)] for number in numbers]
    schema = pa.schema([("id", pa.int64()), ("embedding", pa.list_(pa.float32()))])
    return pa.table([pa.array(numbers, pa.int64()), pa.array(embeddings, schema.field(1).type)], schema=schema)


def build_parts(catalog: FrazilCatalog) -> None:
    """A table of days, which later has shops, too; one without partitions; one that is partitioned by hostile text."""
    catalog.create_namespace("shop")
    by_day = PartitionSpec(PartitionField(3, 1000, DayTransform(), "at_day"))
    table = catalog.create_table(("shop", "events"), FIELDS, partition_spec=by_day)
    for _ in range(6):
        table.append(events(range(2)))
    table.append(events(range(DAYS)))
    with table.update_spec() as update:
        update.add_identity("shop")
    table = catalog.load_table(("shop", "events"))
    table.append(events(range(30, 34), ("oslo", "bergen", MARKUP, RIGHT_TO_LEFT)))
    flat = catalog.create_table(("shop", "flat"), sales(0, 1).schema)
    for number in range(3):
        flat.append(sales(100 * number, 100))
    catalog.create_table(("shop", "empty"), FIELDS)
    words = catalog.create_table(("shop", "words"), vectors(0, 0).schema)
    words.append(vectors(0, 400))
    Indexes(catalog, "shop.words").create("embedding", lists=4)
    catalog.load_table(("shop", "words")).append(vectors(400, 100))
    hostile = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), MARKUP))
    catalog.create_table(("shop", RIGHT_TO_LEFT), FIELDS, partition_spec=hostile).append(events(range(2), (MARKUP,)))


SHOPS = ("bergen", "bodø", "oslo", "stavanger", "tromsø", "trondheim")


def build_visits(catalog: FrazilCatalog) -> None:
    """Visits of six shops for seven weeks, some of them in quarantine; the newest days came hour by hour."""
    by_day = PartitionSpec(
        PartitionField(3, 1000, DayTransform(), "at_day"), PartitionField(2, 1001, IdentityTransform(), "shop")
    )
    table = catalog.create_table(("shop", "visits"), FIELDS, partition_spec=by_day)
    chance = random.Random(3)
    rows = [
        {"id": day * 100 + number, "shop": shop, "at": FIRST + dt.timedelta(days=day, minutes=number)}
        for day in range(49)
        for at, shop in enumerate(SHOPS)
        for number in range(int(40 * (1 + at) * (0.4 if day % 7 in (5, 6) else 1) * chance.uniform(0.5, 1.5)))
    ]
    table.append(pa.Table.from_pylist(rows, schema=EVENTS))
    for hour in range(7):
        table.append(events(range(46, 49), SHOPS[: 2 + hour % 4]))
    wrong = [{"id": -number, "shop": SHOPS[number % 6], "at": FIRST} for number in range(1, 9)]
    odd = [{"id": f"v-{number}", "shop": "oslo", "at": FIRST} for number in range(3)]
    late = [{"id": 9000 + number, "shop": "oslo", "at": "31.3.2026"} for number in range(5)]
    with open_sink("shop.visits", name="s", catalog=catalog, bad_rows="quarantine", checks=["id >= 0"]) as sink:
        bad = [*wrong, *odd, *late]
        sink.write_with_offsets(bad, source="visits", offsets=list(range(len(bad))))
