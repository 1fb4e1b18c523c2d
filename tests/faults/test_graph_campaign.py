"""Models over tables that change in every way, by runs that are killed, stopped and concurrent: after each step every
derived table is what its query gives for the snapshots that its progress names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from tests.conftest import Campaign
from tests.faults.graph_lake import GraphLake
from tests.faults.pipeline_processes import copy_example


@pytest.fixture
def lake(tmp_path: Path, campaign: Campaign) -> Iterator[GraphLake]:
    folder = copy_example(tmp_path / "sales")
    with running_catalog(folder / "catalog") as server:
        graph_lake = GraphLake(folder, server.uri, FrazilCatalog("lake", **server.properties), campaign.random())
        yield graph_lake
        graph_lake.close()


@pytest.mark.timeout(0)
@pytest.mark.requirement("spark.graph")
def test_after_every_step_each_derived_table_is_its_definition(lake: GraphLake, campaign: Campaign) -> None:
    lake.land()
    lake.run()
    lake.check_fresh()
    steps = [lake.land, *[lake.change_inputs] * 4, lake.kill_once, lake.run_both, lake.continue_old_run]
    for number in range(campaign.size(short=3, full=50)):
        step = lake.chance.choice(steps)
        if step not in (lake.land, lake.change_inputs):
            lake.change_inputs()
        lake.note(f"\n{number} {step.__name__}")
        step()
        lake.check()
        if lake.chance.random() < 0.8:  # sometimes, the next change meets tables that are out of date
            lake.run()
            lake.check()
            lake.check_fresh()
    lake.run()
    lake.check_fresh()
    lake.check_clean()
