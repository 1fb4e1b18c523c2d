"""The rows and the models of the graph, in SQL that Spark and DuckDB both read."""

from __future__ import annotations

from dataclasses import dataclass

DAYS = 100
LARGE = 900

SILVER = (
    "SELECT order_id, customer_id, CAST(amount AS DECIMAL(12,2)) AS amount, upper(country) AS country, day "
    "FROM {orders} WHERE amount > 0"
)
REVENUE = (
    "SELECT day, country, sum(amount) AS revenue, count(*) AS orders, count(DISTINCT customer_id) AS customers "
    "FROM {silver} GROUP BY day, country"
)
LARGE_ORDERS = f"SELECT order_id, customer_id, amount, country, day FROM {{silver}} WHERE amount >= {LARGE}"
CHECKS = (
    "SELECT count(*), sum(amount), sum(order_id) FROM {silver}",
    "SELECT count(*), sum(revenue), sum(orders), sum(customers) FROM {revenue}",
    "SELECT count(*), sum(amount), sum(order_id) FROM {large}",
)


@dataclass(frozen=True)
class Size:
    """How many orders there are, and how many changes are measured."""

    orders: int
    changes: int

    @property
    def change(self) -> int:
        """The orders that a change brings: one percent."""
        return self.orders // 100


FULL = Size(10_000_000, 3)
QUICK = Size(400_000, 1)


def orders(size: Size, number: int) -> str:
    """The orders of the first load (number 0) or of a change, as a query over `{range}` with the column `id`."""
    if number == 0:
        day = f"CAST(floor(id / {size.orders // DAYS}) AS INT)"
    else:
        day = f"{DAYS + number - 1} - CASE WHEN id % 10 = 0 THEN 1 + CAST(floor(id / 10) AS INT) % 2 ELSE 0 END"
    return (
        f"SELECT id AS order_id, CAST(id % 100000 AS INT) AS customer_id, "
        f"CAST((id * 7919) % 100003 / 100.0 AS DECIMAL(12,2)) AS amount, "
        f"CASE id % 5 WHEN 0 THEN 'no' WHEN 1 THEN 'se' WHEN 2 THEN 'dk' WHEN 3 THEN 'de' ELSE 'fr' END AS country, "
        f"date_add(DATE '2024-01-01', {day}) AS day, {number} AS load FROM {{range}}"
    )


def ids(size: Size, number: int) -> tuple[int, int]:
    """The first id of a load, and the one after its last."""
    first = 0 if number == 0 else size.orders + (number - 1) * size.change
    return first, first + (size.orders if number == 0 else size.change)
