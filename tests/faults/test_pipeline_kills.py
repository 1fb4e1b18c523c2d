"""The driver of the sales pipeline is killed (-9) at random moments, while files keep landing: every row is in once,
good or bad.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.project import load_project
from tests.conftest import Campaign
from tests.faults.pipeline_runner import CAME_FIRST

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/sales"
GOOD, BAD, REPEATED = 200, 6, 5  # rows of a file: a bad share of 3%
MOST_CALLS = 20  # to the catalog, in one run
LONGEST_RUN_SECONDS = 6.0


def load_landing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sales_landing", EXAMPLE / "landing.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def runner(folder: Path, uri: str, *, die_at: int = 0, when: str = "before") -> Iterator[subprocess.Popen[str]]:
    """A run in a process group of its own; nothing of it is left at the end."""
    command = [sys.executable, "-m", "tests.faults.pipeline_runner", str(folder), uri, str(die_at), when]
    with (folder / "runner.log").open("a") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the JVM, too
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


def kill_once(folder: Path, uri: str, chance: random.Random) -> bool:
    """A run that is killed at a call to the catalog, or after some time; False if it was done before that."""
    by_call = chance.random() < 0.6
    die_at = chance.randint(1, MOST_CALLS) if by_call else 0
    with runner(folder, uri, die_at=die_at, when=chance.choice(["before", "after"])) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said == "begin\n", (folder / "runner.log").read_text()[-3000:]
        if not by_call:
            time.sleep(chance.uniform(0, LONGEST_RUN_SECONDS))
            process.kill()
        process.wait(600)
    assert process.returncode in (0, -signal.SIGKILL), (folder / "runner.log").read_text()[-3000:]
    return process.returncode != 0


@pytest.mark.timeout(0)
@pytest.mark.requirement("sink.exactly-once")
def test_a_pipeline_killed_at_random_moments_loads_every_row_once(campaign: Campaign, tmp_path: Path) -> None:
    kills, files = campaign.size(short=5, full=50), campaign.size(short=5, full=30)
    chance = campaign.random()
    with sales_lake(tmp_path) as (catalog, uri):
        killed = landed = 0
        while killed < kills:
            if not is_pending(catalog, landed) or (landed < files and chance.random() < 0.5):
                landed += 1
                write_landing(tmp_path, days=landed)
            killed += kill_once(tmp_path, uri, chance)
        write_landing(tmp_path, days=max(files, landed))
        with runner(tmp_path, uri) as process:
            assert process.wait(600) == 0, (tmp_path / "runner.log").read_text()[-3000:]
        check_rows(catalog, tmp_path / "landing")
        # Every snapshot is one load, and is in the table of runs: what was killed has left none.
        runs = catalog.load_table("lakehouse.sales__runs").scan(row_filter="status = 'committed'").to_arrow()
        assert sorted(runs["snapshot_id"].to_pylist()) == sorted(snapshot_ids(catalog))


@pytest.mark.timeout(0)
@pytest.mark.requirement("sink.exactly-once")
def test_a_run_that_is_continued_after_a_newer_one_finished_commits_nothing_and_says_so(
    campaign: Campaign, tmp_path: Path
) -> None:
    """The old run is stopped at a call to the catalog; the last of them is the commit of its rows."""
    chance = campaign.random()
    with sales_lake(tmp_path) as (catalog, uri):
        for day in (1, 2):  # the first run makes tables, and has more calls than the others
            write_landing(tmp_path, days=day)
            with runner(tmp_path, uri) as process:
                calls = int(output(process, tmp_path).split()[-2])
        for day in range(3, campaign.size(short=5, full=20)):
            write_landing(tmp_path, days=day)
            with runner(tmp_path, uri, die_at=chance.choice([calls, chance.randint(6, calls)]), when="pause") as old:
                assert wait_until_stopped(old)
                before = snapshot_ids(catalog)
                with runner(tmp_path, uri) as new:
                    assert output(new, tmp_path).startswith("1 files")
                assert len(snapshot_ids(catalog)) == len(before) + 1
                os.killpg(old.pid, signal.SIGCONT)
                said = output(old, tmp_path, allowed=(0, CAME_FIRST))
                assert said.startswith(("pipeline 'daily_sales': another run of it came first", "0 files"))
                assert len(snapshot_ids(catalog)) == len(before) + 1
        check_rows(catalog, tmp_path / "landing")


@pytest.mark.timeout(0)
@pytest.mark.requirement("sink.exactly-once")
def test_runs_at_the_same_time_load_every_file_once(campaign: Campaign, tmp_path: Path) -> None:
    rounds, at_once = campaign.size(short=1, full=6), campaign.size(short=2, full=3)
    with sales_lake(tmp_path) as (catalog, uri):
        for day in range(1, rounds + 1):
            write_landing(tmp_path, days=2 * day)
            with contextlib.ExitStack() as stack:
                processes = [stack.enter_context(runner(tmp_path, uri)) for _ in range(at_once)]
                said = [output(process, tmp_path, allowed=(0, CAME_FIRST)) for process in processes]
            assert sum(line.startswith("2 files") for line in said) == 1, said
        assert len(snapshot_ids(catalog)) == rounds
        check_rows(catalog, tmp_path / "landing")


@contextlib.contextmanager
def sales_lake(folder: Path) -> Iterator[tuple[FrazilCatalog, str]]:
    """The sales example in a folder, without landing files, and a catalog with its table."""
    shutil.copytree(
        EXAMPLE, folder, ignore=shutil.ignore_patterns(".frazil", "landing", "__pycache__"), dirs_exist_ok=True
    )
    (folder / "landing").mkdir()
    with running_catalog(folder / "catalog") as server:
        catalog = FrazilCatalog("lake", **server.properties)
        catalog.create_namespace("lakehouse")
        sales = load_project(folder).pipeline("daily_sales").target
        catalog.create_table(sales.identifier, sales.schema(), partition_spec=sales.partition_spec())
        yield catalog, server.uri


def write_landing(folder: Path, *, days: int) -> None:
    load_landing().write_landing(folder / "landing", days=days, rows=GOOD, bad=BAD, repeated=REPEATED)


def output(process: subprocess.Popen[str], folder: Path, *, allowed: Sequence[int] = (0,)) -> str:
    """The last line of a run that has ended."""
    assert process.stdout is not None
    lines = process.stdout.read().splitlines()
    assert process.wait(600) in allowed, (folder / "runner.log").read_text()[-3000:]
    return lines[-1]


def wait_until_stopped(process: subprocess.Popen[str]) -> bool:
    """Waits until the process has stopped itself; False if it has ended."""
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    return os.WIFSTOPPED(status)


def snapshot_ids(catalog: FrazilCatalog) -> list[int]:
    return [snapshot.snapshot_id for snapshot in catalog.load_table("lakehouse.sales").snapshots()]


def is_pending(catalog: FrazilCatalog, landed: int) -> bool:
    """Whether a file has landed that is not loaded: a run then has something to be killed over."""
    if not catalog.table_exists("lakehouse.sales__ledger"):
        return landed > 0
    return catalog.load_table("lakehouse.sales__ledger").scan().count() < landed


def check_rows(catalog: FrazilCatalog, folder: Path) -> None:
    """Ids are compared, not counted: the good ones in the table, the bad ones in the quarantine, files in the ledger,
    each once.
    """
    days = sorted(path.stem.removeprefix("sales-").replace("-", "") for path in folder.glob("sales-*.csv"))
    good = catalog.load_table("lakehouse.sales").scan(selected_fields=("order_id",)).to_arrow()["order_id"].to_pylist()
    assert sorted(good) == [f"ORD-{day}-{number:06}" for day in days for number in range(GOOD)]
    raw = catalog.load_table("lakehouse.sales__quarantine").scan(selected_fields=("raw",)).to_arrow()["raw"].to_pylist()
    bad = [row.get("order_id") or row["line"].split(",")[0] for row in map(json.loads, raw)]
    assert sorted(bad) == [f"BAD-{day}-{number:06}" for day in days for number in range(BAD)]
    ledger = catalog.load_table("lakehouse.sales__ledger").scan(selected_fields=("path", "run_id")).to_arrow()
    assert sorted(ledger["path"].to_pylist()) == sorted(f"landing/{path.name}" for path in folder.glob("sales-*.csv"))
    runs = catalog.load_table("lakehouse.sales__runs").scan(row_filter="status = 'committed'").to_arrow()
    assert set(runs["run_id"].to_pylist()) == set(ledger["run_id"].to_pylist())
    assert sum(runs["rows"].to_pylist()) == len(good)
