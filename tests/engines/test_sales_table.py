"""What the document on the sales table requires, on Trino, SeaweedFS and our catalog."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

import pytest
import trino
from pyiceberg.types import DateType, DecimalType, StringType

from frazil import Lake, Table
from frazil.client import connect
from tests.engines.sales_table import DAYS, DDL, ROWS_A_DAY, Sales, sales_table
from tests.kit.stack import Project
from tests.kit.stack_lake import stored_objects

DAY = f"ingestion_date = DATE '{DAYS[0]}'"


@pytest.fixture(scope="module")
def filled(live_stack: Project) -> Iterator[Sales]:
    """The table with three days, for tests that only read, or that leave it as they found it."""
    with sales_table(live_stack) as table:
        yield table


@pytest.fixture
def sales(live_stack: Project) -> Iterator[Sales]:
    """A table of its own, for tests that change it."""
    with sales_table(live_stack, days=DAYS[:2]) as table:
        yield table


@pytest.mark.requirement("sales.table")
@pytest.mark.requirement("sales.schema")
@pytest.mark.requirement("sales.partitioned")
def test_the_documents_statement_makes_the_table_as_it_is_specified(filled: Sales) -> None:
    table = filled.load()
    assert [(field.name, field.field_type, field.required) for field in table.schema().fields] == [
        ("order_id", StringType(), True),
        ("customer_id", StringType(), True),
        ("amount", DecimalType(12, 2), True),
        ("country", StringType(), False),
        ("ingestion_date", DateType(), True),
    ]
    assert [(field.name, str(field.transform), field.source_id) for field in table.spec().fields] == [
        ("ingestion_date", "identity", 5)
    ]
    assert filled.ask("SELECT count(*) FROM sales") == [[3 * ROWS_A_DAY]]


@pytest.mark.requirement("sales.table")
def test_the_declaration_from_the_documents_statement_is_the_table_that_trino_made(filled: Sales) -> None:
    declared = Table.from_ddl(DDL, dialect="trino")
    assert declared.name == "lakehouse.sales"
    assert declared.schema() == filled.load().schema()
    assert [f.name for f in declared.partition_spec().fields] == ["ingestion_date"]


@pytest.mark.requirement("sales.parquet")
@pytest.mark.requirement("sales.snappy")
@pytest.mark.requirement("sales.layout")
def test_data_lies_as_parquet_in_snappy_one_folder_per_day_next_to_the_metadata(filled: Sales) -> None:
    keys = [key for key in stored_objects(filled.project, "lakehouse/sales/") if "/data/" in key or "/metadata/" in key]
    folders = {key.rpartition("/")[0].removeprefix("lakehouse/sales/") for key in keys}
    assert folders == {"metadata", *(f"data/ingestion_date={day}" for day in DAYS)}
    table = filled.load()
    for task in table.scan().plan_files():
        with table.io.new_input(task.file.file_path).open() as file:
            import pyarrow.parquet as pq

            metadata = pq.ParquetFile(file).metadata
        assert {metadata.row_group(0).column(i).compression for i in range(metadata.num_columns)} == {"SNAPPY"}


@pytest.mark.requirement("sales.schema")
@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ("NULL, 'CUST-1', DECIMAL '1.00', 'NO'", "NULL value not allowed for NOT NULL column: order_id"),
        ("'ORD-1', 'CUST-1', DECIMAL '12345678901.00', 'NO'", "Cannot cast"),
    ],
)
def test_a_null_and_an_amount_that_does_not_fit_are_refused_and_nothing_is_written(
    filled: Sales, values: str, complaint: str
) -> None:
    before = filled.load().metadata_location
    with pytest.raises(trino.exceptions.TrinoUserError, match=complaint):
        filled.ask(f"INSERT INTO sales SELECT * FROM (VALUES ({values}, DATE '2024-01-18')) AS v (a, b, c, d, e)")
    assert filled.load().metadata_location == before


@pytest.mark.requirement("sales.idempotent-ddl")
def test_the_statement_run_a_second_time_changes_nothing(filled: Sales) -> None:
    before = filled.load().metadata_location
    filled.ask(DDL)
    assert filled.load().metadata_location == before


@pytest.mark.requirement("sales.pruning")
def test_a_filter_on_the_day_reads_that_days_files_and_no_others(filled: Sales) -> None:
    plan = filled.ask(f"EXPLAIN SELECT * FROM sales WHERE {DAY}")[0][0]
    assert "constraint on [ingestion_date]" in plan
    assert f":: [[{DAYS[0]}]]" in plan
    result = filled.ask(f"EXPLAIN ANALYZE VERBOSE SELECT sum(amount) FROM sales WHERE {DAY}")[0][0]
    sizes = {task.file.partition[0]: task.file.file_size_in_bytes for task in filled.load().scan().plan_files()}
    assert len(sizes) == len(DAYS)
    first = min(sizes)
    assert _metric(result, "dataFiles") == 1
    assert _metric(result, "dataFileSizeBytes") == sizes[first]
    _, whole = filled.measure("SELECT sum(amount) FROM sales")
    _, single = filled.measure(f"SELECT sum(amount) FROM sales WHERE {DAY}")
    assert (single["processedRows"], whole["processedRows"]) == (ROWS_A_DAY, 3 * ROWS_A_DAY)
    assert 0 < single["physicalInputBytes"] <= sizes[first] < whole["physicalInputBytes"]
    result = filled.ask(
        f"EXPLAIN ANALYZE VERBOSE SELECT sum(amount) FROM sales WHERE ingestion_date BETWEEN DATE '{DAYS[1]}' AND "
        f"DATE '{DAYS[2]}'"
    )
    assert _metric(result[0][0], "dataFiles") == 2


def _metric(plan: str, name: str) -> int:
    match = re.search(rf"'{name}' = LongCount{{total=(\d+)}}", plan)
    assert match, plan
    return int(match[1])


@pytest.mark.requirement("sales.add-column")
def test_a_column_is_added_and_no_data_file_is_rewritten(sales: Sales) -> None:
    before, rows = sales.files(), sales.rows()
    sales.ask("ALTER TABLE sales ADD COLUMN currency VARCHAR")
    assert sales.files() == before
    assert sales.ask("SELECT DISTINCT currency FROM sales") == [[None]]
    assert sales.rows() == rows
    sales.ask("INSERT INTO sales VALUES ('ORD-x', 'CUST-1', DECIMAL '9.50', 'NO', DATE '2024-01-18', 'NOK')")
    assert sales.ask("SELECT currency, count(*) FROM sales GROUP BY 1 ORDER BY 1") == [
        ["NOK", 1],
        [None, 2 * ROWS_A_DAY],
    ]
    assert set(before) < set(sales.files())


@pytest.mark.requirement("sales.evolve-drop")
@pytest.mark.requirement("sales.evolve-rename")
def test_columns_are_renamed_and_dropped_and_no_data_file_is_rewritten(sales: Sales) -> None:
    before = sales.files()
    sales.ask("ALTER TABLE sales RENAME COLUMN country TO land")
    assert sales.ask("SELECT DISTINCT land FROM sales") == [["NO"]]
    sales.ask("ALTER TABLE sales DROP COLUMN land")
    sales.ask("ALTER TABLE sales ADD COLUMN land VARCHAR")  # the old name again, with a field id of its own
    assert sales.ask("SELECT DISTINCT land FROM sales") == [[None]]
    assert sales.files() == before


@pytest.mark.requirement("sales.evolve-widen")
@pytest.mark.requirement("sales.evolve-reorder")
def test_a_type_is_widened_and_columns_change_their_order_and_no_data_file_is_rewritten(sales: Sales) -> None:
    before, amounts = sales.files(), sales.ask("SELECT amount FROM sales ORDER BY order_id")
    with sales.load().update_schema() as update:
        update.update_column("amount", DecimalType(18, 2)).move_first("ingestion_date")
    assert sales.ask("SELECT amount FROM sales ORDER BY order_id") == amounts
    assert [row[0] for row in sales.ask("SHOW COLUMNS FROM sales")][:2] == ["ingestion_date", "order_id"]
    sales.ask(f"INSERT INTO sales VALUES (DATE '{DAYS[0]}', 'ORD-y', 'CUST-1', DECIMAL '1234567890123456.25', 'NO')")
    assert sales.ask("SELECT amount FROM sales WHERE order_id = 'ORD-y'") == [[Decimal("1234567890123456.25")]]
    assert set(before) < set(sales.files())


@pytest.mark.requirement("sales.evolve-partition")
def test_a_partition_field_is_added_for_new_data_and_old_data_stays_where_it_is(sales: Sales) -> None:
    before = sales.files()
    sales.ask("ALTER TABLE sales SET PROPERTIES partitioning = ARRAY['ingestion_date', 'country']")
    sales.add_day("2024-01-18", country="SE")
    new = set(sales.files()) - set(before)
    assert set(before) < set(sales.files())
    assert all("/ingestion_date=2024-01-18/country=SE/" in path for path in new)
    counted = sales.ask("SELECT country, count(*) FROM sales GROUP BY 1 ORDER BY 1")
    assert counted == [["NO", 2 * ROWS_A_DAY], ["SE", ROWS_A_DAY]]
    result = sales.ask(
        "EXPLAIN ANALYZE VERBOSE SELECT count(*) FROM sales WHERE ingestion_date = DATE '2024-01-18' AND country = 'NO'"
    )[0][0]
    assert "dataFiles' = LongCount{total=0}" in result or "dataFiles" not in result


@pytest.mark.requirement("sales.time-travel")
@pytest.mark.requirement("sales.version-as-of")
@pytest.mark.requirement("sales.timestamp-as-of")
@pytest.mark.requirement("sales.audit")
def test_every_earlier_state_is_read_by_snapshot_and_by_time_in_trino_and_pyiceberg(sales: Sales) -> None:
    then, rows = sales.snapshots()[-1], sales.rows()
    moment = datetime.now(UTC)
    sales.ask(f"DELETE FROM sales WHERE {DAY}")
    sales.add_day("2024-01-18")
    assert sales.rows() != rows
    assert sales.rows(f"FOR VERSION AS OF {then}") == rows
    assert sales.rows(f"FOR TIMESTAMP AS OF TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S.%f} UTC'") == rows
    table = sales.load()
    for snapshot in (table.snapshot_by_id(then), table.snapshot_as_of_timestamp(int(moment.timestamp() * 1000))):
        assert snapshot
        result = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().sort_by("order_id")
        assert [list(row.values()) for row in result.to_pylist()] == rows


@pytest.mark.requirement("sales.pin")
def test_a_report_that_is_pinned_by_a_tag_stays_the_same(sales: Sales) -> None:
    rows = sales.rows()
    sales.load().manage_snapshots().create_tag(sales.snapshots()[-1], "report_2024_01").commit()
    sales.add_day("2024-01-18")
    assert sales.rows("FOR VERSION AS OF 'report_2024_01'") == rows


@pytest.mark.requirement("sales.isolation")
def test_a_read_that_was_begun_is_untouched_by_writes_and_a_write_that_fails_leaves_nothing(sales: Sales) -> None:
    reading, before = sales.load(), sales.rows()
    batches = reading.scan().to_arrow_batch_reader()
    first = next(iter(batches))
    sales.ask(f"DELETE FROM sales WHERE {DAY}")
    with pytest.raises(trino.exceptions.TrinoUserError):
        sales.ask(
            "INSERT INTO sales SELECT 'ORD-z', 'C', 1 / (n - 5000), 'NO', DATE '2024-01-19' FROM UNNEST(sequence(1, "
            "9000)) t(n)"
        )
    read = first.num_rows + sum(batch.num_rows for batch in batches)
    assert read == len(before)
    assert sales.rows() == [row for row in before if str(row[4]) != DAYS[0]]


@pytest.mark.requirement("sales.atomic")
def test_a_reader_sees_all_rows_of_a_write_or_none(sales: Sales) -> None:
    stop, has_read, seen = threading.Event(), threading.Event(), set()

    def watch() -> None:
        while not stop.is_set():
            seen.add(sales.ask("SELECT count(*) FROM sales")[0][0])
            has_read.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert has_read.wait(240)
    for day in ("2024-01-18", "2024-01-19"):
        sales.add_day(day)
    stop.set()
    watcher.join()
    assert seen <= {count * ROWS_A_DAY for count in (2, 3, 4)}
    assert 2 * ROWS_A_DAY in seen


@pytest.mark.requirement("sales.bisect")
def test_the_insert_that_brought_a_wrong_amount_is_found_and_undone(sales: Sales) -> None:
    wrong = "('ORD-x', 'CUST-1', DECIMAL '2000000.00', 'NO', DATE '2024-01-18')"
    good = sales.snapshots()[-1]
    sales.ask(f"INSERT INTO sales VALUES {wrong}")
    bad = sales.snapshots()[-1]
    for day in ("2024-01-19", "2024-01-20"):
        sales.add_day(day, rows=10)
    table = Lake(catalog=connect(sales.project.settings)).table("lakehouse.sales")
    result = table.bisect("amount < 1e6")
    assert result.culprit is not None
    assert (result.culprit.entry.snapshot_id, result.good and result.good.snapshot_id) == (bad, good)
    assert [row.values["order_id"] for row in result.culprit.samples] == ["ORD-x"]
    (row,) = table.blame("amount >= 1e6").rows
    assert [source.snapshot_id for source in row.sources] == [bad]
    assert sales.ask(f"SELECT order_id FROM sales FOR VERSION AS OF {bad} WHERE amount >= 1e6") == [["ORD-x"]]
    assert sales.ask(f"SELECT count(*) FROM sales FOR VERSION AS OF {good} WHERE amount >= 1e6") == [[0]]
