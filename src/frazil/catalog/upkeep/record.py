"""What the database keeps of a table's upkeep: what someone asked for, what the last run did, and what the next one
must know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from frazil.upkeep import MOST_FACTOR, STEPS, Look

if TYPE_CHECKING:
    from frazil.upkeep import StepReport  # with it come the libraries for data files

REMOVING = ("expire", "orphans")
MOST_BACKOFF = 6  # doublings of the pause between two runs


@dataclass(frozen=True)
class Memory:
    """What is carried from run to run."""

    looked: Mapping[str, Look] = field(default_factory=dict)  # by step: where main was when it began to look
    factor: int = 1  # by which the thresholds are raised: runs found nothing to do
    backoff: int = 0  # doublings of the pause: runs in a row that failed or gave way to writers
    orphans_ms: int = 0  # when the table's folders were last listed

    def after(self, outcome: str, *, conflicts: int, looked: Mapping[str, Look] | None = None) -> Memory:
        """What the next run must know. What a run has looked at that was cut short counts as not looked at.

        >>> Memory(factor=2).after("nothing", conflicts=0).factor, Memory(factor=2).after("done", conflicts=0).factor
        (4, 1)
        >>> [Memory(backoff=3).after("done", conflicts=number).backoff for number in (0, 7)]
        [0, 1]
        >>> Memory(backoff=3).after("yielded", conflicts=7).backoff
        4
        """
        factor = {"nothing": min(self.factor * 2, MOST_FACTOR), "done": 1}.get(outcome, self.factor)
        looks = {**self.looked, **(looked or {})} if outcome in ("done", "nothing") else self.looked
        # One doubling for a conflict that a retry has settled: a steady stream of commits has one now and then.
        gave_way = outcome in ("yielded", "failed")
        backoff = min(self.backoff + 1, MOST_BACKOFF) if gave_way else int(conflicts > 0)
        return replace(self, looked=looks, factor=factor, backoff=backoff)


@dataclass(frozen=True)
class Asked:
    """What someone asked for: these steps, whatever the debt is."""

    id: str
    steps: tuple[str, ...]
    by: str
    at_ms: int

    def to_json(self) -> str:
        """The text that the database keeps."""
        return json.dumps(asdict(self))

    def after(self, earlier: Asked | None) -> Asked:
        """The same, with the steps of an earlier request that no worker has begun with.

        >>> Asked("b", ("expire",), "ann", 2).after(Asked("a", ("compact", "expire"), "bob", 1)).steps
        ('compact', 'expire')
        """
        if earlier is None:
            return self
        return replace(self, steps=tuple(step for step in STEPS if step in {*earlier.steps, *self.steps}))


def asked_of(request: str | None) -> Asked | None:
    """What a text of the database asks for.

    >>> asked_of(Asked("a", ("compact",), "ann", 7).to_json())
    Asked(id='a', steps=('compact',), by='ann', at_ms=7)
    """
    if request is None:
        return None
    document = json.loads(request)
    return Asked(document["id"], tuple(document["steps"]), document["by"], document["at_ms"])


@dataclass(frozen=True)
class Run:
    """A run on one table: its outcome is done, nothing, yielded (to writers), stopped or failed."""

    outcome: str
    memory: Memory
    owner: str = ""
    at_ms: int = 0
    seconds: float = 0.0
    message: str | None = None  # why it failed or was stopped
    reports: Sequence[StepReport] = ()
    conflicts: int = 0
    asked: Asked | None = None  # None: the debt was high enough

    def to_json(self) -> str:
        """The text that the database keeps."""
        live = [report for report in self.reports if report.step not in REMOVING]
        gone = [report for report in self.reports if report.step in REMOVING]
        document: dict[str, Any] = {
            "outcome": self.outcome,
            "owner": self.owner,
            "at_ms": self.at_ms,
            "seconds": round(self.seconds, 3),
            "message": self.message,
            "conflicts": self.conflicts,
            "asked": asdict(self.asked) if self.asked is not None else None,
            "saved_files": sum(report.files for report in live),
            "removed_files": sum(report.files for report in gone),
            "removed_bytes": sum(report.bytes for report in gone),
            "expired_snapshots": sum(report.snapshots for report in gone),
            "did": [f"{report.step}: {line}" for report in self.reports for line in report.lines],
            "problems": [f"{report.step}: {line}" for report in self.reports for line in report.problems],
            "memory": asdict(self.memory),
        }
        return json.dumps(document)


def memory_of(run: str | None) -> Memory:
    """What the last run has left for the next one.

    >>> memory_of(Run("done", Memory({"compact": Look(7, 3)}, factor=2)).to_json())
    Memory(looked={'compact': Look(snapshot_id=7, sequence=3)}, factor=2, backoff=0, orphans_ms=0)
    >>> memory_of(None)
    Memory(looked={}, factor=1, backoff=0, orphans_ms=0)
    """
    document = json.loads(run)["memory"] if run else {}
    looked = document.pop("looked", {})
    return Memory({step: Look(**look) for step, look in looked.items()}, **document)
