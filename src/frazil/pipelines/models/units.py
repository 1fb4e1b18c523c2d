"""Which derivations are published in one commit, and in which order these commits are made. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from frazil.pipelines.models.derivation import Derivation


def split_units(derivations: Sequence[Derivation], *, together: bool = False) -> list[list[Derivation]]:
    """The derivations in units, which are published one after the other; inputs come before what reads them.

    `together` makes one unit of all. Otherwise the members of a group are a unit, with everything that lies between
    them: what reads one member and is read by another cannot be published before or after both.
    """
    if together:
        return [list(derivations)] if derivations else []
    makers = {derivation.target: derivation.name for derivation in derivations}
    reads = {each.name: [makers[table] for table in each.tables if table in makers] for each in derivations}
    unit_of = {each.name: f"group {each.group}" if each.group else f"alone {each.name}" for each in derivations}
    order = _order_units(unit_of, reads)
    return [[each for each in derivations if unit_of[each.name] == unit] for unit in order]


def _order_units(unit_of: dict[str, str], reads: Mapping[str, Sequence[str]]) -> list[str]:
    """The units in order; those that wait for each other become one, in `unit_of`."""
    while True:
        waits: dict[str, set[str]] = {unit: set() for unit in unit_of.values()}
        for name, inputs in reads.items():
            waits[unit_of[name]] |= {unit_of[source] for source in inputs} - {unit_of[name]}
        try:
            return _in_order(waits)
        except CycleError as exc:
            cycle = set(exc.args[1])
            merged = min(cycle)
            for name, unit in unit_of.items():
                if unit in cycle:
                    unit_of[name] = merged


def _in_order(waits: Mapping[str, Collection[str]]) -> list[str]:
    """The units, each after those that it waits for; of those that could be next, the one that is named first.

    >>> _in_order({"a": [], "b": ["d"], "c": ["a"], "d": []})
    ['a', 'c', 'd', 'b']
    """
    TopologicalSorter(waits).prepare()  # raises if they wait for each other
    order: list[str] = []
    while len(order) < len(waits):
        order.append(next(unit for unit in waits if unit not in order and set(waits[unit]) <= set(order)))
    return order
