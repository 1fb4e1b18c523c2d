"""Queries in another dialect: every kind of query becomes a row, and no query ends the run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from examples.transpile.queries import make_queries, make_query
from examples.transpile.transpiling import SCHEMA, Dialects, transpile, transpile_rows
from frazil.project import load_project
from frazil.write.contract.sql_limits import DEEPEST
from frazil.write.files.schema import arrow_schema

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/transpile"
HERE = Dialects("snowflake", "spark")


def queries(*texts: str | bytes | None, kind: pa.DataType | None = None) -> pa.RecordBatch:
    ids = pa.array([f"q{number}" for number in range(len(texts))])
    return pa.record_batch([ids, pa.array(texts, kind or pa.string())], ["query_id", "sql"])


def test_queries_become_rows_with_their_place_in_the_file() -> None:
    rows = transpile_rows(queries("SELECT IFF(a, 1, 2)", "SELECT (1"), HERE, file="f.parquet", first=40)
    assert rows.to_pylist() == [
        {
            "query_id": "q0",
            "sql": "SELECT IFF(a, 1, 2)",
            "transpiled": "SELECT IF(a, 1, 2)",
            "error": None,
            "source_file": "f.parquet",
            "position": 40,
        },
        {
            "query_id": "q1",
            "sql": "SELECT (1",
            "transpiled": None,
            "error": "Expecting ) at line 1, column 9",
            "source_file": "f.parquet",
            "position": 41,
        },
    ]


def test_rows_have_the_types_of_the_declared_table() -> None:
    (declared,) = load_project(EXAMPLE).tables
    schema = arrow_schema(declared.schema())
    assert [(field.name, field.type, field.nullable) for field in schema] == [
        (field.name, field.type, field.nullable) for field in SCHEMA
    ]


@pytest.mark.parametrize(
    ("read", "write", "sql", "expected"),
    [
        ("snowflake", "trino", "SELECT IFF(a, 1, 2)", "SELECT IF(a, 1, 2)"),
        ("mysql", "postgres", "SELECT `a` FROM `t` LIMIT 2, 3", 'SELECT "a" FROM "t" LIMIT 3 OFFSET 2'),
        ("bigquery", "duckdb", "SELECT SAFE_CAST(x AS INT64)", "SELECT TRY_CAST(x AS BIGINT)"),
    ],
)
def test_both_dialects_can_be_chosen(read: str, write: str, sql: str, expected: str) -> None:
    assert transpile(sql, Dialects(read, write)) == (expected, None)


def test_an_unknown_dialect_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="Unknown dialect 'snowfalke'"):
        Dialects("snowfalke", "spark")


@pytest.mark.parametrize("sql", [None, "", "  ", ";", "-- nothing", "/* nothing */ ;"])
def test_no_query_is_a_row_that_says_so(sql: str | None) -> None:
    assert transpile(sql, HERE) == (None, "no query")


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("SELEC 1", "Invalid expression / Unexpected token at line 1, column 7"),
        ("SELECT * FROM", "Expected table name at line 1, column 13"),
        ("SELECT\n1 +\n(2", "Expecting ) at line 3, column 2"),
        ("SELECT 'a", "Error tokenizing 'SELECT ''"),
        ("SELECT 1 /*", "Error tokenizing 'SELECT 1 /'"),
    ],
)
def test_what_cannot_be_read_is_a_row_with_its_error_in_plain_text(sql: str, error: str) -> None:
    assert transpile(sql, HERE) == (None, error)


def test_several_statements_stay_several() -> None:
    assert transpile("SELECT 1; SELECT 2;", HERE) == ("SELECT 1;\nSELECT 2", None)


def test_what_the_parser_passes_on_unread_is_said() -> None:
    result, error = transpile("CREATE TABLE t AS SELECT a FORM b", HERE)
    assert (result, error) == ("CREATE TABLE t AS SELECT a FORM b", "not understood, left as it was")


def test_what_the_target_lacks_is_named_and_the_rest_is_translated() -> None:
    result = transpile("SELECT * FROM t TABLESAMPLE (10 PERCENT)", Dialects("spark", "mysql"))
    assert result == ("SELECT * FROM t", "not in mysql: TABLESAMPLE unsupported")
    assert transpile("SHOW TABLES", Dialects("snowflake", "trino")) == (
        None,
        "not in trino: Unsupported SHOW statement",
    )


@pytest.mark.parametrize("levels", [DEEPEST, DEEPEST + 1, 100_000])
def test_queries_nested_however_deep_do_not_end_the_process(levels: int) -> None:
    """The compiled parser overflows the stack at 10,000 subqueries, and takes the process with it."""
    result, error = transpile("SELECT * FROM " + "(SELECT * FROM " * levels + "t" + ")" * levels, HERE)
    if levels > DEEPEST:
        assert (result, error) == (None, f"nested more than {DEEPEST} levels deep")
    else:
        assert (result is not None, error) == (True, None)


@pytest.mark.usefixtures("uncollected")
def test_what_nests_without_parentheses_ends_at_pythons_own_limit() -> None:
    assert transpile("SELECT " + "NOT " * 2_000 + "a", HERE) == (None, "nested too deeply")


def test_many_parentheses_side_by_side_are_not_deep() -> None:
    result, error = transpile("SELECT " + " + ".join(["(a)"] * 3000), HERE)
    assert (result is not None, error) == (True, None)


def test_a_fault_inside_the_parser_is_the_error_of_that_query(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AttributeError("'NoneType' object has no attribute 'this'")

    monkeypatch.setattr("sqlglot.parse", fail)
    assert transpile("SELECT 1", HERE) == (None, "AttributeError: 'NoneType' object has no attribute 'this'")


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())]
)
def test_queries_may_come_in_any_column_of_text(kind: pa.DataType) -> None:
    plain = queries("SELECT 1", None).column(1)
    column = plain.dictionary_encode() if pa.types.is_dictionary(kind) else plain.cast(kind)
    batch = pa.record_batch([pa.array([1, 2]), column], ["query_id", "sql"])
    rows = transpile_rows(batch, HERE, file="f", first=0)
    assert (rows["query_id"].to_pylist(), rows["transpiled"].to_pylist()) == (["1", "2"], ["SELECT 1", None])


def test_text_that_is_no_utf8_is_a_row_as_well() -> None:
    rows = transpile_rows(queries(b"SELECT '\xff'", kind=pa.binary()), HERE, file="f", first=0)
    assert rows["sql"].to_pylist() == ["SELECT '\\xff'"]
    rows.validate(full=True)


def test_made_queries_repeat_and_differ() -> None:
    (batch,) = make_queries(12_000, seed=2)
    assert batch["sql"][700].as_py() == make_query(700, seed=2)
    assert len(set(batch["sql"].to_pylist())) > 10_000
    assert len(set(batch["query_id"].to_pylist())) == 12_000
    assert [len(part) for part in make_queries(45_000)] == [20_000, 20_000, 5_000]


def test_made_queries_are_readable_but_for_their_share() -> None:
    (batch,) = make_queries(600, seed=3)
    errors = len(batch) - transpile_rows(batch, HERE, file="f", first=0)["error"].null_count
    assert 1 <= errors <= 40
    (good,) = make_queries(200, seed=3, bad_share=0)
    assert transpile_rows(good, HERE, file="f", first=0)["error"].null_count == 200
