"""The table that is read: events of devices, one file a part, written by PyIceberg as it usually does."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType, TimestamptzType

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog

FILES = 10
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "device", StringType()),
    NestedField(3, "at", TimestamptzType()),
    NestedField(4, "kind", IntegerType()),
    NestedField(5, "value", DoubleType()),
    NestedField(6, "note", StringType()),
)


def make_table(folder: Path, rows: int) -> Path:
    """The metadata file of a table with a number of rows."""
    with running_catalog(folder) as server:
        catalog = FrazilCatalog("lake", **server.properties)
        catalog.create_namespace("lake")
        table = catalog.create_table("lake.events", SCHEMA)
        each = rows // FILES
        for part in range(FILES):
            table.append(_rows(part * each, each))
        return Path(urlsplit(table.metadata_location).path)


def _rows(start: int, count: int) -> pa.Table:
    random = np.random.default_rng(start)
    ids = np.arange(start, start + count)
    devices = pa.array([f"device-{n:05d}" for n in range(20_000)]).take(pa.array(random.integers(0, 20_000, count)))
    notes = pa.array([f"note {n} of some length" for n in range(1000)]).take(pa.array(random.integers(0, 1000, count)))
    times = pa.array(1_700_000_000_000_000 + ids * 1000).cast(pa.timestamp("us", "UTC"))
    kinds = pa.array(random.integers(0, 100, count).astype(np.int32))
    columns = [pa.array(ids), devices, times, kinds, pa.array(random.random(count)), notes]
    return pa.Table.from_arrays(columns, names=[field.name for field in SCHEMA.fields]).cast(SCHEMA.as_arrow())
