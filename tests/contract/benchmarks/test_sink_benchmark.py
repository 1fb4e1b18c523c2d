"""The cases of the sink's benchmark do what they measure."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from benchmarks.report import Figure
from benchmarks.sink.claims import MEMORY, TIME, Routes, claim_figures
from benchmarks.sink.costs import Cost
from benchmarks.sink.measure import figures, run_case
from benchmarks.sink.places import OLD_PANDAS, Place
from benchmarks.sink.rows import write_rows
from frazil.catalog.embedded import running_catalog

ROWS = 20_000


@pytest.fixture
def bench_catalog(tmp_path: Path) -> Iterator[Catalog]:
    with running_catalog(tmp_path / "catalog") as running:
        result = load_catalog("bench", type="rest", uri=running.uri)
        result.create_namespace("bench")
        yield result


@pytest.mark.parametrize(("writer", "split"), [("ours", "day"), ("pandas", "flat")])
def test_a_case_writes_all_rows_and_tells_their_time_and_memory(
    bench_catalog: Catalog, tmp_path: Path, writer: str, split: str
) -> None:
    write_rows(source := tmp_path / "rows.arrow", ROWS)
    cost = run_case(writer, split, source, place_of(bench_catalog))
    assert min(cost.cpu_s, cost.wall_s, cost.peak_mb) > 0
    (table,) = bench_catalog.list_tables("bench")
    order = [("device_id", "ascending"), ("event_timestamp", "ascending"), ("payload", "ascending")]
    result = pa.ipc.open_file(pa.memory_map(str(source))).read_all()
    assert bench_catalog.load_table(table).scan().to_arrow().cast(result.schema).sort_by(order) == result.sort_by(order)


def place_of(catalog: Catalog) -> Place:
    return Place(catalog.properties["uri"])


UNITS = {"s": TIME, "CPU s": TIME, "peak MB": MEMORY}
WRITERS = {"ours": "ours", "PyIceberg": "pyiceberg"}
CLAIMS = {(f"unpartitioned, {who}, {unit}", claim) for who in WRITERS for unit, claim in UNITS.items()}


def judged(figures: list[Figure]) -> dict[str, set[tuple[str, float | None]]]:
    """The claims by what they are said of, each with a verdict."""
    verdicts: dict[str, set[tuple[str, float | None]]] = {}
    for figure in figures:
        if figure.claim is not None and figure.holds is (figure.ratio is not None and figure.ratio >= figure.claim):
            verdicts.setdefault(figure.peer_name or "", set()).add((figure.figure, figure.claim))
    return verdicts


def measure_claims(catalog: Catalog, folder: Path, pandas: str) -> list[Figure]:
    """The three routes for real, on a few rows, each in a process of its own."""
    write_rows(source := folder / "rows.arrow", 300_000)
    place = place_of(catalog)
    direct = {name: run_case(writer, "flat", source, place) for name, writer in WRITERS.items()}
    return claim_figures(Routes(direct, {pandas: run_case("pandas", "flat", source, place, pandas=pandas)}))


@pytest.mark.requirement("arrow.claim")
def test_both_claims_are_judged_for_the_installed_pandas(bench_catalog: Catalog, tmp_path: Path) -> None:
    installed = version("pandas")
    measured = measure_claims(bench_catalog, tmp_path, installed)
    assert judged(measured) == {f"through pandas {installed}, Arrow strings": CLAIMS}


@pytest.mark.soak
@pytest.mark.requirement("arrow.claim")
def test_both_claims_are_judged_for_the_last_pandas_before_3(bench_catalog: Catalog, tmp_path: Path) -> None:
    measured = measure_claims(bench_catalog, tmp_path, OLD_PANDAS)
    assert judged(measured) == {f"through pandas {OLD_PANDAS}, object strings": CLAIMS}
    assert all((figure.ratio or 0) > 1 for figure in measured if not figure.figure.endswith(", s"))


@pytest.mark.requirement("arrow.claim")
def test_the_benchmark_judges_both_claims_for_both_pandas() -> None:
    def measure(writer: str, split: str, *, pandas: str | None = None, **_: object) -> Cost:
        slower = {None: 1.0, OLD_PANDAS: 5.0}.get(pandas, 1.5)
        return Cost(10.0 * slower, 10.0 * slower, 100.0 * slower, pandas)

    measured = figures(measure, 1_000, Place("http://127.0.0.1:1"))
    old, new = f"through pandas {OLD_PANDAS}, object strings", f"through pandas {version('pandas')}, Arrow strings"
    assert judged(measured) == {old: CLAIMS, new: CLAIMS}
    verdicts = {(figure.peer_name, figure.holds) for figure in measured if figure.claim is not None}
    assert verdicts == {(old, True), (new, False)}


def test_the_rates_to_reach_stand_next_to_what_was_measured() -> None:
    measured = figures(lambda *_, pandas=None, **__: Cost(1.0, 1.0, 1.0, pandas), 1_000, Place("http://127.0.0.1:1"))
    goals = {(figure.figure, figure.peer_name): figure.goal for figure in measured if figure.figure.endswith("rows/s")}
    assert {key: goal for key, goal in goals.items() if goal is not None} == {
        ("by day, M rows/s", "PyIceberg"): 1.3,
        ("by day, M rows/s", "raw pyarrow, rows apart already"): 0.6,
        ("by day, SeaweedFS, M rows/s", "PyIceberg"): 1.2,
    }


def test_a_case_that_went_through_another_pandas_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=f"for pandas {OLD_PANDAS} went through pandas 3"):
        claim_figures(Routes({"ours": Cost(1, 1, 1)}, {OLD_PANDAS: Cost(2, 2, 4, "3.1.1")}))
