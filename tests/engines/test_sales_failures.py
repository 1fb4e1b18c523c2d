"""The six failure scenarios of the document on the sales table. After each, the rows are those of the last good
snapshot.
"""

from __future__ import annotations

import io
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import trino
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from frazil.processes import wait_until
from frazil.services.object_store import find_weed
from frazil.services.stack import Stack
from tests.engines.sales_table import DAYS, ROWS_A_DAY, Sales, sales_table
from tests.kit.stack import Project
from tests.kit.stack_lake import s3_client, stored_objects

TROUBLE = (trino.exceptions.TrinoQueryError, trino.exceptions.TrinoConnectionError)
LONG_INSERT = (
    "INSERT INTO sales SELECT CAST(orderkey AS VARCHAR) || comment, CAST(custkey AS VARCHAR), CAST(totalprice AS "
    "DECIMAL(12,2)), clerk, "
    f"DATE '{DAYS[0]}' FROM tpch.sf1.orders"
)

RUNNING_INSERTS = (
    "SELECT count(*) FROM system.runtime.queries WHERE state = 'RUNNING' AND query LIKE 'INSERT INTO sales%'"
)


@pytest.fixture
def sales(live_stack: Project) -> Iterator[Sales]:
    with sales_table(live_stack, days=DAYS[:2]) as table:
        yield table


@contextmanager
def stopped(project: Project, service: str) -> Iterator[None]:
    """A server of the stack is down inside, and back and ready afterwards."""
    server = Stack(project.settings).service(service)
    server.stop()
    try:
        yield
    finally:
        server.start()


@pytest.mark.requirement("sales.catalog-down")
def test_without_the_catalog_queries_and_ddl_fail_and_the_data_is_untouched(sales: Sales) -> None:
    rows, objects = sales.rows(), stored_objects(sales.project, "lakehouse/sales/")
    with stopped(sales.project, "catalog"):
        for statement in ("SELECT count(*) FROM sales", "ALTER TABLE sales ADD COLUMN currency VARCHAR"):
            with pytest.raises(TROUBLE, match=r"(?i)connect|refused|failed"):
                sales.ask(statement)
        assert stored_objects(sales.project, "lakehouse/sales/") == objects
    assert sales.rows() == rows


@pytest.mark.requirement("sales.store-down")
def test_when_the_store_dies_in_the_middle_of_a_write_nothing_of_it_is_committed(sales: Sales) -> None:
    rows, snapshots = sales.rows(), sales.snapshots()
    failures: list[Exception] = []

    def write() -> None:
        try:
            sales.ask(LONG_INSERT)
        except TROUBLE as exc:
            failures.append(exc)

    writer = threading.Thread(target=write)
    writer.start()
    # Trino generates and writes a million and a half rows: that takes it many seconds.
    assert wait_until(lambda: sales.ask(RUNNING_INSERTS) == [[1]] or not writer.is_alive(), 240)
    assert writer.is_alive()
    with stopped(sales.project, "object-store"):
        writer.join(400)
    assert len(failures) == 1
    assert (sales.rows(), sales.snapshots()) == (rows, snapshots)
    sales.add_day(DAYS[2])
    assert sales.ask("SELECT count(*) FROM sales") == [[3 * ROWS_A_DAY]]


@pytest.mark.requirement("sales.field-ids")
def test_columns_are_found_by_field_id_whatever_their_names_and_what_is_not_there_is_null(sales: Sales) -> None:
    day = date(2024, 1, 18)
    good = {
        "a": ("ORD-a", 1),
        "b": ("CUST-a", 2),
        "c": (Decimal("1.25"), 3),
        "d": ("SE", 4),
        "e": (date(2024, 1, 18), 5),
    }
    strange = {
        "order_id": ("ORD-b", 1),
        "customer_id": ("CUST-b", 2),
        "amount": (Decimal("2.50"), 3),
        "country": ("SE", 99),
        "x": (date(2024, 1, 18), 5),
    }
    for number, columns in enumerate((good, strange)):
        _append_file(sales, columns, f"strange-{number}.parquet")
    wanted = [
        {
            "order_id": "ORD-a",
            "customer_id": "CUST-a",
            "amount": Decimal("1.25"),
            "country": "SE",
            "ingestion_date": day,
        },
        # The name of the column is right and its id is not: it is another column, and this one has no value.
        {
            "order_id": "ORD-b",
            "customer_id": "CUST-b",
            "amount": Decimal("2.50"),
            "country": None,
            "ingestion_date": day,
        },
    ]
    condition = "ingestion_date = DATE '2024-01-18'"
    assert sales.ask(f"SELECT * FROM sales WHERE {condition} ORDER BY 1") == [list(row.values()) for row in wanted]
    result = sales.load().scan("ingestion_date = '2024-01-18'").to_arrow().sort_by("order_id")
    assert result.to_pylist() == wanted
    assert sales.ask("SELECT count(*) FROM sales") == [[2 * ROWS_A_DAY + 2]]


def _append_file(sales: Sales, columns: dict[str, tuple[Any, int]], name: str) -> None:
    """A Parquet file of one row, with field ids, is made part of the table as an engine would that writes columns as it
    likes.
    """
    table = sales.load()
    types = {Decimal: pa.decimal128(12, 2), date: pa.date32(), str: pa.string()}
    fields = [
        pa.field(key, types[type(value)], metadata={"PARQUET:field_id": str(number)})
        for key, (value, number) in columns.items()
    ]
    rows = pa.table([[value] for value, _ in columns.values()], schema=pa.schema(fields))
    content = io.BytesIO()
    pq.write_table(rows, content, compression="snappy")
    path = f"{table.location()}/data/ingestion_date=2024-01-18/{name}"
    with table.io.new_output(path).create() as file:
        file.write(content.getvalue())
    days = (date(2024, 1, 18) - date(1970, 1, 1)).days
    arguments = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(days),
        record_count=1,
        file_size_in_bytes=len(content.getvalue()),
    )
    arguments.spec_id = table.spec().spec_id
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(arguments)


@pytest.mark.requirement("sales.corrupt-metadata")
def test_a_table_whose_metadata_file_is_corrupt_is_brought_back_from_its_log(sales: Sales) -> None:
    rows, snapshots = sales.rows(), sales.snapshots()
    table = sales.load()
    table.append(table.scan(limit=1).to_arrow())  # one commit; Trino makes a second one of statistics
    bucket, _, key = sales.load().metadata_location.removeprefix("s3://").partition("/")
    s3_client(sales.project).put_object(Bucket=bucket, Key=key, Body=b'{"format-version": 2, "table-uuid": ')
    with stopped(sales.project, "catalog"):
        pass  # what it had in memory is gone
    with pytest.raises(TROUBLE):
        sales.rows()
    shown = json.loads(sales.project.frazil("table", "recover", "lakehouse.sales", "--output", "json", "--yes").stdout)
    assert [bool(version["reason"]) for version in shown if version["is_current"]] == [True]
    assert (sales.rows(), sales.snapshots()) == (rows, snapshots)


@pytest.mark.requirement("sales.concurrent")
def test_two_writers_of_one_partition_both_get_their_rows_in(sales: Sales) -> None:
    failures: list[Exception] = []

    def write(country: str) -> None:
        try:
            for _ in range(3):
                sales.add_day(DAYS[0], rows=10, country=country)
        except TROUBLE as exc:
            failures.append(exc)

    writers = [threading.Thread(target=write, args=(country,)) for country in ("SE", "DK")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(400)
    assert failures == []
    counted = sales.ask(
        f"SELECT country, count(*) FROM sales WHERE ingestion_date = DATE '{DAYS[0]}' GROUP BY 1 ORDER BY 1"
    )
    assert counted == [["DK", 30], ["NO", ROWS_A_DAY], ["SE", 30]]


@pytest.mark.requirement("sales.quota")
def test_when_the_store_has_no_room_the_write_fails_and_the_table_stays_as_it_was(sales: Sales) -> None:
    rows, snapshots = sales.rows(), sales.snapshots()
    bucket = sales.project.settings.stack.bucket
    s3_client(sales.project).put_object(Bucket=bucket, Key="filler", Body=b"\0" * 2_000_000)
    try:
        _weed_shell(sales.project, f"s3.bucket.quota -name={bucket} -op=set -sizeMB=1")
        # SeaweedFS hears of sizes every few seconds, and enforces on request.
        assert wait_until(lambda: "to read only" in _weed_shell(sales.project, "s3.bucket.quota.enforce -apply"), 240)
        with pytest.raises(TROUBLE):
            sales.add_day(DAYS[2])
        assert (sales.rows(), sales.snapshots()) == (rows, snapshots)
    finally:
        _weed_shell(sales.project, f"s3.bucket.quota -name={bucket} -op=remove")
        s3_client(sales.project).delete_object(Bucket=bucket, Key="filler")
    sales.add_day(DAYS[2])
    assert sales.ask("SELECT count(*) FROM sales") == [[3 * ROWS_A_DAY]]


def _weed_shell(project: Project, *commands: str) -> str:
    """What SeaweedFS' own console answers: quotas are set there."""
    server = Stack(project.settings).service("object-store")
    places = [
        f"127.0.0.1:{server.extra_port(f'{name}.port')}.{server.extra_port(f'{name}.port.grpc')}"
        for name in ("master", "filer")
    ]
    argv = [str(find_weed()), "shell", f"-master={places[0]}", f"-filer={places[1]}"]
    text = "\n".join(["lock", *commands, "unlock", ""])
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=240, check=True)
    assert "error" not in done.stdout + done.stderr, done.stdout + done.stderr
    return done.stdout
