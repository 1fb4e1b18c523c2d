"""What steps of upkeep would do to a table: the plans of `frazil maintain --dry-run`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from frazil.lake import Lake
    from frazil.upkeep import StepPlan


def plan_steps(lake: Lake, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The plan of each step, by the table as it is now."""
    from frazil.upkeep import Keeper, Locations

    keeper = Keeper(lake.catalog, tuple(arguments["table"]), locations=Locations(lake.catalog))
    return {"steps": [_describe(keeper.plan(step)) for step in arguments["steps"]]}


def _describe(plan: StepPlan) -> dict[str, Any]:
    facts = {"files": plan.files, "bytes": plan.bytes, "snapshots": plan.snapshots}
    return {"step": plan.step, "lines": plan.lines, **facts, "does": plan.detail is not None, "removes": plan.removes}
