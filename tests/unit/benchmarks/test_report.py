"""The figures, the table and the JSON file that all benchmarks share, and that all of them have one interface."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.__main__ import find_benchmarks
from benchmarks.record import PEERS, add_run, commit_of, versions_of
from benchmarks.report import Figure, Options, compare, main, print_table
from tools.bench_page import RECORD


def test_a_ratio_says_how_many_times_better_ours_is() -> None:
    rate = compare("loads/s", 450.0, 100.0, "Java reference", goal=4.0)
    cost = compare("CPU ms a load", 0.5, 1.0, "Java reference", goal=4.0, less_is_better=True)
    assert rate == Figure("loads/s", 450.0, 100.0, "Java reference", 4.5, 4.0, True)
    assert cost == Figure("CPU ms a load", 0.5, 1.0, "Java reference", 2.0, 4.0, False)


def test_a_figure_without_a_peer_has_no_ratio_and_misses_no_goal() -> None:
    assert compare("PostgreSQL appends/s", 1234.5) == Figure("PostgreSQL appends/s", 1230.0)


def test_a_peer_that_measured_nothing_meets_no_goal() -> None:
    assert compare("loads/s", 100.0, 0.0, "broken", goal=2.0).met is False


def test_the_table_shows_each_figure_and_a_missed_goal() -> None:
    out = io.StringIO()
    print_table(
        "t", [compare("loads/s", 100.0, 50.0, "Java reference", goal=4.0)], console=Console(file=out, width=120)
    )
    assert all(word in out.getvalue() for word in ("loads/s", "100", "50", "2x", "4x", "NO", "Java reference"))


def test_a_claim_is_stated_and_missing_it_is_no_error() -> None:
    out = io.StringIO()
    wrong = compare("peak MB", 100.0, 200.0, "pandas", claim=4.0, less_is_better=True)
    right = compare("s", 1.0, 2.0, "pandas", claim=2.0, less_is_better=True)
    print_table("t", [wrong, right], console=Console(file=out))
    lines = {line.split()[1]: line.split() for line in out.getvalue().splitlines() if "pandas" in line}
    assert ((wrong.holds, wrong.met), "no" in lines["peak"], "yes" in lines["s"]) == ((False, None), True, True)
    assert main({"x": lambda options: [wrong]}, []) == 0


def test_main_writes_the_figures_as_a_list_of_objects(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    code = main({"x": lambda options: [compare("loads/s", 8.0, 2.0, "peer", goal=3.0)]}, ["--json", str(file)])
    figure = {"figure": "loads/s", "ours": 8.0, "peer": 2.0, "peer_name": "peer", "ratio": 4.0}
    judged = {"goal": 3.0, "met": True, "claim": None, "holds": None, "any_size": False}
    assert (code, json.loads(file.read_text())) == (0, [figure | judged])


def test_a_missed_goal_fails_a_full_run_and_not_a_quick_one(capsys: pytest.CaptureFixture[str]) -> None:
    bad = {"x": lambda options: [compare("loads/s", 1.0, 2.0, "peer", goal=3.0, any_size=True)]}
    assert (main(bad, []), main(bad, ["--quick"])) == (1, 0)
    assert capsys.readouterr().err.splitlines() == ["goals missed: loads/s"] * 2


def broken(options: Options) -> list[Figure]:
    raise RuntimeError("the peer has gone")


def test_a_benchmark_that_ends_with_an_error_loses_none_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, record = [compare("loads/s", 1.0)], tmp_path / "record.json"
    runs = {"access": lambda options: good, "batch": broken, "catalog": lambda options: good}
    assert main(runs, ["--record", str(record)]) == 1
    assert list(json.loads(record.read_text())) == ["access", "catalog"]
    shown = capsys.readouterr()
    assert ("benchmarks.catalog" in shown.out, "the peer has gone" in shown.err) == (True, True)
    assert shown.err.splitlines()[-1] == "benchmarks that ended with an error: batch"
    assert main({"batch": broken}, ["--quick"]) == 1


def test_a_benchmark_is_on_record_and_in_the_list_as_soon_as_it_ends(tmp_path: Path) -> None:
    record, figures = tmp_path / "record.json", tmp_path / "figures.json"
    seen: list[list[str]] = []

    def look(options: Options) -> list[Figure]:
        seen.append([*json.loads(record.read_text()), *(row["figure"] for row in json.loads(figures.read_text()))])
        return []

    main(
        {"access": lambda options: [compare("loads/s", 1.0)], "batch": look},
        ["--record", str(record), "--json", str(figures)],
    )
    assert (seen, sorted(file.name for file in tmp_path.iterdir())) == (
        [["access", "loads/s"]],
        ["figures.json", "record.json"],
    )


def test_a_quick_run_shows_only_the_goals_that_are_meant_for_any_size(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    figures = [
        compare("rows/s", 1.0, 2.0, "peer", goal=3.0),
        compare("recall", 1.0, 2.0, "peer", goal=3.0, any_size=True),
        compare("peak MB", 1.0, 2.0, "pandas", claim=4.0, less_is_better=True),
    ]
    main({"x": lambda options: figures}, ["--quick", "--json", str(file)])
    shown = [(row["figure"], row["goal"], row["met"], row["claim"]) for row in json.loads(file.read_text())]
    assert shown == [("rows/s", None, None, None), ("recall", 3.0, False, None), ("peak MB", None, None, 4.0)]


@pytest.mark.parametrize("name", find_benchmarks())
def test_every_benchmark_takes_options_gives_figures_and_runs_alone(name: str) -> None:
    run = importlib.import_module(f"benchmarks.{name}").run
    signature = inspect.signature(run, eval_str=True)
    assert ([p.annotation for p in signature.parameters.values()], signature.return_annotation) == (
        [Options],
        list[Figure],
    )
    shown = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert "--quick" in shown
    assert "--json" in shown


def test_the_record_keeps_the_last_full_run_of_each_benchmark(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    for name, rate in (("read", 1.0), ("access", 2.0), ("read", 3.0)):
        add_run(file, name, [compare("rows/s", rate, 1.0, "peer")], seconds=61.2)
    runs = json.loads(file.read_text())
    assert [(name, run["seconds"], run["figures"][0]["ours"]) for name, run in runs.items()] == [
        ("access", 61, 2.0),
        ("read", 61, 3.0),
    ]
    assert set(runs["read"]["versions"]) == {"pyarrow", "pyiceberg", "daft", "duckdb"}


def test_a_recorded_run_has_a_folder_for_plots_of_its_own(tmp_path: Path) -> None:
    seen: list[Path | None] = []

    def run(options: Options) -> list[Figure]:
        seen.append(options.plots)
        return []

    for arguments in (["--record", str(tmp_path / "record.json")], []):
        main({"access": run}, arguments)
    assert seen == [tmp_path / "record", None]


def test_a_quick_run_is_not_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main({"x": lambda options: []}, ["--quick", "--record", str(tmp_path / "record.json")])
    assert ("without --quick" in capsys.readouterr().err, list(tmp_path.iterdir())) == (True, [])


def test_each_benchmark_names_the_peers_whose_versions_are_recorded() -> None:
    assert set(PEERS) == set(find_benchmarks())


def test_every_run_on_record_is_of_a_benchmark_that_exists() -> None:
    assert set(json.loads(RECORD.read_text())) <= set(find_benchmarks())


def test_the_version_of_postgresql_is_on_record_where_it_is_measured() -> None:
    assert {name for name, peers in PEERS.items() if "postgresql" in peers} == {"access", "catalog"}
    assert re.fullmatch(r"\d+\.\d+", versions_of(PEERS["access"])["postgresql"])


def test_the_record_and_its_pages_are_no_change_of_what_is_measured(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("docs/benchmarks.json", "docs/benchmarks/read.svg", "docs/read.md")]
    (tmp_path / "docs/benchmarks").mkdir(parents=True)
    who = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
    for file in files:
        file.write_text("1")
    for command in (["init", "--quiet"], ["add", "."], [*who, "commit", "--quiet", "--message", "first"]):
        subprocess.run(["git", "-C", tmp_path, *command], check=True)
    measured = []
    for file in files:
        file.write_text("2")
        measured.append(commit_of(tmp_path))
    commit = measured[0]
    assert (len(commit) >= 7, measured) == (True, [commit, commit, f"{commit}+"])
