"""The lake that the tests of the console look at: names and rows that would be markup, and a table with a past."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
from pyiceberg.types import StringType

from frazil.client import FrazilCatalog

MARKUP = '<img src=x onerror="window.hit=1">'
LONG = "x" * 10_000
RIGHT_TO_LEFT = "مبيعات\u202etxt.exe"
SALES = pa.schema(
    [
        pa.field("order_id", pa.string(), nullable=False),
        pa.field("customer", pa.string()),
        pa.field("amount", pa.decimal128(12, 2)),
        pa.field("ordered_at", pa.timestamp("us", tz="UTC")),
        pa.field("items", pa.list_(pa.string())),
    ]
)
QUARANTINE = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("raw", "reason", "position", "part")),
        pa.field("quarantined_at", pa.timestamp("us", tz="UTC")),
    ]
)
NOTES = pa.schema([("id", pa.int64()), ("note", pa.string())])


def sales(start: int, count: int, schema: pa.Schema = SALES) -> pa.Table:
    """Orders with increasing numbers; the same ones each time."""
    numbers = range(start, start + count)
    columns = {
        "order_id": [f"o-{number:06}" for number in numbers],
        "customer": [("Ada", "Grace", MARKUP, RIGHT_TO_LEFT)[number % 4] for number in numbers],
        "amount": [Decimal(number % 5000) / 100 for number in numbers],
        "ordered_at": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=number) for number in numbers],
        "items": [["ice", "snow"][: number % 3] for number in numbers],
    }
    return pa.table(
        [pa.array(columns[name], field.type) for name, field in zip(columns, schema, strict=True)], schema=schema
    )


def build_lake(catalog: FrazilCatalog) -> None:
    """Makes the tables."""
    catalog.create_namespace("shop")
    table = catalog.create_table(
        ("shop", "sales"), SALES, properties={"comment": f"One row for each order. {MARKUP}", "owner": LONG}
    )
    for number in range(6):
        table.append(sales(100 * number, 100))
    table.manage_snapshots().create_tag(table.metadata.snapshots[1].snapshot_id, "month-end").commit()
    table.manage_snapshots().create_branch(table.metadata.snapshots[3].snapshot_id, "audit").commit()
    with table.update_schema() as update:
        update.add_column("channel", StringType(), doc=f"web or shop {MARKUP}")
        update.rename_column("customer", "buyer")
    table = catalog.load_table(("shop", "sales"))
    renamed = pa.schema([SALES.field(0), SALES.field(1).with_name("buyer"), *list(SALES)[2:]])
    table.append(sales(600, 50).rename_columns(renamed.names), branch="audit")
    table.append(sales(700, 50).rename_columns(renamed.names))
    rows = pa.table({"id": [1, 2, 3], "note": [MARKUP, LONG, None]}, schema=NOTES)
    for name in (MARKUP, RIGHT_TO_LEFT):
        catalog.create_table(("shop", name), NOTES).append(rows)
    held = [f'{{"order_id":"{number}","customer":"{number}"}}' for number in range(3)]
    columns = {name: held if name == "raw" else [MARKUP] * 3 for name in QUARANTINE.names[:-1]}
    quarantined = pa.table(
        {**columns, "quarantined_at": [dt.datetime(2026, 1, 2, tzinfo=dt.UTC)] * 3}, schema=QUARANTINE
    )
    catalog.create_table(("shop", "sales__quarantine"), QUARANTINE).append(quarantined)
    catalog.create_table(("shop", "empty"), NOTES)
