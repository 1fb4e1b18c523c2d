"""How much of the machine upkeep may use: a share of the time, and bytes per second. Work is done in small pieces, and
pauses between them leave the rest to others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from frazil.errors import UpkeepError
from frazil.upkeep.compact import Finished
from frazil.upkeep.groups import Group
from frazil.upkeep.halt import Halt, Stopped
from frazil.upkeep.rewriting import Rewriter
from frazil.vector import Builder

LEAST_PAUSE_SECONDS = 0.02  # shorter pauses are saved up


@dataclass
class Budget:
    """A share of the time (1: no pauses), and how many bytes of rows are read per second (0: any number)."""

    share: float = 1.0
    bytes_per_second: int = 0
    halt: Halt = field(default_factory=Halt)
    clock: Callable[[], float] = time.monotonic
    _since: float = field(init=False)
    _owed: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._since = self.clock()

    def begin(self) -> None:
        """Work starts now: what was before is not counted."""
        self._since = self.clock()

    def spend(self, read_bytes: int = 0) -> None:
        """Pauses as long as the work since the last call asks for. Raises `Stopped` as soon as the work is to end."""
        worked = self.clock() - self._since
        at_rate = read_bytes / self.bytes_per_second - worked if self.bytes_per_second else 0.0
        self._owed += max(worked * (1 / self.share - 1), at_rate, 0.0)
        self.halt.check()
        if self._owed >= LEAST_PAUSE_SECONDS:
            before = self.clock()
            self.halt.wait(self._owed)
            self._owed -= self.clock() - before
            self.halt.check()
        self._since = self.clock()


@dataclass
class PacedEngine:
    """One group after the other, in this process and within a budget. When the work is to end, the group at hand is
    given up and its files are deleted; groups before it are committed.
    """

    budget: Budget

    def rewrite(self, rewriter: Rewriter, groups: Sequence[Group]) -> Iterator[Finished]:
        """Each group with its new files, as they are finished."""
        paced = replace(rewriter, on_batch=self.budget.spend)
        for group in groups:
            try:
                yield group, paced.rewrite(group)
            except Stopped:
                return
            except UpkeepError as exc:
                yield group, exc

    def index_builder(self) -> Builder:
        """Builds in this process, too."""
        return Builder()
