"""Which engine rewrites the files of a table, and how long the table is left alone after a run."""

from __future__ import annotations

from typing import Any, cast

import pytest

from frazil.catalog.upkeep.record import Memory, Run
from frazil.catalog.upkeep.table_run import TableRun
from frazil.catalog.upkeep.worker import UpkeepWorker
from frazil.config import UpkeepSettings
from frazil.upkeep import MUCH_BYTES, Budget, CompactionPlan, Engine, Group, Halt, LocalEngine, PacedEngine, StepPlan
from frazil.upkeep.groups import LiveFile

NOTHING = cast(Any, None)  # no catalog and no database: nothing is asked of them


def engine_for(size: int, large: Engine | None) -> Engine:
    group = Group((LiveFile("f", size, 1),), 0)
    plan = StepPlan("lake.t", "compact", detail=CompactionPlan("lake.t", (group,), 1))
    give = (lambda: large) if large is not None else None
    return TableRun(NOTHING, ("lake", "t"), UpkeepSettings(), Halt(), large=give)._engine(plan, Budget())


def test_much_is_handed_to_spark_and_the_rest_is_not() -> None:
    spark = LocalEngine()
    assert engine_for(MUCH_BYTES + 1, spark) is spark
    assert isinstance(engine_for(MUCH_BYTES, spark), PacedEngine)
    assert isinstance(engine_for(MUCH_BYTES + 1, None), PacedEngine)


@pytest.mark.parametrize(
    ("outcome", "backoff", "seconds"),
    [
        ("done", 0, 60),
        ("nothing", 0, 60),
        ("done", 1, 120),
        ("failed", 3, 480),
        ("yielded", 6, 3600),
        ("stopped", 0, 0),
    ],
)
def test_conflicts_and_errors_double_the_pause_and_a_stopped_run_has_none(
    outcome: str, backoff: int, seconds: float
) -> None:
    worker = UpkeepWorker(NOTHING, NOTHING, UpkeepSettings(table_seconds=60))
    assert worker._wait_seconds(Run(outcome, Memory(backoff=backoff))) == seconds
