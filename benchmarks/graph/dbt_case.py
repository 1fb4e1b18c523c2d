"""The graph as incremental models of dbt on DuckDB: `python dbt_case.py FOLDER ORDERS CHANGES`, in dbt's environment.

dbt runs inside this process, so that neither its start nor the parsing of the project is measured again and again.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import psutil
from dbt.cli.main import dbtRunner

sys.path.insert(0, str(Path(__file__).resolve().parent))
import rows  # type: ignore[import-not-found]  # of the benchmark, which is not a package here

PROJECT = """
name: bench
version: "1.0"
profile: bench
models: {+materialized: incremental}
flags: {send_anonymous_usage_stats: false}
"""
PROFILE = "bench: {target: dev, outputs: {dev: {type: duckdb, path: lake.duckdb, threads: 2}}}"
SILVER = """{{ config(incremental_strategy='append') }}
%s {%% if is_incremental() %%} AND load > (SELECT max(load) FROM {{ this }}) {%% endif %%}
"""
REVENUE = """{{ config(incremental_strategy='delete+insert', unique_key='day') }}
%s
"""
LARGE = """{{ config(incremental_strategy='delete+insert', unique_key='order_id') }}
%s {%% if is_incremental() %%} AND load > (SELECT max(load) FROM {{ this }}) {%% endif %%}
"""
TOUCHED = """{% if is_incremental() %}
WHERE day IN (SELECT DISTINCT day FROM {{ ref('silver') }} WHERE load > (SELECT max(load) FROM {{ this }}))
{% endif %} GROUP BY"""


def write_project(folder: Path) -> None:
    """The project: each model also keeps the number of the load, by which dbt finds what is new."""
    (folder / "models").mkdir()
    (folder / "dbt_project.yml").write_text(PROJECT)
    (folder / "profiles.yml").write_text(PROFILE)
    silver = rows.SILVER.format(orders="orders").replace(" FROM", ", load FROM")
    revenue = rows.REVENUE.format(silver="{{ ref('silver') }}").replace("GROUP BY", TOUCHED)
    revenue = revenue.replace(" FROM {{ ref('silver') }} {%", ", max(load) AS load FROM {{ ref('silver') }} {%")
    large = rows.LARGE_ORDERS.format(silver="{{ ref('silver') }}").replace(" FROM", ", load FROM")
    for name, text in {"silver": SILVER % silver, "revenue": REVENUE % revenue, "large": LARGE % large}.items():
        (folder / "models" / f"{name}.sql").write_text(text)


def load(folder: Path, size: Any, number: int) -> None:
    """Brings orders to the first table: not measured."""
    first, last = rows.ids(size, number)
    query = rows.orders(size, number).format(range=f"(SELECT range AS id FROM range({first}, {last}))")
    query = query.replace("date_add(DATE '2024-01-01', ", "(DATE '2024-01-01' + (").replace(") AS day", ")) AS day")
    with duckdb.connect(folder / "lake.duckdb") as lake:
        lake.execute(f"CREATE TABLE orders AS {query}" if number == 0 else f"INSERT INTO orders {query}")


def measured(runner: dbtRunner, folder: Path) -> dict[str, float]:
    """What a run costs."""
    begun, before = time.perf_counter(), psutil.Process().cpu_times()
    where = ["--project-dir", str(folder), "--profiles-dir", str(folder), "--quiet"]
    result = runner.invoke(["run", *where])
    if not result.success:
        raise SystemExit(f"dbt failed: {result.exception or result.result}")
    after = psutil.Process().cpu_times()
    cpu_s = after.user + after.system - before.user - before.system
    return {"cpu_s": cpu_s, "wall_s": time.perf_counter() - begun}


def main(folder: Path, size: Any) -> None:
    """Runs the case and prints its cost."""
    import os

    os.chdir(folder)
    write_project(folder)
    runner, costs = dbtRunner(), []
    for number in range(2 + size.changes):
        load(folder, size, number)
        costs.append(measured(runner, folder))
    begun = time.perf_counter()
    runner.invoke(
        ["parse", "--no-partial-parse", "--project-dir", str(folder), "--profiles-dir", str(folder), "--quiet"]
    )
    start = {"cpu_s": 0.0, "wall_s": time.perf_counter() - begun}
    names = {name: name for name in ("silver", "revenue", "large")}
    with duckdb.connect(folder / "lake.duckdb") as lake:
        tables = [[str(value) for value in lake.execute(sql.format(**names)).fetchone()] for sql in rows.CHECKS]
    print(json.dumps({"start": start, "changes": costs[2:], "tables": tables}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), rows.Size(int(sys.argv[2]), int(sys.argv[3])))
