"""`run` over models and pipelines: what is out of date, in order, independent ones side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from frazil.cli.context import Context
from frazil.cli.ownership import own_tables
from frazil.cli.progress import spark_progress
from frazil.cli.run_files import Load, describe_load
from frazil.cli.run_result import Report, RunOptions, failure_as_json, on_branch, result_as_json
from frazil.cli.spark import project_session
from frazil.errors import FrazilError, PipelineError
from frazil.pipelines import RunResult, tell_error
from frazil.pipelines.models import Decision, Derivation, GraphRun, Outcome, Outlook, Schedule, foresee, split_units
from frazil.project import Project
from frazil.spark import SideBySide

Results = Sequence[RunResult]


@dataclass(frozen=True)
class Task:
    """What is published by one commit, and what it has to wait for: tasks by their numbers."""

    names: tuple[str, ...]
    run: Callable[[SideBySide], Results]
    describe: Callable[[RunResult, str | None], str]
    waits: frozenset[int] = frozenset()

    @property
    def label(self) -> str:
        """
        >>> Task(("gold.a", "gold.b"), lambda _: [], describe_result).label
        'gold.a and 1 more'
        """
        return self.names[0] if len(self.names) == 1 else f"{self.names[0]} and {len(self.names) - 1} more"


@dataclass(frozen=True)
class GraphCommand:
    """One `frazil run` over loads and derivations; `errors` are those of loads that cannot begin, by pipeline."""

    context: Context
    project: Project
    options: RunOptions
    report: Report
    loads: Sequence[Load] = ()
    errors: Mapping[str, FrazilError] = field(default_factory=dict)

    def run(self, derivations: Sequence[Derivation]) -> None:
        """Runs derivations that are in order, and reports what became of each; raises if one failed."""
        expected = self._foresee(derivations)
        doing = [outlook for outlook in expected if outlook.does_something]
        for outlook in expected:
            quiet = outlook in doing and not self.options.dry_run
            self.report.add_model("" if quiet else describe_outlook(outlook), outlook_as_json(outlook))
        if self.options.dry_run:
            failed = {each.derivation.name: each.error for each in expected if each.error}
            _raise({**self.errors, **failed}, of=len(expected) + len(self.errors))
        elif tasks := self._tasks(derivations, {outlook.derivation.name for outlook in doing}):
            self._run_tasks(tasks)

    def _foresee(self, derivations: Sequence[Derivation]) -> list[Outlook]:
        if not derivations:
            return []
        pending = [str(each["table"]) for each in self.report.results if each["status"] == "pending"]
        changing = {*pending, *(load.pipeline.target.name for load in self.loads)}
        return foresee(
            derivations,
            self.context.announce(),
            full_refresh=self._refreshed(derivations),
            env=self.options.env,
            days=self.options.days,
            changing=changing,
        )

    def _refreshed(self, derivations: Sequence[Derivation]) -> frozenset[str]:
        return frozenset(each.name for each in derivations) if self.options.full_refresh else frozenset()

    # --- what is to be done ------------------------------------------------------------------------------------------

    def _tasks(self, derivations: Sequence[Derivation], doing: set[str]) -> list[Task]:
        """The loads, and the units of derivations that something is to be done about."""
        tasks = [Task((name,), partial(_raise_again, error), describe_load) for name, error in self.errors.items()]
        tasks += [Task((load.pipeline.name,), _of_load(load), describe_load) for load in self.loads]
        pipelines = {pipeline.name: pipeline.target.name for pipeline in self.project.pipelines}
        makers: dict[str, set[int]] = {}
        for number, task in enumerate(tasks):
            makers.setdefault(pipelines[task.names[0]], set()).add(number)
        owner = self._own([each for each in derivations if each.name in doing])
        for unit in split_units(derivations, together=self.options.atomic):
            if any(each.name in doing for each in unit):
                waits = frozenset(number for each in unit for name in each.tables for number in makers.get(name, ()))
                for each in unit:
                    makers.setdefault(each.target, set()).add(len(tasks))
                names = tuple(each.name for each in unit)
                tasks.append(Task(names, self._of_unit(unit, owner), describe_result, waits - {len(tasks)}))
        return tasks

    def _own(self, derivations: Sequence[Derivation]) -> str | None:
        if not derivations:
            return None
        identifiers = [derivation.identifier for derivation in derivations]
        return own_tables(self.context, self.project.folder, identifiers, adopt=self.options.adopt)

    def _of_unit(self, unit: Sequence[Derivation], owner: str | None) -> Callable[[SideBySide], Results]:
        return lambda sessions: GraphRun(
            unit,
            sessions.first,
            self.context.catalog,
            self.project.folder,
            owner=owner,
            full_refresh=self._refreshed(unit),
            env=self.options.env,
            days=self.options.days,
            on_step=lambda step, decision: _tell(self.context, step, decision),
            sessions=sessions,
        ).run_together()

    # --- doing it ----------------------------------------------------------------------------------------------------

    def _run_tasks(self, tasks: Sequence[Task]) -> None:
        label = tasks[0].label if len(tasks) == 1 else "run"
        with project_session(self.context, self.project, label) as spark:
            sessions = SideBySide(spark, self.options.threads)
            schedule = Schedule(
                [partial(task.run, sessions) for task in tasks],
                [task.waits for task in tasks],
                threads=self.options.threads,
                on_end=lambda number, outcome: self._tell_end(tasks, number, outcome),
                on_interrupt=sessions.cancel,
            )
            with spark_progress(spark, label, self.context.talk):
                ended = schedule.run()
        failed = {task.label: each.error for task, each in zip(tasks, ended, strict=True) if each.error}
        _raise(failed, of=len(tasks))

    def _tell_end(self, tasks: Sequence[Task], number: int, outcome: Outcome[Results]) -> None:
        task = tasks[number]
        for result in outcome.value or ():
            self.report.add(task.describe(result, self.options.env), result_as_json(result))
        if outcome.blocked_by is not None:
            self._tell_failure(task, "skipped", f"{tasks[outcome.blocked_by].label} failed")
        elif outcome.error is not None and len(tasks) > 1:  # the error of a single one is that of the command
            self._tell_failure(task, "failed", tell_error(outcome.error, self.context.catalog.properties))

    def _tell_failure(self, task: Task, status: str, why: str) -> None:
        for name in task.names:
            self.report.add(f"{name}: {status}: {why}", failure_as_json(name, why, status=status))


def _of_load(load: Load) -> Callable[[SideBySide], Results]:
    return lambda sessions: [sessions.run(load.pipeline.name, load.run)]


def _raise_again(error: Exception, _: SideBySide) -> Results:
    raise error


def _raise(errors: Mapping[str, Exception], *, of: int) -> None:
    """Raises the only error as it is; of several tasks, one that names those that failed."""
    if errors and of == 1:
        raise next(iter(errors.values()))
    if errors:
        first = next(iter(errors.values()))
        raise PipelineError(
            f"{len(errors)} of {of} failed: {', '.join(errors)}",
            hint=getattr(first, "hint", None) or "what failed has published nothing; fix it and run again",
            problem="failed",
            got=list(errors),
        ) from first


def _tell(context: Context, name: str, decision: Decision) -> None:
    if decision.does_something:
        context.talk.note(f"{name}: {decision.action.value}: {decision.reason}")


def describe_result(result: RunResult, env: str | None = None) -> str:
    """A result in lines.

    >>> describe_result(RunResult("gold.revenue", "gold.revenue"))
    'gold.revenue: is up to date'
    """
    if result.snapshot_id is None:
        return f"{result.pipeline}: is up to date"
    rows = f"{result.pipeline}: {result.rows:,} rows"
    changed = "" if result.inserted is None else f" ({result.inserted:,} new, {result.deleted or 0:,} deleted)"
    where = f"{result.table}{on_branch(env)}, snapshot {result.snapshot_id}"
    return f"{rows}{changed} are in {where}, in {result.seconds:.1f} s"


def describe_outlook(outlook: Outlook) -> str:
    """What would be done about a derivation, and why, in a line."""
    name, decision = outlook.derivation.name, outlook.decision
    if outlook.error is not None:
        return f"{name}: would fail: {decision.reason}"
    if not decision.does_something:
        return f"{name}: is up to date: {decision.reason}"
    return f"{name}: would {decision.action.value}: {decision.reason}"


def outlook_as_json(outlook: Outlook) -> dict[str, Any]:
    """The same for programs."""
    derivation, decision = outlook.derivation, outlook.decision
    return {
        "name": derivation.name,
        "table": derivation.target,
        "mode": derivation.mode,
        "action": "fail" if outlook.error is not None else decision.action.value,
        "reason": decision.reason,
    }
