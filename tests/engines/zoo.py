"""A zoo of tables: every type, nested values, every transform, evolved schemas and specs, deletes of every kind, an
empty one, branches.

`build_zoo` makes them through the catalog: PyIceberg writes the rows, Spark's JVM the delete files. `truth` gives the
rows that each of them must have, made in Python and never read from a table.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from frazil.client import FrazilCatalog
from tests.engines.spark_sql import SparkProcess

NAMESPACE = "zoo"
Row = dict[str, Any]
START = dt.datetime(2024, 2, 28, 22, 30)
UTC = dt.UTC


def _field(number: int, name: str, kind: Any, *, required: bool = False) -> NestedField:
    return NestedField(number, name, kind, required=required)


# --- schemas ---------------------------------------------------------------------------------------------------------

TYPES = Schema(
    _field(1, "id", LongType(), required=True),
    _field(2, "flag", BooleanType()),
    _field(3, "i", IntegerType()),
    _field(4, "f", FloatType()),
    _field(5, "d", DoubleType()),
    _field(6, "price", DecimalType(9, 2)),
    _field(7, "big", DecimalType(38, 10)),
    _field(8, "day", DateType()),
    _field(9, "seen", TimestampType()),
    _field(10, "seen_utc", TimestamptzType()),
    _field(11, "name", StringType()),
    _field(12, "code", FixedType(4)),
    _field(13, "raw", BinaryType()),
    _field(14, "key", UUIDType()),
)
CLOCKS = Schema(_field(1, "id", LongType(), required=True), _field(2, "clock", TimeType()))
NANOS = Schema(_field(1, "id", IntegerType(), required=True), _field(2, "seen", TimestampNanoType()))
NANO_TIMES = ["2024-02-28T22:30:00.000000001", None, "2024-02-28T22:30:00.123456789", "2024-02-29T00:00:00.123456790"]
NESTED = Schema(
    _field(1, "id", LongType(), required=True),
    _field(
        2,
        "person",
        StructType(
            _field(3, "name", StringType()),
            _field(4, "age", IntegerType()),
            _field(5, "home", StructType(_field(6, "city", StringType()))),
        ),
    ),
    _field(7, "tags", ListType(8, StringType(), element_required=False)),
    _field(9, "scores", MapType(10, StringType(), 11, LongType(), value_required=False)),
    _field(
        12,
        "lines",
        ListType(
            13, StructType(_field(14, "sku", StringType()), _field(15, "n", IntegerType())), element_required=False
        ),
    ),
)
TRANSFORMS = Schema(
    _field(1, "id", LongType(), required=True),
    _field(2, "country", StringType()),
    _field(3, "name", StringType()),
    _field(4, "y", TimestampType()),
    _field(5, "m", DateType()),
    _field(6, "d", TimestamptzType()),
    _field(7, "h", TimestampType()),
    _field(8, "gone", StringType()),
)
TRANSFORMED = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "country"),
    PartitionField(1, 1001, BucketTransform(4), "id_bucket"),
    PartitionField(3, 1002, TruncateTransform(2), "name_trunc"),
    PartitionField(4, 1003, YearTransform(), "y_year"),
    PartitionField(5, 1004, MonthTransform(), "m_month"),
    PartitionField(6, 1005, DayTransform(), "d_day"),
    PartitionField(7, 1006, HourTransform(), "h_hour"),
    PartitionField(8, 1007, VoidTransform(), "gone_void"),
)
PLAIN = Schema(
    _field(1, "id", LongType(), required=True), _field(2, "country", StringType()), _field(3, "n", IntegerType())
)


# --- rows ------------------------------------------------------------------------------------------------------------


def types_row(n: int) -> Row:
    """Every value once in four is null; NaN, both infinities and the largest numbers are there."""
    if n % 4 == 3:
        return {"id": n}
    doubles = {5: float("nan"), 6: float("inf"), 8: float("-inf")}
    return {
        "id": n,
        "flag": n % 2 == 0,
        "i": (-1) ** n * n * 1000 if n else -(2**31),
        "f": n / 8,
        "d": doubles.get(n, n / 4),
        "price": Decimal(n * 125 - 300).scaleb(-2),
        "big": Decimal("12345678901234567890.0123456789") + n,
        "day": dt.date(2024, 2, 27) + dt.timedelta(days=n) if n else dt.date(1969, 12, 31),
        "seen": START + dt.timedelta(hours=7 * n, microseconds=n),
        "seen_utc": (START + dt.timedelta(hours=7 * n, microseconds=n)).replace(tzinfo=UTC),
        "name": f"näme-{n % 5}" if n % 2 else f"item-{n}",
        "code": bytes([n] * 4),
        "raw": bytes(range(n)),
        "key": uuid.UUID(int=n * 2**100 + 7).bytes,
    }


def nested_row(n: int) -> Row:
    """Null and empty at every depth."""
    home = None if n % 3 == 2 else {"city": None if n == 4 else f"city-{n % 2}"}
    person = None if n % 5 == 3 else {"name": f"p{n}", "age": None if n == 1 else 20 + n, "home": home}
    tags = None if n == 2 else [None if at == 2 else f"t{at}" for at in range(n % 4)]
    scores = None if n == 5 else {f"k{at}": None if at == 1 else n * 10 + at for at in range(n % 3)}
    return {
        "id": n,
        "person": person,
        "tags": tags,
        "scores": scores,
        "lines": [{"sku": f"s{at}", "n": at} for at in range(n % 3)],
    }


def transforms_row(n: int) -> Row:
    """Twelve rows in six partitions; in one of them every source is null."""
    if n % 6 == 5:
        return {"id": 4}
    k = n % 6
    at = dt.datetime(2021 + k, 6, 1, k)
    tail = {
        "y": at,
        "m": dt.date(2023, k + 1, 15),
        "d": (START + dt.timedelta(days=k)).replace(tzinfo=UTC),
        "h": at,
        "gone": f"g{k}",
    }
    return {"id": k, "country": ("NO", "SE", "DK")[k % 3], "name": f"{'ab'[k % 2]}{k}-name", **tail}


def plain_row(n: int) -> Row:
    return {"id": n, "country": (None, "NO", "SE", "DK")[n % 4], "n": n * 10}


def rows(make: Callable[[int], Row], numbers: Iterable[int]) -> list[Row]:
    return [make(number) for number in numbers]


def arrow(schema: Schema, value: list[Row]) -> pa.Table:
    """Rows as an Arrow table; UUIDs are given as their bytes. Ids are left out: the catalog gives fresh ones."""
    return pa.Table.from_pylist(value, schema=schema_to_pyarrow(schema, include_field_ids=False))


# --- what must come out ----------------------------------------------------------------------------------------------

EVOLVED_TRUTH = pa.schema(
    [
        ("total", pa.float64()),
        ("id", pa.int64()),
        ("place", pa.string()),
        ("n", pa.int64()),
        ("cost", pa.decimal128(14, 2)),
        ("note", pa.string()),
        ("who", pa.struct([("called", pa.string()), ("age", pa.int32())])),
    ]
)


def _evolved_old(n: int) -> Row:
    """As it reads now: `city` is `place`, `note` was dropped and is another column of the same name, `who.age` came
    later.
    """
    return {
        "total": n / 4,
        "id": n,
        "place": f"c{n % 3}",
        "n": n,
        "cost": Decimal(n) / 4,
        "note": None,
        "who": {"called": f"w{n}", "age": None},
    }


def _evolved_new(n: int) -> Row:
    big = {"total": n + 1e300, "n": 2**40 + n, "cost": Decimal("100000000000.25") + n, "note": f"new-{n}"}
    return {"id": n, "place": f"c{n % 3}", **big, "who": {"called": f"w{n}", "age": n}}


def truth() -> dict[str, pa.Table]:
    """The rows of every table, by its name; of the past by `name@point`."""
    plain = arrow(PLAIN, []).schema
    defaults = pa.schema([*plain, ("status", pa.string()), ("level", pa.int32())])
    old = [{**plain_row(n), "status": "new", "level": 7} for n in range(4)]
    kept = [plain_row(n) for n in range(12) if n % 3 != 1]
    alive = [plain_row(n) for n in range(8) if n not in (1, 6)] + [plain_row(6)]
    mixed = [plain_row(n) for n in range(24) if n not in (2, 5, 9, 10, 13)] + [plain_row(5)]
    return {
        "types": arrow(TYPES, rows(types_row, range(12))),
        "clocks": arrow(CLOCKS, clock_rows()),
        "nanos": pa.table(
            {"id": pa.array(range(4), pa.int32()), "seen": pa.array(NANO_TIMES).cast(pa.timestamp("ns"))}
        ),
        "nested": arrow(NESTED, rows(nested_row, range(10))),
        "transforms": arrow(TRANSFORMS, rows(transforms_row, range(12))),
        "evolved": pa.Table.from_pylist(
            [_evolved_old(n) for n in range(6)] + [_evolved_new(n) for n in range(6, 9)], schema=EVOLVED_TRUTH
        ),
        "defaults": pa.Table.from_pylist([*old, {**plain_row(4), "status": "open", "level": None}], schema=defaults),
        "respecced": arrow(PLAIN, rows(plain_row, range(16))),
        "position_deletes": arrow(PLAIN, kept),
        "vectors": arrow(PLAIN, kept),
        "equality_deletes": arrow(PLAIN, alive),
        "mixed": arrow(PLAIN, mixed),
        "empty": arrow(PLAIN, []),
        "emptied": arrow(PLAIN, []),
        "branches": arrow(PLAIN, rows(plain_row, range(6))),
        "branches@first": arrow(PLAIN, rows(plain_row, range(3))),
        "branches@audit": arrow(PLAIN, rows(plain_row, [0, 1, 2, 7, 8])),
    }


def clock_rows() -> list[Row]:
    return [{"id": n, "clock": None if n == 2 else dt.time(n * 5, 30, 1, 250_000 + n)} for n in range(4)]


# --- making them -----------------------------------------------------------------------------------------------------


def build_zoo(catalog: FrazilCatalog, spark: SparkProcess) -> None:
    """All tables, in the namespace `zoo`."""
    catalog.create_namespace(NAMESPACE)
    result = truth()
    for name, schema in (("types", TYPES), ("clocks", CLOCKS), ("nested", NESTED), ("empty", PLAIN)):
        _make(catalog, name, schema, *([result[name]] if result[name] else []))
    _make(
        catalog,
        "transforms",
        TRANSFORMS,
        result["transforms"].slice(0, 6),
        result["transforms"].slice(6),
        spec=TRANSFORMED,
    )
    _make(catalog, "emptied", PLAIN, arrow(PLAIN, rows(plain_row, range(3)))).delete()
    _make_evolved(catalog)
    _make_defaults(catalog, spark)
    _make_respecced(catalog)
    _make_branches(catalog)
    for name, version in (("position_deletes", 2), ("vectors", 3)):
        _make(catalog, name, PLAIN, arrow(PLAIN, rows(plain_row, range(12))))
        _set(spark, name, {"format-version": str(version), "write.delete.mode": "merge-on-read"})
        spark.sql(f"DELETE FROM lake.{NAMESPACE}.{name} WHERE id % 3 = 1")
    catalog.create_table(f"{NAMESPACE}.nanos", NANOS, properties={"format-version": "3"})
    spark.call("tests.engines.zoo_java:append_nanos", f"lake.{NAMESPACE}.nanos", NANO_TIMES)
    deleted = _make(catalog, "equality_deletes", PLAIN, arrow(PLAIN, rows(plain_row, range(8))))
    spark.call("tests.engines.zoo_java:delete_equal", f"lake.{NAMESPACE}.equality_deletes", {"n": 10})
    spark.call("tests.engines.zoo_java:delete_equal", f"lake.{NAMESPACE}.equality_deletes", {"country": "SE", "n": 60})
    deleted.refresh().append(arrow(PLAIN, [plain_row(6)]))  # younger than the deletes, so it stays
    _make_mixed(catalog, spark)


def _make(
    catalog: FrazilCatalog,
    name: str,
    schema: Schema,
    *batches: pa.Table,
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
) -> Table:
    table = catalog.create_table(f"{NAMESPACE}.{name}", schema, partition_spec=spec)
    for batch in batches:
        table.append(batch)
    return table


def _set(spark: SparkProcess, name: str, properties: dict[str, str]) -> None:
    """Also the format: PyIceberg 0.12 neither upgrades a table to format 3 nor writes rows to it."""
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    spark.sql(f"ALTER TABLE lake.{NAMESPACE}.{name} SET TBLPROPERTIES ({listed})")


def _make_evolved(catalog: FrazilCatalog) -> None:
    """Renamed, widened, dropped, added, moved; a name that was dropped is used again for another column."""
    schema = Schema(
        _field(1, "id", LongType(), required=True),
        _field(2, "city", StringType()),
        _field(3, "n", IntegerType()),
        _field(4, "cost", DecimalType(9, 2)),
        _field(5, "total", FloatType()),
        _field(6, "note", StringType()),
        _field(7, "who", StructType(_field(8, "name", StringType()))),
    )
    before = [
        {
            "id": n,
            "city": f"c{n % 3}",
            "n": n,
            "cost": Decimal(n) / 4,
            "total": n / 4,
            "note": f"old-{n}",
            "who": {"name": f"w{n}"},
        }
        for n in range(6)
    ]
    table = _make(catalog, "evolved", schema, arrow(schema, before))
    with table.update_schema(allow_incompatible_changes=True) as change:
        change.rename_column("city", "place")
        change.rename_column("who.name", "called")
        change.add_column(("who", "age"), IntegerType())
        change.update_column("n", LongType())
        change.update_column("cost", DecimalType(14, 2))
        change.update_column("total", DoubleType())
        change.delete_column("note")
        change.move_first("total")
    with table.update_schema() as change:
        change.add_column("note", StringType())
    table.append(arrow(table.schema(), [_evolved_new(n) for n in range(6, 9)]))


def _make_defaults(catalog: FrazilCatalog, spark: SparkProcess) -> None:
    table = _make(catalog, "defaults", PLAIN, arrow(PLAIN, rows(plain_row, range(4))))
    _set(spark, "defaults", {"format-version": "3"})
    table.refresh()
    with table.update_schema() as change:
        change.add_column("status", StringType(), default_value="new")
        change.add_column("level", IntegerType(), default_value=7)
    spark.sql(f"INSERT INTO lake.{NAMESPACE}.defaults VALUES (4, NULL, 40, 'open', NULL)")


def _make_respecced(catalog: FrazilCatalog) -> None:
    """Files of four specs: none, by country, by country and bucket, by bucket alone."""
    table = _make(catalog, "respecced", PLAIN, arrow(PLAIN, rows(plain_row, range(4))))
    with table.update_spec() as change:
        change.add_identity("country")
    table.append(arrow(PLAIN, rows(plain_row, range(4, 8))))
    with table.update_spec() as change:
        change.add_field("id", BucketTransform(2), "id_bucket")
    table.append(arrow(PLAIN, rows(plain_row, range(8, 12))))
    with table.update_spec() as change:
        change.remove_field("country")
    table.append(arrow(PLAIN, rows(plain_row, range(12, 16))))


def _make_mixed(catalog: FrazilCatalog, spark: SparkProcess) -> None:
    """Two specs, equality deletes over both, position deletes, and after an upgrade deletion vectors that take their
    place.
    """
    table, place = _make(catalog, "mixed", PLAIN, arrow(PLAIN, rows(plain_row, range(8)))), f"lake.{NAMESPACE}.mixed"
    with table.update_spec() as change:
        change.add_identity("country")
    table.append(arrow(PLAIN, rows(plain_row, range(8, 24))))
    spark.call("tests.engines.zoo_java:delete_equal", place, {"n": 50})
    spark.call("tests.engines.zoo_java:delete_equal", place, {"country": "SE", "n": 100})
    table.refresh().append(arrow(PLAIN, [plain_row(5)]))
    _set(spark, "mixed", {"write.delete.mode": "merge-on-read"})
    spark.sql(f"DELETE FROM {place} WHERE id = 9")
    _set(spark, "mixed", {"format-version": "3"})
    spark.sql(f"DELETE FROM {place} WHERE id IN (2, 13)")  # 13 lies in the file of 9


def _make_branches(catalog: FrazilCatalog) -> None:
    """A tag on the first snapshot, a branch that went its own way, and main."""
    table = _make(catalog, "branches", PLAIN, arrow(PLAIN, rows(plain_row, range(3))))
    first = table.current_snapshot()
    assert first is not None
    with table.manage_snapshots() as refs:
        refs.create_tag(first.snapshot_id, "first").create_branch(first.snapshot_id, "audit")
    table.append(arrow(PLAIN, rows(plain_row, [7, 8])), branch="audit")
    table.append(arrow(PLAIN, rows(plain_row, range(3, 6))))
