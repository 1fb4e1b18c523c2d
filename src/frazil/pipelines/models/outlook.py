"""What a run would do with derivations, before Spark starts; and the order in which they run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from frazil.errors import FrazilError, PipelineError
from frazil.pipelines.models.backfill import Days
from frazil.pipelines.models.decide import Action, Decision
from frazil.pipelines.models.derivation import Derivation
from frazil.pipelines.models.inputs import waiting_times
from frazil.pipelines.models.run import Planned, World, plan_derivation

if TYPE_CHECKING:
    from frazil.client import FrazilCatalog

_ACTIONS = {"append": Action.APPEND, "upsert": Action.MERGE, "replace-partition": Action.PARTITIONS}


@dataclass(frozen=True)
class Outlook:
    """What a run would do with a derivation, and why."""

    derivation: Derivation
    decision: Decision
    error: FrazilError | None = None  # why it cannot be run
    waits_for: tuple[str, ...] = ()  # inputs that have nothing new yet, and will have
    waiting_ms: tuple[int, ...] = ()  # when the rows were committed that it has not read, the oldest first
    is_sure: bool = True  # False: whether an input that is no table has new rows is not known

    @property
    def does_something(self) -> bool:
        return self.decision.does_something or self.error is not None


def foresee(
    derivations: Sequence[Derivation],
    catalog: FrazilCatalog,
    *,
    full_refresh: Collection[str] = (),
    env: str | None = None,
    days: Days | None = None,
    changing: Collection[str] = (),
) -> list[Outlook]:
    """What a run would do with derivations that are in order, in an environment or on main. Changes nothing. The
    tables `changing` will have new rows by then.
    """
    world, changing, expected = World(catalog, env, is_outlook=True), set(changing), list[Outlook]()
    for derivation in derivations:
        try:
            refresh = derivation.name in full_refresh
            planned = plan_derivation(derivation, world, full_refresh=refresh, days=days)
        except PipelineError as exc:
            expected.append(Outlook(derivation, Decision(Action.NOTHING, exc.message), exc))
            continue
        outlook = _outlook(planned, world, [table for table in derivation.tables if table in changing])
        if outlook.decision.does_something:
            changing.add(derivation.target)
        expected.append(outlook)
    return expected


def _outlook(planned: Planned, world: World, changing: Sequence[str]) -> Outlook:
    """What is planned, or what will be to do when inputs have changed."""
    derivation, decision = planned.derivation, planned.decision
    times = [time for name, new in planned.arrived.items() for time in waiting_times(world.tables[name].metadata, new)]
    waits_for: tuple[str, ...] = ()
    if changing and not decision.does_something:
        waits_for = tuple(changing)
        action = _ACTIONS.get(derivation.mode, Action.OVERWRITE)
        decision = Decision(action, f"{', '.join(waits_for)} would change")
    is_sure = not (derivation.others or (planned.marked and planned.marked.mark)) or bool(times or changing)
    return Outlook(derivation, decision, None, waits_for, tuple(sorted(times)), is_sure)


def in_order(derivations: Sequence[Derivation]) -> list[Derivation]:
    """The derivations, each after those that make its inputs; otherwise as they were given."""
    makers: dict[str, list[int]] = {}
    for number, derivation in enumerate(derivations):
        makers.setdefault(derivation.target, []).append(number)
    sorter = TopologicalSorter[int]()
    for number, derivation in enumerate(derivations):
        sorter.add(number, *(maker for table in derivation.tables for maker in makers.get(table, ())))
    try:
        sorter.prepare()
    except CycleError as exc:
        names = [derivations[number].name for number in exc.args[1]]
        raise PipelineError(
            f"the tables are made from each other: {' -> '.join(reversed(names))}",
            hint="break the circle: a table cannot be its own input, not even through others",
            problem="cycle",
        ) from exc
    order: list[Derivation] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        order += [derivations[number] for number in ready]
        sorter.done(*ready)
    return order
