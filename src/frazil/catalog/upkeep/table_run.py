"""One run of upkeep on one table, by the worker that has its lease: the steps that the debt asks for, as `frazil
maintain` does them, within a budget.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from frazil import metrics
from frazil.catalog.upkeep.record import REMOVING, Asked, Memory, Run
from frazil.config import UpkeepSettings
from frazil.errors import CommitConflict, FrazilError, UpkeepError
from frazil.logs import redact
from frazil.upkeep import (
    MUCH_BYTES,
    Budget,
    CompactionPlan,
    Debt,
    Engine,
    Halt,
    Keeper,
    Look,
    PacedEngine,
    Policy,
    StepPlan,
    StepReport,
    Stopped,
    now_ms,
)
from frazil.write.commit import RetryPolicy

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Identifier

    from frazil.client import FrazilCatalog

log = logging.getLogger("frazil.upkeep")
HALF_DUE = 0.5  # a step with this score takes part in a run that another one has made due
ORPHANS_EVERY_MS = 24 * 3_600_000
GIVE_UP_SECONDS, LONGEST_PAUSE_SECONDS = 60.0, 10.0  # of a commit: writers come first


def choose_steps(debt: Debt, *, orphans: bool) -> tuple[str, ...]:
    """The steps that a run does, in the order in which they help each other. What compaction writes is new to indexes.

    >>> choose_steps(Debt(steps={"compact": 1.4, "deletes": 0.0, "manifests": 0.6, "expire": 0.1}), orphans=False)
    ('compact', 'manifests', 'indexes')
    """
    steps = [step for step, score in (debt.steps or {}).items() if score >= HALF_DUE]
    wanted = {*steps, *(("indexes",) if "compact" in steps else ()), *(("orphans",) if orphans else ())}
    return tuple(step for step in ("compact", "deletes", "manifests", "indexes", "expire", "orphans") if step in wanted)


def wants_orphans(policy: Policy, settings: UpkeepSettings, memory: Memory, *, now_ms: int) -> bool:
    """Whether the table's folders are searched for orphan files: once a day, and only if the table or the operator says
    so.
    """
    allowed = settings.orphans if policy.removes_orphans is None else policy.removes_orphans
    return allowed and now_ms - memory.orphans_ms >= ORPHANS_EVERY_MS


@dataclass
class TableRun:
    """The work on one table, from the first plan to the report."""

    catalog: FrazilCatalog
    identifier: Identifier
    settings: UpkeepSettings
    halt: Halt
    memory: Memory = field(default_factory=Memory)
    owner: str = ""
    large: Callable[[], Engine] | None = None  # where much is rewritten: Spark
    on_step: Callable[[str], None] = lambda _: None  # is called at each step of a commit
    uuid: str | None = None  # of the table that was scored
    asked: Asked | None = None  # its steps are done, whatever the debt is
    clock_ms: Callable[[], int] = now_ms  # the database's, which all workers share
    conflicts: int = 0
    _reports: list[StepReport] = field(default_factory=list)
    _looked: dict[str, Look] = field(default_factory=dict)

    def run(self, debt: Debt) -> Run:
        """What was done; an error ends the run and is in its message."""
        start, at_ms, outcome, message = time.monotonic(), self.clock_ms(), "failed", None
        try:
            self._run(debt, at_ms)
            outcome = self._outcome()
        except Stopped as exc:
            outcome, message = "stopped", str(exc)
        except CommitConflict as exc:
            outcome, message = "yielded", exc.message
        except Exception as exc:  # one table must not end the worker
            message = describe(exc)
            log.warning(
                "%s: upkeep failed: %s", ".".join(self.identifier), message, exc_info=not isinstance(exc, FrazilError)
            )
        memory = self.memory.after(outcome, conflicts=self.conflicts, looked=self._looked)
        seconds = time.monotonic() - start
        reports = tuple(self._reports)
        run = Run(outcome, memory, self.owner, at_ms, seconds, message, reports, self.conflicts, self.asked)
        self._count(run)
        return run

    def _run(self, debt: Debt, at_ms: int) -> None:
        metadata, policy = self._load()
        if self.asked is not None:
            steps = self.asked.steps
        else:
            steps = choose_steps(debt, orphans=wants_orphans(policy, self.settings, self.memory, now_ms=at_ms))
        if "orphans" in steps:
            self.memory = replace(self.memory, orphans_ms=at_ms)
        look = Look.at(metadata)
        budget = Budget(self.settings.share, self.settings.bytes_per_second, self.halt)
        # What is removed must be old by both clocks: one that is wrong must not make a file of a running job an orphan.
        keeper = Keeper(
            self.catalog, self.identifier, PacedEngine(budget), self._retry(), lambda: min(self.clock_ms(), now_ms())
        )
        for step in steps:
            if self._reports:
                self._load()  # a step can take hours: the table may be off, or another one, by now
            self._looked |= {step: look} if look is not None else {}
            budget.begin()
            plan = keeper.plan(step)
            budget.spend()
            if plan.detail is not None:
                keeper.engine = self._engine(plan, budget)
                log.info("%s: %s: %s", plan.table, step, "; ".join(plan.lines))
                self.on_step(f"{step} begins")
                self._reports.append(keeper.perform(plan))
                budget.spend()

    def _load(self) -> tuple[TableMetadata, Policy]:
        """The table and its rules, while it is the one that was scored and may be maintained."""
        metadata, name = self.catalog.load_table(self.identifier).metadata, ".".join(self.identifier)
        if self.uuid is not None and str(metadata.table_uuid) != self.uuid:
            raise UpkeepError(f"{name}: another table has this name by now", table=name)
        policy = Policy.of(metadata.properties, table=name)
        if not (is_enabled(policy, self.settings) or (self.asked is not None and policy.enabled is None)):
            raise Stopped("upkeep of the table was turned off")
        return metadata, policy

    def _engine(self, plan: StepPlan, budget: Budget) -> Engine:
        """Spark for a compaction that `frazil maintain` would suggest it for; else this process."""
        much = isinstance(plan.detail, CompactionPlan) and plan.detail.bytes > MUCH_BYTES
        return self.large() if much and self.large is not None else PacedEngine(budget)

    def _retry(self) -> RetryPolicy:
        return RetryPolicy(GIVE_UP_SECONDS, LONGEST_PAUSE_SECONDS, sleep=self._give_way, on_step=self.on_step)

    def _give_way(self, seconds: float) -> None:
        """Waits before the next attempt: a writer committed first. Not at the end: one attempt more is soon done."""
        self.conflicts += 1
        self.halt.wait(seconds)

    def _outcome(self) -> str:
        if self.halt.requested:
            return "stopped"
        if any(report.overtaken for report in self._reports):
            return "yielded"
        return "done" if self._reports else "nothing"

    def _count(self, run: Run) -> None:
        sink, removed = metrics.current(), [report for report in self._reports if report.step in REMOVING]
        sink.count("frazil_upkeep_runs_total", outcome=run.outcome)
        sink.observe("frazil_upkeep_run_seconds", run.seconds)
        rewritten = sum(report.rewritten_bytes for report in self._reports)
        sink.count("frazil_upkeep_rewritten_files_total", sum(report.rewritten_files for report in self._reports))
        sink.count("frazil_upkeep_rewritten_bytes_total", rewritten)
        sink.count("frazil_upkeep_removed_files_total", sum(report.files for report in removed))
        sink.count("frazil_upkeep_removed_bytes_total", sum(report.bytes for report in removed))


def describe(error: Exception) -> str:
    """An error in one line, without secrets."""
    if isinstance(error, FrazilError):
        return redact(error.message)
    return redact(f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"[:500])


def is_enabled(policy: Policy, settings: UpkeepSettings) -> bool:
    """Whether the catalog maintains a table: by its property `upkeep.enabled`, else by the setting `upkeep.tables`."""
    return settings.tables == "all" if policy.enabled is None else policy.enabled
