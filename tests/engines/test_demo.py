"""`make run`: `frazil demo` on real servers, from nothing, a second time, and interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

DEMO = [sys.executable, "-m", "frazil", "demo"]


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*DEMO, str(folder), *options], capture_output=True, text=True, check=False)


def ask(folder: Path, *command: str) -> list[dict[str, object]]:
    """What a command of the sales project prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "frazil", *command, "--output", "json"],
        cwd=folder / "sales",
        capture_output=True,
        text=True,
        check=True,
    )
    rows: list[dict[str, object]] = json.loads(done.stdout)
    return rows


def processes_of(folder: Path) -> list[psutil.Process]:
    """Those that have the folder in their command line, or work in it."""
    return [process for process in psutil.process_iter() if str(folder) in _said_of(process)]


def _said_of(process: psutil.Process) -> str:
    try:
        return " ".join([*process.cmdline(), process.cwd()])
    except psutil.Error:  # it has ended, or is another user's
        return ""


def counted(text: str, *words: str) -> list[list[str]]:
    """The lines of a run with these counts."""
    return [line.split()[:2] for line in text.splitlines() if line.split()[:1] and line.split()[0] in words]


def revenue(text: str) -> list[list[list[str]]]:
    """Day, orders and revenue of each time that they are shown."""
    shown = [part.split(" $ ")[0] for part in text.split("GROUP BY day ORDER BY day")[1:]]
    return [[line.split()[:3] for line in part.splitlines() if line.startswith(" 2024-")] for part in shown]


def ask_console(folder: Path, path: str) -> Any:
    """What a route of the console answers."""
    endpoint = next(row["endpoint"] for row in ask(folder, "status") if row["service"] == "catalog")
    answer = requests.get(f"{endpoint}/console/api/default/{path}", timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()


def check_console(folder: Path) -> None:
    """The console shows what the demo has done: pipelines and models, their runs, and a table that was compacted."""
    shown = ask_console(folder, "pipelines?declared=wait")["boxes"]
    boxes = {(box["kind"], box["label"]): box for box in shown}
    pipelines = {label for kind, label in boxes if kind == "pipeline"}
    assert pipelines >= {"daily_sales", "daily_customers", "uplink_events"}
    models = {label: box["state"]["status"] for (kind, label), box in boxes.items() if kind == "model"}
    assert models == dict.fromkeys(("silver.customers", "silver.orders", "gold.revenue"), "up to date")
    (rows,) = ask(folder, "query", "SELECT count(*) AS n FROM lakehouse.sales")
    assert boxes["table", "lakehouse.sales"]["rows"] == rows["n"]

    runs = ask_console(folder, "namespaces/lakehouse/tables/sales/runs")["runs"]
    assert [run["status"] for run in runs] == ["committed"] * 3  # the right day, the wrong one, the first load
    first = runs[-1]
    assert (first["rows"], first["duplicates"], first["quarantined"]) == (100_080, 320, 300)
    (streamed,) = ask_console(folder, "namespaces/lakehouse/tables/uplink/runs")["runs"]
    assert (streamed["rows_in"], streamed["rows"], streamed["quarantined"]) == (20_000, 19_624, 376)

    upkeep = {
        ".".join([*table["namespace"], table["name"]]): table for table in ask_console(folder, "upkeep")["tables"]
    }
    compacted = upkeep["lakehouse.uplink"]
    assert (compacted["health"]["level"], compacted["last_run"]["outcome"]) == ("fine", "done")
    assert compacted["last_run"]["saved_files"] > 0
    assert "replace" in ask_console(folder, "namespaces/lakehouse/tables/uplink/snapshots")["operation"]


def test_each_step_works_and_a_second_run_adds_nothing(tmp_path: Path) -> None:
    first = run(tmp_path / "demo", "--only", "tables,load,stream,transpile,rollback,upkeep")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "daily_sales: 100,080 rows from 5 files are in lakehouse.sales" in first.stdout
    assert counted(first.stdout, "duplicates", "quarantined")[:4] == [
        ["duplicates", "320"],
        ["quarantined", "300"],
        ["duplicates", "80"],
        ["quarantined", "0"],
    ]

    assert "is the first that fails: amount < 10001" in first.stdout
    assert "landing file landing/sales-2024-01-20.csv" in first.stdout
    loaded, wrong, right = revenue(first.stdout)
    assert [orders for _, orders, _ in loaded] == ["20020"] * 4 + ["20000"]  # late orders, except of the last day
    assert (wrong[:5], wrong[5]) == (loaded, ["2024-01-20", "20000", "10059433905.00"])
    assert (right[:4], right[4][:2]) == (loaded[:4], ["2024-01-19", "20020"])
    assert right[5] == ["2024-01-20", "20000", "100594359.05"]
    assert "5,000 queries at" in first.stderr
    assert processes_of(tmp_path) == []
    second = run(tmp_path / "demo", "--only", "tables,load", "--keep")
    try:
        assert second.returncode == 0, second.stdout + second.stderr
        assert "daily_sales: no new files; lakehouse.sales is unchanged" in second.stdout
        assert second.stdout.count("is up to date") == 3
        (rows,) = ask(tmp_path / "demo", "query", "SELECT count(*) AS n FROM lakehouse.uplink")
        assert rows["n"] == 19_624  # of 20,000 messages; the others cannot be read
        states = {row["service"]: row["state"] for row in ask(tmp_path / "demo", "status")}
        assert {name for name, state in states.items() if state == "ready"} == {"object-store", "catalog", "spark"}
        check_console(tmp_path / "demo")
    finally:
        subprocess.run([sys.executable, "-m", "frazil", "down"], cwd=tmp_path / "demo/sales", check=True)
    assert processes_of(tmp_path) == []


def test_an_interrupt_while_spark_starts_leaves_no_process(tmp_path: Path) -> None:
    log = tmp_path / "demo/.frazil/spark/server.log"
    with subprocess.Popen(
        [*DEMO, str(tmp_path / "demo"), "--only", "load"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as demo:
        while not log.exists():
            assert demo.poll() is None
            time.sleep(0.02)
        demo.send_signal(signal.SIGINT)
        said = demo.communicate(timeout=240)[1]
    assert (demo.returncode, said.splitlines()[-1]) == (1, "Aborted!")
    assert processes_of(tmp_path) == []


@pytest.mark.soak
def test_vectors_are_searched_by_meaning(tmp_path: Path) -> None:
    """With the real model, a download of 84 MB."""
    done = run(tmp_path / "demo", "--only", "vectors")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "shutil.rmtree" in done.stdout
    assert "turtle.TNavigator.circle" in done.stdout


@pytest.mark.soak
def test_an_interrupt_while_messages_are_streamed_leaves_no_process(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*DEMO, str(tmp_path / "demo"), "--only", "stream"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        assert any(line.startswith("micro-batch 1:") for line in demo.stdout)
        demo.send_signal(signal.SIGINT)
        said = demo.communicate(timeout=240)[1]
    assert (demo.returncode, said.splitlines()[-1]) == (1, "Aborted!")
    assert processes_of(tmp_path) == []
