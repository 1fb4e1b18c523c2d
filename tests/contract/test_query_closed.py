"""A query reads the lake's tables and nothing else: no files, no network, no extensions, no settings; also out of
others' views.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from frazil import Lake
from frazil.errors import FrazilError, QueryError
from frazil.lake.closed_sql import ROW_FUNCTIONS
from frazil.lake.query import MOST_VIEWS
from frazil.scan.engines.duck import connect_closed, first_line
from tests.contract.test_query import SCHEMA, make_view, rows
from tests.kit.lake import lake_catalog
from tests.kit.raising import raises

SECRET = "hunter2"
KNOWN = Path(__file__).parent / "duckdb_functions.txt"
FUNCTIONS = (
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM read_blob('{file}')",
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM read_csv_auto('{file}')",
    "SELECT * FROM read_json('{file}')",
    "SELECT * FROM read_json_objects('{file}')",
    "SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM parquet_metadata('{file}')",
    "SELECT * FROM parquet_kv_metadata('{file}')",
    "SELECT * FROM sniff_csv('{file}')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')",
    "SELECT * FROM read_parquet('s3://bucket/x.parquet')",
    "SELECT * FROM read_text('https://127.0.0.1:9/x')",
    "SELECT (SELECT content FROM read_text('{file}')) AS secret, id FROM lake.t",
    "SELECT * FROM query('SELECT * FROM read_text(''{file}'')')",
    "FROM lake.t WHERE id IN (SELECT size FROM read_text('{file}'))",
    "WITH stolen AS (SELECT content FROM read_text('{file}')) SELECT * FROM stolen",
    "PIVOT (SELECT content, id FROM read_text('{file}'), lake.t) ON id USING count(*)",
    "SELECT * FROM '{file}'",
    'SELECT * FROM "{file}"',
    "SUMMARIZE SELECT * FROM read_text('{file}')",
    "EXPLAIN ANALYZE SELECT * FROM read_text('{file}')",
    "EXPLAIN EXPLAIN SELECT 1",
)
STATEMENTS = (
    "COPY (SELECT 1) TO '{folder}/out.csv'",
    "COPY lake.t TO '{folder}/out.parquet'",
    "ATTACH '{folder}/out.db' AS out",
    "EXPORT DATABASE '{folder}/out'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "PRAGMA enable_external_access = true",
    "PRAGMA database_list",
    "CALL enable_logging(storage = 'file', storage_path = '{folder}/out')",
    "CREATE SECRET (TYPE s3, KEY_ID 'a')",
    "CREATE TABLE x AS SELECT 1",
    "SELECT 1; COPY (SELECT 1) TO '{folder}/out.csv'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/out.csv'",
)
# They take addresses of memory, or make them, or run SQL that stands in a value; `_` is where a tree's text goes.
MEMORY = (
    "SELECT * FROM json_execute_serialized_sql('_')",
    "SELECT * FROM system.main.json_execute_serialized_sql('_')",
    "SELECT * FROM JSON_Execute_Serialized_SQL('_')",
    "SELECT * FROM \"json_execute_serialized_sql\"('_')",
    "SELECT (SELECT max(a) FROM json_execute_serialized_sql('_') t(a)) AS a",
    "WITH t AS (FROM json_execute_serialized_sql('_')) FROM t",
    "SELECT * FROM lake.t, LATERAL (FROM json_execute_serialized_sql('_'))",
    "SELECT * FROM query('FROM json_execute_serialized_sql(''_'')')",
    "SELECT * FROM query_table('lake.t')",
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "SELECT * FROM arrow_scan_dumb(1, 2, 3)",
    "SELECT * FROM pandas_scan(1)",
    "SELECT * FROM python_map_function((FROM lake.t), 1, 2)",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_views",
    "SELECT * FROM pragma_database_list",
    "SELECT json_serialize_plan('SELECT id FROM lake.t')",
    "SELECT max(Json_Serialize_Plan('SELECT id FROM lake.t')) OVER () FROM lake.t",
    "SELECT current_setting('secret_directory')",
    "SUMMARIZE FROM json_execute_serialized_sql('_')",
    "DESCRIBE FROM duckdb_settings()",
    "EXPLAIN SELECT * FROM json_execute_serialized_sql('_')",
    "PIVOT (FROM json_execute_serialized_sql('_')) ON a USING count(*)",
    "PIVOT (FROM json_execute_serialized_sql /* x */ ('_')) ON a USING count(*)",
    "PIVOT (FROM json_execute_serialized_sql\N{NO-BREAK SPACE}('_')) ON a USING count(*)",
    "PIVOT (FROM duckdb_views) ON view_name USING count(*)",
    "PIVOT (FROM information_schema.tables) ON table_name USING count(*)",
    "PIVOT (SELECT current_setting('secret_directory') AS a) ON a USING count(*)",
    "SELECT finalize(cast_to_type(unhex('2c00'), any_value('x') EXPORT_STATE))",
    "SELECT hex((any_value(repeat('x', 100)) EXPORT_STATE)::BLOB)",
    "SELECT sum(id) EXPORT_STATE FROM lake.t",
    "PIVOT (SELECT 1 AS a, (any_value(repeat('x', 100)) EXPORT_STATE)::BLOB AS b) ON a USING max(b)",
    "WITH pg_settings AS (FROM pg_settings) SELECT name, setting FROM pg_settings",
    "SELECT name FROM pg_settings, (WITH pg_settings AS (SELECT 1) SELECT 1)",
    "SELECT lag(id, -9223372036854775808) OVER () FROM lake.t",
    "SELECT lead(id, id) OVER () FROM lake.t",
    "SELECT from_json('1', repeat('[', 60000))",
    "SELECT json_transform('1', (SELECT country FROM lake.t LIMIT 1))",
    "SELECT json_structure(repeat('[', 1000000))",
    "SELECT repeat('[', 1000000)::JSON::VARIANT",
    "SELECT TRY_CAST('1' AS STRUCT(a VARIANT[]))",
    "SELECT sleep_ms(1000000)",
)
FAULT = """SELECT json_deserialize_sql(replace(json_serialize_sql('SELECT CAST(1 AS INT)'), '"child":', '"chil":'))"""
BROKEN = {
    "SELECT '\\xff\\xff\\xff\\xff'::BLOB::UUID": "bytes",
    "SELECT " + "1+" * 900 + "1": "nested",
}


@pytest.fixture(scope="module")
def lake() -> Iterator[Lake]:
    with lake_catalog() as catalog:
        catalog.create_table("lake.t", SCHEMA).append(rows((1, "NO"), (2, None)))
        make_view(catalog, "lake.norway", "SELECT id FROM lake.t WHERE country = 'NO'", "duckdb")
        yield Lake(catalog=catalog)


def fill(sql: str, folder: Path) -> str:
    (folder / "secret.txt").write_text(f"a,b\n{SECRET},2\n")
    return sql.format(file=folder / "secret.txt", folder=folder)


@pytest.mark.parametrize("sql", [*FUNCTIONS, *STATEMENTS])
def test_a_query_reads_no_file_and_changes_nothing(lake: Lake, tmp_path: Path, sql: str) -> None:
    with pytest.raises(FrazilError) as failed:
        lake.sql(fill(sql, tmp_path)).to_arrow()
    assert SECRET not in str(failed.value)
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]


@pytest.mark.parametrize("sql", [*FUNCTIONS, *STATEMENTS])
def test_neither_does_a_stored_view(lake: Lake, tmp_path: Path, sql: str) -> None:
    make_view(lake.catalog, "lake.evil", fill(sql, tmp_path), "duckdb")
    try:
        with pytest.raises(FrazilError) as failed:
            lake.sql("SELECT * FROM lake.evil").to_arrow()
    finally:
        lake.catalog.drop_view("lake.evil")
    assert SECRET not in str(failed.value)
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]


@pytest.mark.parametrize("sql", MEMORY)
def test_a_query_calls_no_function_that_reads_memory_or_runs_a_value(lake: Lake, sql: str) -> None:
    tree = '{"statements": []}'
    with raises(QueryError, problem="closed-function"):
        lake.sql(sql.replace("_'", f"{tree}'") if "('_" in sql else sql).to_arrow()


@pytest.mark.parametrize("sql", MEMORY)
def test_no_view_calls_such_a_function_for_who_reads_it(lake: Lake, sql: str) -> None:
    make_view(lake.catalog, "lake.evil", sql, "duckdb")
    try:
        with raises(QueryError, problem="closed-function"):
            lake.sql("SELECT * FROM lake.evil").to_arrow()
    finally:
        lake.catalog.drop_view("lake.evil")


@pytest.mark.parametrize("sql", BROKEN)
def test_a_query_that_breaks_the_parser_or_its_messages_is_an_error_of_ours(lake: Lake, sql: str) -> None:
    with raises(QueryError, problem=BROKEN[sql]):
        lake.sql(sql).to_arrow()


def test_a_fault_inside_duckdb_tells_no_address() -> None:
    with connect_closed() as con, pytest.raises(duckdb.InternalException, match="0x") as failed:
        con.execute(FAULT)
    assert "0x" not in first_line(failed.value)


def test_a_view_of_too_many_views_is_refused(lake: Lake) -> None:
    names = [f"lake.v{number}" for number in range(MOST_VIEWS + 1)]
    for name, source in zip(names, ["lake.t", *names], strict=False):
        make_view(lake.catalog, name, f"SELECT * FROM {source}", "duckdb")
    try:
        assert lake.sql(f"SELECT count(*) AS n FROM {names[-2]}").to_arrow()["n"].to_pylist() == [2]
        with raises(QueryError, problem="nested"):
            lake.sql(f"SELECT * FROM {names[-1]}")
    finally:
        for name in names:
            lake.catalog.drop_view(name)


CTES = {
    "WITH t AS (SELECT * FROM lake.t WHERE id = 1) SELECT count(*) AS n FROM t": 1,
    "WITH T AS (SELECT * FROM t WHERE id = 1) SELECT count(*) AS n FROM t": 1,
    "WITH a AS (SELECT * FROM t), t AS (SELECT 1 AS id LIMIT 0) SELECT count(*) AS n FROM a": 2,
    "SELECT (SELECT count(*) FROM t) AS n, (WITH t AS (SELECT 1 LIMIT 0) SELECT count(*) FROM t) AS m": 2,
    "WITH RECURSIVE t AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM t WHERE id < 5) SELECT count(*) AS n FROM t": 5,
}


@pytest.mark.parametrize("sql", CTES)
def test_a_name_of_a_view_is_its_own_cte_before_a_table_of_the_namespace(lake: Lake, sql: str) -> None:
    make_view(lake.catalog, "lake.named", sql, "duckdb")
    try:
        assert lake.sql("SELECT n FROM lake.named").to_arrow()["n"].to_pylist() == [CTES[sql]]
    finally:
        lake.catalog.drop_view("lake.named")


def test_functions_of_rows_are_an_allow_list(lake: Lake) -> None:
    con = connect_closed()
    functions = con.execute("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type LIKE 'table%'")
    refused = set()
    for (name,) in functions.fetchall():
        with pytest.raises(QueryError) as failed:
            lake.sql(f"SELECT * FROM {name}(nothing)")
        if failed.value.problem in ("closed-function", "file-access"):
            refused.add(name)
    assert {"arrow_scan", "pandas_scan", "query", "read_text", "duckdb_settings"} <= refused
    assert not refused & ROW_FUNCTIONS
    con.close()


def test_every_function_of_this_duckdb_has_been_looked_at() -> None:
    """A newer DuckDB has new ones. Those that read memory, files or settings, run SQL, or end the process belong into
    `closed_sql.py`; then all are listed here.
    """
    with connect_closed() as con:
        functions = con.execute("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type != 'pragma'")
        names = {name for (name,) in functions.fetchall()}
    assert names == set(KNOWN.read_text(encoding="utf-8").splitlines())


def test_the_error_says_what_to_do(lake: Lake, tmp_path: Path) -> None:
    with raises(QueryError, problem="file-access") as failed:
        lake.sql(fill(FUNCTIONS[0], tmp_path))
    assert failed.value.hint


def test_variables_of_the_program_are_no_tables(lake: Lake) -> None:
    for name in ("tables", "con", "sql", "lake"):  # as they are called where the query is run
        with pytest.raises(QueryError, match="does not exist"):
            lake.sql(f"SELECT * FROM {name}")


def test_what_a_query_is_for_still_works(lake: Lake) -> None:
    asked = {
        "SELECT count(*) AS n FROM lake.t": [2],
        "SELECT n.id AS n FROM lake.norway n JOIN lake.t USING (id)": [1],
        "WITH x AS (SELECT id FROM lake.t) SELECT max(id) AS n FROM x": [2],
        "SELECT json_extract('{\"a\": 5}', '$.a')::INT AS n": [5],
        "SELECT extract(year FROM TIMESTAMPTZ '2024-05-01 00:00:00+02') AS n": [2024],
        "SELECT count(*) AS n FROM range(10)": [10],
        "SELECT column_name AS n FROM (DESCRIBE lake.t)": ["id", "country"],
        "SELECT count(*) AS n FROM lake.t, unnest([1, 2])": [4],
        "SELECT count(*) AS n FROM json_each('[1, 2, 3]')": [3],
        "SELECT NO AS n FROM (PIVOT lake.t ON country IN ('NO') USING count(*)) ORDER BY 1 DESC LIMIT 1": [1],
    }
    assert {sql: lake.sql(sql).to_arrow()["n"].to_pylist() for sql in asked} == asked


def test_a_closed_duckdb_spills_to_disk(tmp_path: Path) -> None:
    con = connect_closed(memory_limit="60MB", threads=1, temp_directory=str(tmp_path))
    con.register("numbers", pa.table({"i": pa.array(range(1_500_000), pa.int64())}))
    distinct = "SELECT count(*) FROM (SELECT DISTINCT i, hash(i) AS h, hash(i + 1) AS g FROM numbers)"
    assert con.execute(distinct).fetchall() == [(1_500_000,)]
    con.close()
