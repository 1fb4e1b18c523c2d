"""`nearest(...)` in SQL: the rows of a vector search as a table of a query, with everything SQL does around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from pyiceberg.schema import Schema
from pyiceberg.types import FloatType, ListType, LongType, NestedField, StringType

from frazil import Lake
from frazil.cli.context import Context
from frazil.cli.query import query
from frazil.errors import FrazilError, NoSuchTable, QueryError, ScanError, VectorError
from tests.contract.test_query import make_view
from tests.kit.lake import lake_catalog
from tests.kit.raising import raises

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "kind", StringType()),
    NestedField(3, "embedding", ListType(4, FloatType(), element_required=False)),
)
OLD = [(1, "red", [1.0, 0.0]), (2, "red", [0.8, 0.6]), (3, "blue", [0.6, 0.8]), (4, "blue", [0.0, 1.0])]
NEW = [(5, "red", [0.96, 0.28]), (6, None, None)]
EAST = "nearest('lake.points', 'embedding', [1.0, 0.0]"  # 1, 5, 2, 3, 4 are the nearest


def rows(points: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(("id", "kind", "embedding"), point, strict=True)) for point in points]


@pytest.fixture(scope="module")
def lake() -> Iterator[Lake]:
    with lake_catalog() as catalog:
        catalog.create_table("lake.points", SCHEMA)
        lake = Lake(catalog=catalog)
        points = lake.table("lake.points")
        points.append(rows(OLD))
        points.create_tag("old")
        points.append(rows(NEW))
        points.create_branch("side")
        points.append(rows([(7, "side", [1.0, 0.01])]), branch="side")
        yield lake


def ask(lake: Lake, sql: str, **options: Any) -> list[Any]:
    """The rows, those of one column as plain values."""
    answer = [tuple(row.values()) for row in lake.sql(sql, **options).to_arrow().to_pylist()]
    return [row[0] for row in answer] if answer and len(answer[0]) == 1 else answer


def test_the_rows_of_a_search_are_a_table(lake: Lake) -> None:
    nearest = lake.sql(f"SELECT * FROM {EAST}, k := 2) ORDER BY _distance").to_arrow()
    assert nearest.column_names == ["id", "kind", "embedding", "_distance"]
    assert nearest["id"].to_pylist() == [1, 5]
    assert nearest["_distance"].to_pylist() == pytest.approx([0.0, 0.04], abs=1e-6)
    assert ask(lake, f"SELECT count(*) FROM {EAST})") == [5]
    assert ask(lake, f"SELECT max(_distance) FROM {EAST}, k := 1)") == [0.0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", [1, 5, 2, 3, 4]),
        (", k := 3", [1, 5, 2]),
        (", k => 1 + 1", [1, 5]),
        (", k := 2, filter := 'kind = ''blue'''", [3, 4]),
        (", k := 2, at := 'old'", [1, 2]),
        (", k := 2, at := 'side'", [1, 7]),
        (", k := 2, metric := 'l2'", [1, 5]),
        (", k := 2, filter := 'id > 1', at := 'old', metric := 'ip'", [2, 3]),
        (", k := 10000", [1, 5, 2, 3, 4]),
        (", k := 2, exact := true", [1, 5]),
    ],
)
def test_arguments_mean_what_they_mean_in_python(lake: Lake, arguments: str, expected: list[int]) -> None:
    assert ask(lake, f"SELECT id FROM {EAST}{arguments}) ORDER BY _distance") == expected


def test_a_search_is_as_of_the_query(lake: Lake) -> None:
    sql = f"SELECT id FROM {EAST}, k := 2) ORDER BY _distance"
    assert ask(lake, sql, at="old") == [1, 2]
    assert ask(lake, f"SELECT id FROM {EAST}, k := 2, at := 'main') ORDER BY _distance", at="old") == [1, 5]


def test_sql_works_around_a_search(lake: Lake) -> None:
    near = f"{EAST}, k := 3)"
    asked = {
        f"SELECT n.id FROM {near} AS n JOIN lake.points p USING (id) WHERE p.kind = 'red' ORDER BY id": [1, 2, 5],
        f"SELECT nearest.id FROM {near} ORDER BY nearest.id DESC": [5, 2, 1],
        f"SELECT a FROM {near} AS n(a, b) WHERE a > 1 ORDER BY a": [2, 5],
        f"WITH n AS (SELECT * FROM {near}) SELECT x.id + y.id FROM n x JOIN n y ON x.id < y.id ORDER BY 1": [3, 6, 7],
        f"SELECT id FROM lake.points WHERE id IN (SELECT id FROM {near}) ORDER BY id": [1, 2, 5],
        f"SELECT id FROM {near} UNION SELECT id FROM {EAST}, k := 1, filter := 'id = 4') ORDER BY 1": [1, 2, 4, 5],
        f"SELECT (SELECT min(_distance) FROM {near})": [0.0],
        f"SELECT column_name FROM (DESCRIBE SELECT * FROM {near})": ["id", "kind", "embedding", "_distance"],
    }
    assert {sql: ask(lake, sql) for sql in asked} == asked
    assert "ARROW_SCAN" in str(ask(lake, f"EXPLAIN SELECT id FROM {near}"))


def test_a_condition_of_the_query_looks_at_the_rows_that_were_found(lake: Lake) -> None:
    """It is not the search's own filter: of the two nearest none is blue."""
    assert ask(lake, f"SELECT id FROM {EAST}, k := 2) WHERE kind = 'blue'") == []


@pytest.mark.parametrize(
    ("vector", "expected"),
    [
        ("[1, 0]", [1]),
        ("[0.0::FLOAT, 1e0]", [4]),
        ("[1.0, 0.0]::FLOAT[2]", [1]),
        ("array_value(-0.0, 0.5)", [4]),
        ("(SELECT embedding FROM lake.points WHERE id = 3)", [3]),
        ("(SELECT embedding FROM nearest('lake.points', 'embedding', [0, 1], k := 1))", [4]),
        ("(SELECT list(embedding ORDER BY id) FROM lake.points WHERE kind = 'blue')", [3, 4]),
        ("[[1, 0], [0, 1]]", [1, 4]),
    ],
)
def test_vectors_are_constants_or_subqueries(lake: Lake, vector: str, expected: list[int]) -> None:
    sql = f"SELECT id FROM nearest('lake.points', 'embedding', {vector}, k := 1) ORDER BY id"
    assert ask(lake, sql) == expected


def test_several_vectors_are_numbered(lake: Lake) -> None:
    sql = "SELECT _query, id FROM nearest('lake.points', 'embedding', [[1, 0], [0, 1]], k := 2) ORDER BY 1, _distance"
    assert ask(lake, sql) == [(0, 1), (0, 5), (1, 4), (1, 3)]


def test_a_search_in_a_view(lake: Lake) -> None:
    make_view(lake.catalog, "lake.east", "SELECT id FROM nearest('points', 'embedding', [1, 0], k := 2)", "duckdb")
    assert ask(lake, "SELECT id FROM lake.east ORDER BY id") == [1, 5]
    assert ask(lake, "PIVOT lake.east ON id USING count(*)") == [(1, 1)]


def test_only_the_columns_of_the_query_are_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from frazil.vector.nearest import Nearest

    asked = []
    select = Nearest.select
    monkeypatch.setattr(Nearest, "select", lambda self, columns: asked.append([*columns]) or select(self, columns))
    assert ask(lake, f"SELECT id FROM {EAST}, k := 1)") == [1]
    assert asked == [["id"]]


WRONG: dict[str, tuple[type[FrazilError], dict[str, Any]]] = {
    "nearest('lake.points', 'embedding', [1.0])": (VectorError, {"problem": "dimension"}),
    "nearest('lake.points', 'embedding', [1.0, 0.0, 0.0])": (VectorError, {"problem": "dimension"}),
    "nearest('lake.points', 'embedding', [0, 0])": (VectorError, {"problem": "no-distance"}),
    "nearest('lake.points', 'embedding', ['nan'::FLOAT, 0])": (VectorError, {"problem": "no-distance"}),
    "nearest('lake.points', 'embedding', [NULL, 1])": (VectorError, {"problem": "no-distance"}),
    "nearest('lake.points', 'embedding', [1e300, 1])": (VectorError, {"problem": "no-distance"}),
    "nearest('lake.points', 'embedding', [])": (VectorError, {"problem": "no-vector"}),
    "nearest('lake.points', 'embedding', ['a', 'b'])": (VectorError, {"problem": "no-embedder"}),
    "nearest('lake.points', 'embedding', [[1, 0], [1]])": (VectorError, {"problem": "no-vector"}),
    "nearest('lake.points', 'embedding', NULL)": (QueryError, {"option": "vector"}),
    "nearest('lake.points', 'embedding', 'north')": (VectorError, {"problem": "no-embedder"}),
    "nearest('lake.points', 'embedding', 5)": (QueryError, {"option": "vector"}),
    "nearest('lake.points', 'embedding', (SELECT embedding FROM lake.points WHERE id = 99))": (
        QueryError,
        {"option": "vector"},
    ),
    "lake.points p, nearest('lake.points', 'embedding', p.embedding)": (
        QueryError,
        {"option": "vector", "problem": "not-constant"},
    ),
    "nearest('lake.points', 'embedding', (SELECT v FROM somewhere))": (QueryError, {"problem": "not-constant"}),
    "nearest('lake.points', 'embeding', [1, 0])": (VectorError, {"column": "embeding"}),
    "nearest('lake.points', 'kind', [1, 0])": (VectorError, {"column": "kind"}),
    "nearest('lake.point', 'embedding', [1, 0])": (NoSuchTable, {}),
    "nearest('points', 'embedding', [1, 0])": (NoSuchTable, {}),
    f"{EAST}, k := 0)": (VectorError, {"option": "k"}),
    f"{EAST}, k := -3)": (VectorError, {"option": "k"}),
    f"{EAST}, k := 1.5)": (VectorError, {"option": "k"}),
    f"{EAST}, k := 'ten')": (VectorError, {"option": "k"}),
    f"{EAST}, k := NULL)": (VectorError, {"option": "k"}),
    f"{EAST}, k := 10001)": (VectorError, {"option": "k"}),
    f"{EAST}, metric := 'manhattan')": (VectorError, {"option": "metric"}),
    f"{EAST}, metric := 3)": (QueryError, {"option": "metric"}),
    f"{EAST}, filter := 'colour = 1')": (ScanError, {}),
    f"{EAST}, filter := 'kind =')": (ScanError, {}),
    f"{EAST}, exact := 'yes')": (QueryError, {"option": "exact"}),
    f"{EAST}, filter := 1)": (QueryError, {"option": "filter"}),
    f"{EAST}, at := 'never')": (FrazilError, {}),
    f"{EAST}, top := 3)": (QueryError, {"option": "top"}),
    f"{EAST}, k := 1, k := 2)": (QueryError, {"problem": "arguments"}),
    f"{EAST}, k := 1, K := 1)": (QueryError, {"problem": "arguments"}),
    f"{EAST}, 10)": (QueryError, {"problem": "arguments"}),
    f"{EAST}, vector := [1, 0])": (QueryError, {"problem": "arguments"}),
    "nearest('lake.points', 'embedding')": (QueryError, {"option": "vector"}),
    "nearest()": (QueryError, {"option": "table"}),
}


@pytest.mark.parametrize("call", WRONG)
def test_what_cannot_be_searched_is_refused(lake: Lake, call: str) -> None:
    error, facts = WRONG[call]
    with raises(error, **facts) as caught:
        lake.sql(f"SELECT * FROM {call}").to_arrow()
    assert not isinstance(caught.value, error) or "frazil_" not in str(caught.value)


def test_the_command_searches(lake: Lake) -> None:
    context = Context()
    context.__dict__["catalog"] = lake.catalog
    sql = f"SELECT id FROM {EAST}, k := 2) ORDER BY _distance"
    result = CliRunner().invoke(query, [sql, "--output", "csv"], obj=context)
    assert result.output == "id\n1\n5\n"
