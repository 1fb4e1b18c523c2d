"""A model that is declared wrongly is refused where it is declared."""

from __future__ import annotations

from typing import Any

import pytest

from frazil import column, model
from frazil.errors import DeclarationError
from tests.kit.raising import raises

ORDERS = "SELECT id, day, amount FROM silver.orders"
JOINED = "SELECT o.id, c.name FROM silver.orders o LEFT JOIN silver.customers c USING (id)"


def test_a_model_without_a_mode_is_rebuilt() -> None:
    revenue = model("gold.revenue", "SELECT day, sum(amount) AS revenue FROM silver.orders GROUP BY day ;\n")
    assert (revenue.name, revenue.sql, revenue.inputs, revenue.mode, revenue.mode_reason, revenue.driving) == (
        "gold.revenue",
        "SELECT day, sum(amount) AS revenue FROM silver.orders GROUP BY day",
        ("silver.orders",),
        "rebuild",
        "no mode declared: rebuilt from its inputs",
        None,
    )


def test_an_incremental_model_reads_new_rows_of_the_first_table_in_from() -> None:
    declared = model("g.t", f"WITH c AS (SELECT * FROM s.c) {JOINED}", mode="append", tags=["daily"], group="gold")
    assert (declared.inputs, declared.driving, declared.mode_reason) == (
        ("s.c", "silver.orders", "silver.customers"),
        "silver.orders",
        "declared",
    )
    assert (declared.tags, declared.group) == (("daily",), "gold")


def test_the_table_of_a_model_has_its_columns_partitions_and_checks() -> None:
    columns = [column("id", "long"), column("day", "date"), column("amount", "decimal(12,2)")]
    declared = model("g.t", ORDERS, columns=columns, partition_by=["day"], checks=["amount >= 0"], doc="Orders.")
    table = declared.table()
    assert (table.name, [str(c) for c in table.columns], table.partition_by, table.checks, table.properties) == (
        "g.t",
        ["id: long", "day: date", "amount: decimal(12, 2)"],
        ("day",),
        ("amount >= 0",),
        {"comment": "Orders."},
    )


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"name": "revenue"}, {"option": "name", "got": "revenue"}),
        ({"name": "gold..revenue"}, {"option": "name"}),
        ({"sql": "SELECT 1 AS a FROM orders"}, {"option": "sql", "name": "orders", "problem": "namespace"}),
        ({"sql": "SELECT * FROM g.t"}, {"option": "sql", "name": "g.t", "problem": "cycle"}),
        ({"sql": "DROP TABLE g.t"}, {"option": "sql", "problem": "not-a-query", "table": "g.t"}),
        ({"sql": 5}, {"option": "sql", "table": "g.t"}),
        ({"sql": "SELECT count(*) FROM s.x"}, {"option": "sql", "problem": "unnamed"}),
        ({"sql": "SELECT a, b AS A FROM s.x"}, {"option": "sql", "problem": "twice", "column": "a"}),
        ({"mode": "merge"}, {"option": "mode", "got": "merge"}),
        ({"mode": "upsert"}, {"option": "key", "problem": "missing"}),
        ({"mode": "replace-partition"}, {"option": "partition_by", "problem": "missing"}),
        ({"mode": "upsert", "key": "order_id"}, {"option": "key", "column": "order_id"}),
        ({"partition_by": ["month(ts)"]}, {"option": "partition_by", "column": "ts"}),
        ({"partition_by": ["weekly(day)"]}, {"table": "g.t"}),
        ({"columns": [column("id", "long")]}, {"option": "columns", "problem": "mismatch"}),
        ({"columns": [column("id", "lon")]}, {"column": "id", "table": "g.t"}),
        ({"driving": "silver.orders"}, {"option": "driving", "problem": "not-applicable"}),
        ({"mode": "append", "driving": "s.other"}, {"option": "driving", "problem": "missing"}),
        ({"sql": "SELECT 1 AS a", "mode": "append"}, {"option": "mode", "got": "append"}),
        ({"audit": "SELECT * FROM g.t"}, {"option": "audit", "problem": "no-table"}),
        ({"tags": ["a,b"]}, {"option": "tags", "got": "a,b"}),
        ({"group": ""}, {"option": "group", "got": ""}),
    ],
)
def test_a_wrong_declaration_is_refused(options: dict[str, Any], facts: dict[str, Any]) -> None:
    values = {"name": "g.t", "sql": ORDERS, **options}
    with raises(DeclarationError, **facts):
        model(values.pop("name"), values.pop("sql"), **values)


X = "silver.x"


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("SELECT * FROM silver.x", None),
        ("SELECT id FROM silver.x JOIN s.c USING (id)", None),
        ("SELECT id FROM s.c RIGHT JOIN silver.x USING (id)", None),
        ("SELECT id FROM silver.x LEFT ANTI JOIN s.c USING (id)", None),
        ("SELECT id FROM silver.x WHERE id IN (SELECT max(id) FROM s.c)", None),
        ("WITH n AS (SELECT id, count(*) AS n FROM s.c GROUP BY id) SELECT * FROM silver.x JOIN n USING (id)", None),
        ("WITH unused AS (SELECT DISTINCT id FROM silver.x) SELECT * FROM silver.x", None),
        ("SELECT id FROM silver.x UNION ALL SELECT -id FROM silver.x", None),
        ("SELECT * FROM silver.x, LATERAL (SELECT max(a) AS a FROM s.c WHERE c.id = x.id)", None),
        ("SELECT x.*, e FROM silver.x LATERAL VIEW explode(es) t AS e", None),
        ("SELECT aggregate(es, 0, (a, e) -> a + e) AS a, greatest(b, c) AS b FROM silver.x", None),
        ("SELECT * FROM (silver.x JOIN s.c USING (id))", None),
        ("SELECT count(*) AS n FROM silver.x", "aggregate"),
        ("SELECT try_sum(a) AS a FROM silver.x", "aggregate"),
        ("SELECT any(a) AS a FROM silver.x", "aggregate"),
        ("SELECT id FROM silver.x GROUP BY id", "aggregate"),
        ("SELECT * FROM silver.x PIVOT (sum(a) FOR b IN (1))", "aggregate"),
        ("SELECT * FROM (SELECT id, max(a) AS a FROM silver.x GROUP BY id)", "aggregate"),
        ("WITH y AS (SELECT * FROM silver.x), z AS (SELECT sum(a) AS a FROM y) SELECT * FROM z", "aggregate"),
        ("SELECT * FROM s.c, LATERAL (SELECT max(a) AS a FROM silver.x WHERE c.id = x.id)", "aggregate"),
        ("FROM silver.x |> AGGREGATE sum(a) AS a GROUP BY id", "aggregate"),
        ("SELECT DISTINCT id FROM silver.x", "distinct"),
        ("SELECT row_number() OVER (PARTITION BY id ORDER BY ts) AS n FROM silver.x", "window"),
        ("SELECT * FROM silver.x ORDER BY id LIMIT 10", "limit"),
        ("SELECT id FROM s.c LEFT JOIN silver.x USING (id)", "join"),
        ("SELECT id FROM silver.x RIGHT JOIN s.c USING (id)", "join"),
        ("SELECT id FROM silver.x FULL JOIN s.c USING (id)", "join"),
        ("SELECT id FROM s.c LEFT SEMI JOIN silver.x USING (id)", "join"),
        ("SELECT id FROM (s.c LEFT JOIN silver.x USING (id))", "join"),
        ("SELECT a.id FROM silver.x a JOIN silver.x b USING (id)", "twice"),
        ("WITH y AS (SELECT * FROM silver.x) SELECT a.id FROM y a JOIN y b USING (id)", "twice"),
        ("SELECT * FROM s.c WHERE id IN (SELECT id FROM silver.x)", "unread|subquery"),
        ("SELECT * FROM silver.x WHERE ts = (SELECT max(ts) FROM silver.x)", "subquery"),
        ("SELECT id FROM silver.x UNION ALL SELECT id FROM s.c", "unread"),
        ("WITH y AS (SELECT * FROM silver.x) SELECT * FROM s.c", "unread"),
        ("SELECT id FROM silver.x UNION SELECT -id FROM silver.x", "set"),
        ("SELECT id FROM silver.x EXCEPT SELECT id FROM silver.x", "set"),
    ],
)
def test_an_append_takes_queries_that_treat_each_new_row_alone(query: str, problem: str | None) -> None:
    if problem is None:
        assert model("g.t", query, mode="append", driving=X).driving == X
        return
    with raises(DeclarationError, option="mode", name=X) as caught:
        model("g.t", query, mode="append", driving=X)
    assert caught.value.problem in problem.split("|")


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("SELECT id, row_number() OVER (PARTITION BY id ORDER BY ts DESC) AS n FROM silver.x", "window"),
        ("SELECT id, sum(a) AS a FROM silver.x GROUP BY id", "aggregate"),
        ("SELECT DISTINCT id FROM silver.x", "distinct"),
    ],
)
def test_an_upsert_refuses_rows_that_depend_on_each_other(query: str, problem: str) -> None:
    """Of two rows that changed one may be deleted, while a third one that did not change takes its place."""
    with raises(DeclarationError, option="mode", problem=problem):
        model("g.t", query, mode="upsert", key="id")


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("SELECT day, sum(a) AS a FROM silver.x GROUP BY day", None),
        ("SELECT to_date(ts) AS day, sum(a) AS a FROM silver.x GROUP BY to_date(ts)", None),
        ("SELECT x.day, c.name, count(*) AS n FROM silver.x JOIN s.c USING (id) GROUP BY x.day, c.name", None),
        ("SELECT day, sum(a) AS a FROM silver.x GROUP BY 1", None),
        ("SELECT day, sum(a) AS a FROM silver.x GROUP BY ALL", None),
        ("SELECT day, id FROM silver.x WHERE a > 0", None),
        ("SELECT DISTINCT day FROM silver.x", None),
        ("SELECT id, max(day) AS day FROM silver.x GROUP BY id", "partition"),
        ("SELECT max(ts) AS day, sum(a) AS a FROM silver.x GROUP BY day", "partition"),
        ("SELECT day, sum(a) AS a FROM silver.x GROUP BY day HAVING sum(a) > 10", "having"),
        ("SELECT day FROM (SELECT id, max(day) AS day FROM silver.x GROUP BY id)", "nested"),
        (
            "WITH l AS (SELECT id, max(day) AS day FROM silver.x GROUP BY id) SELECT day, count(*) FROM l GROUP BY day",
            "nested",
        ),
        ("SELECT day, rank() OVER (ORDER BY a) AS r FROM silver.x", "window"),
    ],
)
def test_partitions_are_replaced_only_where_the_changed_rows_tell_them(query: str, problem: str | None) -> None:
    if problem is None:
        assert model("g.t", query, mode="replace-partition", partition_by="day", driving=X).driving == X
        return
    with raises(DeclarationError, option="mode", problem=problem):
        model("g.t", query, mode="replace-partition", partition_by="day", driving=X)


def test_functions_that_differ_from_run_to_run_are_noted() -> None:
    query = "SELECT id, uuid() AS u, current_timestamp() AS t FROM silver.x WHERE day < now() AND a > rand()"
    assert [note.partition(":")[0] for note in model("g.t", query).notes] == [
        "uuid",
        "current_timestamp",
        "now",
        "rand",
    ]
