"""Which columns of a query's result are columns of its driving table as they are."""

from __future__ import annotations

import pytest

from frazil.pipelines.models.incremental import plain_columns
from frazil.pipelines.models.sql import parse_query

ORDERS = "s.orders"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT day, land AS At, sum(x) AS x FROM s.orders GROUP BY day, land", {"day": "day", "at": "land"}),
        ("SELECT orders.day FROM s.orders", {"day": "day"}),
        ("SELECT o.Day FROM s.orders AS O WHERE x > 1", {"day": "day"}),
        ("SELECT o.day, day AS d, c.day AS e FROM s.orders o JOIN s.c c USING (id)", {"day": "day"}),
        ("SELECT day, item FROM s.orders LATERAL VIEW explode(items) AS item", {}),
        ("SELECT CAST(day AS DATE) AS day, day + 1 AS d, 1 AS one FROM s.orders", {}),
        ("SELECT address.day FROM s.orders", {}),
        ("SELECT * FROM s.orders", {}),
        ("SELECT o.* FROM s.orders o", {}),
        ("SELECT c.day FROM s.customers c JOIN s.orders o USING (id)", {}),
        ("SELECT day FROM (SELECT max(day) AS day FROM s.orders)", {}),
        ("WITH o AS (SELECT day + 1 AS day FROM s.orders) SELECT day FROM o", {}),
        ("SELECT day FROM s.orders UNION ALL SELECT other AS day FROM s.orders", {}),
        ("SELECT day, sum(x) AS x FROM s.orders GROUP BY day WITH ROLLUP", {}),
        ("SELECT day, sum(x) AS x FROM s.orders GROUP BY ROLLUP (day)", {}),
        ("SELECT day, sum(x) AS x FROM s.orders GROUP BY CUBE (day)", {}),
        ("SELECT day, sum(x) AS x FROM s.orders GROUP BY GROUPING SETS ((day), ())", {}),
        ("SELECT day, sum(x) AS x FROM s.orders GROUP BY day GROUPING SETS ((day), ())", {}),
    ],
)  # fmt: skip
def test_only_what_the_text_shows_is_plain(sql: str, expected: dict[str, str]) -> None:
    assert plain_columns(parse_query(sql), ORDERS) == expected
