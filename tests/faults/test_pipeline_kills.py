"""The driver of the sales pipeline is killed (-9) at random moments, while files keep landing: every row is in once,
good or bad.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.project import load_project
from tests.conftest import Campaign
from tests.faults.pipeline_processes import Runners, copy_example, load_landing

GOOD, BAD, REPEATED = 200, 6, 5  # rows of a file: a bad share of 3%
MOST_CALLS = 20  # to the catalog, in one run
LONGEST_RUN_SECONDS = 6.0


class SalesLake(Runners):
    """The sales example in a folder, a catalog with its table, and processes that run the pipeline."""

    def __init__(self, folder: Path, uri: str, catalog: FrazilCatalog) -> None:
        super().__init__(folder, uri)
        self.catalog = catalog

    @property
    def landed(self) -> int:
        return len(list((self.folder / "landing").glob("sales-*.csv")))

    def land(self, days: int = 1) -> None:
        """More landing files, of a day each."""
        landing = self.folder / "landing"
        load_landing().write_landing(landing, days=self.landed + days, rows=GOOD, bad=BAD, repeated=REPEATED)

    def run(self) -> str:
        with self.runner() as runner:
            return runner.run()

    def kill_once(self, chance: random.Random) -> bool:
        """A run that is killed at a call to the catalog, or after some time; False if it was done before that."""
        by_call = chance.random() < 0.6
        with self.runner() as runner:
            runner.begin(
                die_at=chance.randint(1, MOST_CALLS) if by_call else 0, when=chance.choice(["before", "after"])
            )
            if not by_call:
                time.sleep(chance.uniform(0, LONGEST_RUN_SECONDS))
                runner.process.kill()
                runner.process.wait(60)
                return True
            return not runner.answer()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SalesLake]:
    folder = copy_example(tmp_path_factory.mktemp("sales"))
    with running_catalog(folder / "catalog") as server:
        catalog = FrazilCatalog("lake", **server.properties)
        catalog.create_namespace("lakehouse")
        sales = load_project(folder).pipeline("daily_sales").target
        catalog.create_table(sales.identifier, sales.schema(), partition_spec=sales.partition_spec())
        sales_lake = SalesLake(folder, server.uri, catalog)
        yield sales_lake
        sales_lake.close()


@pytest.mark.timeout(0)
@pytest.mark.requirement("sink.exactly-once")
def test_a_pipeline_killed_at_random_moments_loads_every_row_once(lake: SalesLake, campaign: Campaign) -> None:
    kills, files = campaign.size(short=2, full=50), lake.landed + campaign.size(short=4, full=30)
    chance = campaign.random()
    killed = 0
    while killed < kills:
        if not is_pending(lake) or (lake.landed < files and chance.random() < 0.5):
            lake.land()
        killed += lake.kill_once(chance)
    lake.land(max(files - lake.landed, 1))
    assert "files" in lake.run()
    check_rows(lake)
    # Every snapshot is one load, and is in the table of runs: what was killed has left none.
    runs = lake.catalog.load_table("lakehouse.sales__runs").scan(row_filter="status = 'committed'").to_arrow()
    assert sorted(runs["snapshot_id"].to_pylist()) == sorted(snapshot_ids(lake))


@pytest.mark.timeout(0)
@pytest.mark.requirement("sink.exactly-once")
def test_a_run_that_is_continued_after_a_newer_one_finished_commits_nothing_and_says_so(
    lake: SalesLake, campaign: Campaign
) -> None:
    """The old run is stopped at a call to the catalog; the last of them is the commit of its rows."""
    chance = campaign.random()
    for _ in range(2):  # the first run may make tables, and has more calls than the others
        lake.land()
        calls = int(lake.run().split()[-2])
    for number in range(campaign.size(short=1, full=17)):
        lake.land()
        with lake.runner() as old, lake.runner() as new:
            old.begin(die_at=chance.randint(6, calls) if number % 2 else calls, when="pause")
            assert old.wait_until_stopped()
            before = snapshot_ids(lake)
            assert new.run().startswith("1 files")
            assert len(snapshot_ids(lake)) == len(before) + 1
            old.go_on()
            assert old.answer().startswith(("overtaken", "0 files"))
            assert len(snapshot_ids(lake)) == len(before) + 1
    check_rows(lake)


@pytest.mark.timeout(0)
@pytest.mark.requirement("sink.exactly-once")
def test_runs_at_the_same_time_load_every_file_once(lake: SalesLake, campaign: Campaign) -> None:
    lake.run()  # what is there already
    for _ in range(campaign.size(short=1, full=6)):
        lake.land(2)
        before = len(snapshot_ids(lake))
        with contextlib.ExitStack() as stack:
            runners = [stack.enter_context(lake.runner()) for _ in range(campaign.size(short=2, full=3))]
            for runner in runners:
                runner.begin()
            answers = [runner.answer() for runner in runners]
        assert sum(line.startswith("2 files") for line in answers) == 1, answers
        assert len(snapshot_ids(lake)) == before + 1
    check_rows(lake)


def snapshot_ids(lake: SalesLake) -> list[int]:
    return [snapshot.snapshot_id for snapshot in lake.catalog.load_table("lakehouse.sales").snapshots()]


def is_pending(lake: SalesLake) -> bool:
    """Whether a file has landed that is not loaded: a run then has something to be killed over."""
    if not lake.catalog.table_exists("lakehouse.sales__ledger"):
        return lake.landed > 0
    return lake.catalog.load_table("lakehouse.sales__ledger").scan().count() < lake.landed


def check_rows(lake: SalesLake) -> None:
    """Ids are compared, not counted: the good ones in the table, the bad ones in the quarantine, files in the ledger,
    each once.
    """
    catalog, folder = lake.catalog, lake.folder / "landing"
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
