"""Models over tables that change in every way, by runs that are killed, stopped and concurrent: after each step every
derived table is what its query gives for the snapshots that its progress names.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from tests.conftest import Campaign
from tests.faults.graph_lake import Deck, GraphLake
from tests.faults.pipeline_processes import copy_example

CHANGES = ("correct", "correct_customers", "delete", "delete_customers", "roll_back", "compact")


@pytest.fixture(scope="module")
def module_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphLake]:
    folder = copy_example(tmp_path_factory.mktemp("sales"))
    with running_catalog(folder / "catalog") as server:
        lake = GraphLake(folder, server.uri, FrazilCatalog("lake", **server.properties), random.Random(0))
        lake.land()
        yield lake
        lake.close()


@pytest.fixture
def lake(module_lake: GraphLake, campaign: Campaign) -> GraphLake:
    """The lake with tables that are up to date."""
    module_lake.begin(campaign.random())
    module_lake.run()
    module_lake.check_fresh()
    return module_lake


@pytest.mark.timeout(0)
@pytest.mark.requirement("spark.graph")
def test_after_every_step_each_derived_table_is_its_definition(lake: GraphLake, campaign: Campaign) -> None:
    runs = (lake.kill_once, lake.run_both, lake.continue_old_run)
    steps = Deck(lake.chance, lake.land, lake.expire, *[lake.change_inputs] * 4, *runs)
    for number in range(campaign.size(short=3, full=50)):
        step = steps.draw()
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
    lake.check_counts(least=campaign.size(short=1, full=50))
    if campaign.full:  # 50 steps draw each of the nine at least five times
        assert all(lake.done[kind] for kind in ("expire", "kill", *CHANGES)), lake.done


@pytest.mark.timeout(0)
@pytest.mark.requirement("spark.graph")
def test_a_graph_that_is_killed_again_and_again_loses_and_doubles_nothing(lake: GraphLake, campaign: Campaign) -> None:
    kill_runs(lake, campaign.size(short=1, full=100))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.requirement("spark.graph")
def test_clients_of_a_warm_spark_that_are_killed_lose_and_double_nothing(lake: GraphLake, campaign: Campaign) -> None:
    """The JVM goes on, with the jobs that the client has left in it."""
    with lake.warm_spark() as spark:
        kill_runs(lake, campaign.size(short=1, full=100))
        assert spark.log.read_text().count("attached") > lake.done["kill"]


def kill_runs(lake: GraphLake, kills: int) -> None:
    """After each kill every derived table is its definition, and from time to time a run brings all up to date."""
    while lake.done["kill"] < kills:
        lake.note(f"\n{lake.done['kill']}")
        lake.change_inputs()
        lake.kill_once()
        lake.check()
        if lake.chance.random() < 0.3:
            lake.run()
            lake.check_fresh()
    lake.run()
    lake.check_fresh()
    lake.check_clean()
    lake.check_counts(least=kills)
