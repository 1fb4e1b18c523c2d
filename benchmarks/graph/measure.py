"""Runs the cases one after the other and sets them side by side."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.graph.peer import dbt_python
from benchmarks.graph.rows import FULL, QUICK, Size
from benchmarks.report import Figure, Options, compare

LEAST = 10.0  # times less CPU than the rebuild
REBUILD, DBT = "all tables again by Spark SQL", "dbt-duckdb, incremental models"

Result = dict[str, Any]


def measure_all(options: Options) -> list[Figure]:
    """Every case."""
    from frazil.catalog.embedded import running_catalog

    size = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as text, running_catalog(Path(text) / "catalog") as server:
        folder = Path(text)
        results = {name: run_case(name, size, folder, server.uri) for name in ("ours", "rebuild")}
        if (python := dbt_python(folder)) is not None:
            results["dbt"] = run_dbt(python, size, folder)
    check_tables(results)
    return figures(results, size)


def run_case(writer: str, size: Size, folder: Path, uri: str) -> Result:
    """One of the cases on Spark."""
    sizes = [str(size.orders), str(size.changes)]
    return _run(writer, [sys.executable, "-m", "benchmarks.graph.case", writer, str(folder), uri, *sizes])


def run_dbt(python: Path, size: Size, folder: Path) -> Result:
    """The case on DuckDB, in dbt's environment: it has nothing of ours."""
    project = folder / "dbt"
    project.mkdir()
    program = Path(__file__).with_name("dbt_case.py")
    return _run("dbt", [str(python), str(program), str(project), str(size.orders), str(size.changes)])


def _run(writer: str, command: list[str]) -> Result:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{writer} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    result: Result = json.loads(done.stdout.splitlines()[-1])
    for cost in result["changes"]:
        print(f"  {writer:8s} {cost['cpu_s']:6.1f} CPU s {cost['wall_s']:6.1f} s", flush=True)
    return result


def check_tables(results: dict[str, Result]) -> None:
    """All cases must come to the same tables."""
    if len({json.dumps(result["tables"]) for result in results.values()}) != 1:
        raise RuntimeError(f"the tables differ: { {name: result['tables'] for name, result in results.items()} }")


def figures(results: dict[str, Result], size: Size) -> list[Figure]:
    """What is made of the measurements."""
    what = f"{size.change:,} of {size.orders:,} orders new"
    ours, again = results["ours"], results["rebuild"]
    values = [
        compare(f"{what}, CPU s", _cpu(ours), _cpu(again), REBUILD, goal=LEAST, less_is_better=True),
        compare(f"{what}, s", _wall(ours), _wall(again), REBUILD, less_is_better=True),
    ]
    if peer := results.get("dbt"):
        values += [
            compare(f"{what}, CPU s", _cpu(ours), _cpu(peer), DBT, less_is_better=True),
            compare(f"{what}, s", _wall(ours), _wall(peer), DBT, less_is_better=True),
            compare("start-up, s", ours["start"]["wall_s"], peer["start"]["wall_s"], DBT, less_is_better=True),
        ]
    else:
        values.append(compare("start-up, s", ours["start"]["wall_s"]))
    return values


def _cpu(result: Result) -> float:
    return statistics.median(cost["cpu_s"] for cost in result["changes"])


def _wall(result: Result) -> float:
    return statistics.median(cost["wall_s"] for cost in result["changes"])
