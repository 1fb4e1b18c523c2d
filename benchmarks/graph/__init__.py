"""A graph of four tables in which one percent of the rows is new, next to what one does without Frazil.

- `raw.orders` has 10 million rows of 100 days; a change brings one percent more: most of them of a new day, a tenth
  late ones of the two days before. `silver.orders` is cleaned (append), `gold.revenue` is by day and country
  (replace-partition), `gold.large_orders` holds orders above an amount by their id (upsert).
- Peers: plain Spark SQL that computes all three tables again, and dbt-duckdb with incremental models, in a virtual
  environment that the benchmark makes; without a network that figure is left out.
- Each case runs in a process of its own. It fills the tables, runs one change to be warm, and then the changes that
  are measured. CPU seconds are those of driver, JVM and all Python workers; start-up is reported by itself. All cases
  must come to the same tables.
"""

from __future__ import annotations

from benchmarks.report import Figure, Options


def run(options: Options) -> list[Figure]:
    """The figures of this benchmark."""
    from benchmarks.graph.measure import measure_all

    return measure_all(options)
