"""SQL over the lake, on DuckDB: at any point of the past, read-only, with errors that help."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.errors import FrazilError, HistoryError, NoSuchTable, QueryError
from tests.contract.history_lake import Past, tick
from tests.kit.raising import raises


@pytest.fixture(scope="module")
def past() -> Iterator[Past]:
    """`lake.t` had ids 1 and 2 at tag v1, has 3 on main and 9 on branch dev."""
    with running_catalog() as server:
        catalog = FrazilCatalog("lake", **server.properties)
        catalog.create_namespace("lake")
        past = Past(catalog, "lake.t")
        past.create()
        past.append(1, 2)
        tick()
        past.then = datetime.now(UTC)  # type: ignore[attr-defined]
        tick()
        past.table.create_tag("v1")
        past.table.create_branch("dev")
        with past.live.update_schema() as update:
            update.rename_column("name", "label")
        for number, branch in ((3, "main"), (9, "dev")):
            past.live.append(
                pa.table({"id": [number], "label": [f"n{number}"]}, schema=past.live.schema().as_arrow()),
                branch=branch,
            )
        yield past


def ask(past: Past, sql: str, at: object = None) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in past.lake.sql(sql, at=at).to_arrow().to_pylist()]  # type: ignore[arg-type]


def test_a_query_reads_the_present_and_every_kind_of_point(past: Past) -> None:
    first = past.live.snapshots()[0].snapshot_id
    points = [None, first, past.then, past.then.isoformat(), "v1", "dev", "main"]  # type: ignore[attr-defined]
    assert [ask(past, "SELECT sum(id) FROM lake.t", at) for at in points] == [
        [(6,)],
        [(3,)],
        [(3,)],
        [(3,)],
        [(3,)],
        [(12,)],
        [(6,)],
    ]


def test_tables_of_one_query_are_read_at_points_of_their_own(past: Past) -> None:
    sql = """
        WITH earlier AS (SELECT id FROM lake.t AT (VERSION => 'v1'))
        SELECT (SELECT count(*) FROM earlier), count(*), (SELECT max(id) FROM lake.t AT (VERSION => 'dev')),
            (SELECT count(*) FROM lake.t AT (TIMESTAMP => TIMESTAMP '{then}')) FROM lake.t"""
    assert ask(past, sql.format(then=past.then.isoformat())) == [(2, 3, 9, 2)]  # type: ignore[attr-defined]


def test_a_point_has_the_columns_of_its_time(past: Past) -> None:
    assert ask(past, "SELECT name FROM lake.t WHERE id = 2", "v1") == [("n2",)]
    assert ask(past, "SELECT label FROM lake.t WHERE t.id = 2 OR lake.t.id = 3 ORDER BY id") == [("n2",), ("n3",)]


def test_columns_of_one_name_are_all_given(past: Past) -> None:
    result = past.lake.sql("SELECT a.id, b.id, 7 AS id FROM lake.t a JOIN lake.t b ON a.id + 1 = b.id ORDER BY 1")
    assert result.to_arrow().to_pylist() == [{"id": 1, "id_1": 2, "id_2": 7}, {"id": 2, "id_1": 3, "id_2": 7}]


def test_a_nested_namespace_is_written_with_dots(past: Past) -> None:
    past.catalog.create_namespace("region")
    past.catalog.create_namespace(("region", "north"))
    other = Past(past.catalog, "region.north.t")
    other.create()
    other.append(5)
    assert ask(past, "SELECT id FROM region.north.t") == [(5,)]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("SELECT * FROM lake.tt", NoSuchTable, r"Table does not exist: lake.tt\n  did you mean lake.t\?"),
        (
            "SELECT * FROM t",
            QueryError,
            r"Table with name t does not exist!\n  tables are named with their namespace: lake.t",
        ),
        ("SELECT lable FROM lake.t", QueryError, 'Referenced column "lable" not found.*"label"'),
        ("SELCT 1", QueryError, r"the query cannot be understood: syntax error at or near \"SELCT\", at: SELCT 1"),
        ("SELECT 1; SELECT 2", QueryError, "one query at a time, not 2"),
        ("SELECT * FROM lake.t AT (VERSION => 'v2')", HistoryError, "no branch or tag 'v2'"),
        ("SELECT * FROM lake.t AT (VERSION => 1 + 1)", QueryError, "AT of lake.t must be a plain value"),
        ("SELECT error('boom') FROM lake.t", QueryError, "boom"),
    ],
)
def test_what_cannot_be_run_is_an_error_that_helps(
    past: Past, sql: str, error: type[FrazilError], message: str
) -> None:
    with pytest.raises(error, match=message):
        past.lake.sql(sql).to_arrow()


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM lake.t",
        "INSERT INTO lake.t VALUES (4, 'x')",
        "DROP TABLE lake.t",
        "COPY (SELECT 1) TO '{folder}/out.csv'",
        "ATTACH '{folder}/new.db'",
        "CREATE TABLE x AS SELECT 1",
    ],
)
def test_nothing_but_reading_is_done(past: Past, sql: str, tmp_path: Path) -> None:
    head = past.head()
    with raises(QueryError, problem="not-a-select"):
        past.lake.sql(sql.format(folder=tmp_path))
    assert (past.head(), list(tmp_path.iterdir())) == (head, [])
