"""The benchmark of the transpile example: CPU seconds of a tree of processes, and what is made of the measurements."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.transpile.measure import CASES, Size, figures
from benchmarks.transpile.processes import running_case, tree_cpu_s
from examples.transpile.queries import write_queries
from frazil.catalog.embedded import running_catalog

BURN = "import time\nwhile time.process_time() < {}: pass"


def test_the_cpu_of_a_process_is_counted_with_that_of_its_children_dead_or_alive() -> None:
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN.format(0.3)!r}])"
    before = tree_cpu_s(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", f"{child}; input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.communicate(b"\n")
    assert tree_cpu_s(os.getpid()) - before >= 0.3
    assert tree_cpu_s(2**30) == 0


def cost(wall_s: float, cpu_s: float = 1.0, **more: float) -> list[dict[str, float]]:
    return [{"wall_s": wall_s, "cpu_s": cpu_s, **more}] * 2


@pytest.mark.parametrize(("sink_s", "met"), [(10.19, True), (10.21, False), (9.9, True)])
def test_the_sink_may_cost_two_percent_and_not_more(sink_s: float, met: bool) -> None:
    result = {name: cost(10) for name in CASES}
    result |= {"cost": [{"cpu_s": sink_s, "bare_s": 10.0}] * 2}
    result |= {name: cost(10, 10.0, bare_s=10.0, bare_wall_s=10.0) for name in ("spark-1", "spark-2")}
    first, share, *_ = figures(result, Size(100, 2))
    assert (first.figure, first.met) == ("plain Python: the sink's CPU s", met)
    assert share.ours == pytest.approx((sink_s - 10) * 10, abs=0.01)


def test_two_cores_are_compared_by_wall_time() -> None:
    spark = {"spark-1": cost(20, bare_s=1, bare_wall_s=20), "spark-2": cost(10, bare_s=1, bare_wall_s=10)}
    result = {name: cost(10) for name in CASES} | spark | {"cost": cost(1, bare_s=1)} | {"plain-2": cost(6)}
    by_name = {(figure.figure, figure.peer_name): asdict(figure) for figure in figures(result, Size(100, 2))}
    plain, on_spark = (by_name[f"{host}, 2 cores, queries/s", "1 core"] for host in ("plain Python", "Spark"))
    assert (plain["ours"], plain["ratio"], plain["met"]) == (16.7, 1.67, False)
    assert (on_spark["ours"], on_spark["ratio"], on_spark["met"]) == (10.0, 2.0, True)


@pytest.mark.parametrize("name", ["plain-1", "cost"])
def test_a_case_warms_up_and_then_measures_files(name: str, tmp_path: Path) -> None:
    write_queries(tmp_path / "queries" / "warm.parquet", 5)
    file = write_queries(tmp_path / "queries" / "a.parquet", 20)
    with running_catalog(tmp_path / "catalog") as server, running_case(name, tmp_path / "queries", server.uri) as case:
        case.wait()
        measure = case.measure(file)
    assert measure["cpu_s"] >= 0
    assert set(measure) == ({"cpu_s", "bare_s"} if name == "cost" else {"cpu_s", "wall_s"})
