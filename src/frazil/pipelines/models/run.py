"""Runs models and pipelines over tables: what is out of date is computed on staging branches, and published.

A run fixes the snapshot of every input first. The rows of each derivation go to a staging branch of its table, audits
look at them there, and one commit moves the refs of all tables of a group, each with its progress: the snapshots of the
inputs that its rows were made from. A derivation that reads a table of the same group reads what is staged. So a run
that fails or is killed publishes nothing, and the next one finds the same rows out of date; of two runs at once the
first to commit wins, and the other one is refused.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frazil.client import READS, load_at_once
from frazil.errors import CommitUnknown, PipelineError, WriterFenced
from frazil.history import branch_table, ref_in
from frazil.ownership import check_pipeline
from frazil.pipelines import (
    Audit,
    RunResult,
    RunStart,
    Stages,
    append_rows,
    check_staged,
    note_run,
    open_companion,
    report_run,
    run_rows,
    runs_of,
    tell_aborted,
    tell_ended,
    tell_error,
    tell_started,
)
from frazil.pipelines.models.backfill import Backfill, Days, plan_backfill
from frazil.pipelines.models.decide import Action, Decision, Question, decide
from frazil.pipelines.models.derivation import Derivation
from frazil.pipelines.models.inputs import Arrived, current_state, find_news
from frazil.pipelines.models.marks import MarkedInput, MarkedReader, decide_marked, read_marked
from frazil.pipelines.models.reading import InputReader
from frazil.pipelines.models.schedule import Outcome, Schedule
from frazil.pipelines.models.staging import Computing, Work
from frazil.pipelines.sources import SparkSource
from frazil.spark import SideBySide, spark_error, spark_errors
from frazil.write.commit import MAIN, InputState, Mark, Move, Overtaken, Published, RetryPolicy, publish_together

if TYPE_CHECKING:
    from pyiceberg.table import Table as LiveTable
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Identifier
    from pyspark.sql import SparkSession

    from frazil.client import FrazilCatalog
    from frazil.pipelines import Judge
    from frazil.sinks import BadRows, IcebergTarget
    from frazil.sinks.spark import FrameSink
    from frazil.write.commit import Append, Publication

ATTEMPTS = 5  # to publish, while others change the tables


@dataclass(frozen=True)
class World:
    """The tables that a run reads, as it has fixed them: all at one moment, and what it has staged itself."""

    catalog: FrazilCatalog
    env: str | None = None  # the environment: its branches are read where there are some
    is_outlook: bool = False  # nothing is computed: tables that change all the time are taken as they are
    tables: dict[str, LiveTable] = field(default_factory=dict)
    states: dict[str, InputState] = field(default_factory=dict)

    def fix(self, names: Sequence[str]) -> None:
        """Fixes the tables that are not fixed yet."""
        if wanted := [name for name in dict.fromkeys(names) if name not in self.tables]:
            tables, at_once = _load(self.catalog, wanted)
            if not (at_once or self.is_outlook):
                raise _never_still(wanted)
            for name, table in tables.items():
                ref = ref_in(table.metadata, self.env, table=name)
                self.tables[name], self.states[name] = table, current_state(table.metadata, ref)

    def stage(self, name: str, table: LiveTable, snapshot_id: int) -> None:
        """From now on, readers of the table in this run see what is staged."""
        self.tables[name] = table
        self.states[name] = InputState(str(table.metadata.table_uuid), snapshot_id)

    def arrived(self, name: str, since: InputState | None) -> Arrived:
        """What is new in an input; `Overtaken` if another run has read it in a later state than this one."""
        metadata = self.tables[name].metadata
        if since is not None and not _knows(metadata, since) and _knows(self._now(name), since):
            raise Overtaken(f"another run has read {name} at snapshot {since.snapshot_id}, after this one fixed it")
        return find_news(metadata, since, self.states[name], name=name)

    def _now(self, name: str) -> TableMetadata:
        tables, _ = _load(self.catalog, [name])
        return tables[name].metadata


def _knows(metadata: TableMetadata, state: InputState) -> bool:
    """Whether the metadata has the state's snapshot."""
    if state.snapshot_id is None:
        return True
    return str(metadata.table_uuid) == state.uuid and metadata.snapshot_by_id(state.snapshot_id) is not None


def _load(catalog: FrazilCatalog, names: Sequence[str]) -> tuple[dict[str, LiveTable], bool]:
    from pyiceberg.exceptions import NoSuchTableError

    try:
        return load_at_once(catalog, names)
    except NoSuchTableError as exc:
        raise PipelineError(f"an input does not exist: {exc}", hint="frazil apply, or check the names") from exc


def _never_still(names: Sequence[str]) -> PipelineError:
    return PipelineError(
        f"{', '.join(names)}: each of {READS} readings found a change, so that they are not known as they were at one "
        "moment",
        hint="nothing was computed; run again when fewer others write to the tables",
        problem="contended",
    )


@dataclass(frozen=True)
class Planned:
    """What a run is to do with one derivation, and the writer that does it."""

    derivation: Derivation
    decision: Decision
    arrived: Mapping[str, Arrived]
    target: IcebergTarget
    sink: FrameSink
    live: LiveTable
    marked: MarkedInput | None = None
    backfill: Backfill | None = None

    @property
    def inputs(self) -> Mapping[str, InputState]:
        """The snapshots that the rows are made from. A backfill has not computed what else is new in the inputs, so
        that those of the run before stay.
        """
        if self.backfill is not None:
            return self.sink.inputs
        return {name: arrived.now for name, arrived in self.arrived.items()}

    @property
    def definition(self) -> str:
        """The fingerprint of the query that all rows are made by."""
        return self.derivation.definition if self.backfill is None else self.sink.definition


def plan_derivation(
    derivation: Derivation,
    world: World,
    *,
    full_refresh: bool = False,
    days: Days | None = None,
    retry: RetryPolicy | None = None,
) -> Planned:
    """What is to be done with a derivation. Changes nothing."""
    from frazil.sinks import IcebergTarget, SinkOptions, part_name
    from frazil.sinks.spark import FrameSink

    live = _target(derivation, world.catalog)
    key = derivation.rules.key if derivation.rules else ()
    ref = ref_in(live.metadata, world.env, table=derivation.target)
    target = IcebergTarget(world.catalog, derivation.identifier, ref, retry or RetryPolicy(), key, ref, table=live)
    bad_rows: BadRows = "stop" if derivation.max_bad_share is None else "quarantine"
    options = SinkOptions(checks=derivation.checks, bad_rows=bad_rows)
    sink = FrameSink(target, part_name(derivation.name, 0), options=options, takeover="first commit")
    world.fix(derivation.tables)
    arrived = {name: world.arrived(name, sink.inputs.get(name)) for name in derivation.tables}
    question = Question(
        derivation.name,
        derivation.mode,
        derivation.driving,
        is_alone=derivation.is_model,
        others=derivation.others,
        reads_changes=derivation.reads_changes,
        takes_changes=derivation.takes_changes,
        full_refresh=full_refresh,
        query_changed="" not in (sink.definition, derivation.definition) and sink.definition != derivation.definition,
    )
    marked = _marked(derivation, sink)
    if days is not None:
        backfill = plan_backfill(derivation, target.layout, days)
        return Planned(derivation, backfill.decision, arrived, target, sink, live, None, backfill)
    decision = decide(question, arrived) if marked is None or full_refresh else decide_marked(marked, arrived)
    return Planned(derivation, decision, arrived, target, sink, live, marked)


def _marked(derivation: Derivation, sink: FrameSink) -> MarkedInput | None:
    if (name := derivation.marked) is None:
        return None
    source = derivation.inputs[name]
    assert isinstance(source, SparkSource)
    return MarkedInput(derivation.name, name, source, derivation.mode, sink.marks.get(name))


def _target(derivation: Derivation, catalog: FrazilCatalog) -> LiveTable:
    from pyiceberg.exceptions import NoSuchTableError

    try:
        live: LiveTable = catalog.load_table(derivation.identifier)
    except NoSuchTableError as exc:
        raise PipelineError(
            f"'{derivation.name}': table {derivation.target} does not exist",
            hint="frazil apply",
            pipeline=derivation.name,
            table=derivation.target,
        ) from exc
    return live


@dataclass
class StagedTable:
    """A derivation whose rows are on a staging branch."""

    planned: Planned
    stages: Stages
    work: Work
    branch: str
    base_id: int | None
    snapshot_id: int
    result: RunResult
    marks: Mapping[str, Mark] = field(default_factory=dict)


@dataclass(frozen=True)
class GraphRun:
    """One run over derivations, in an order in which inputs come before what reads them."""

    derivations: Sequence[Derivation]
    spark: SparkSession
    catalog: FrazilCatalog
    folder: Path
    owner: str | None = None
    adopt: bool = False
    full_refresh: frozenset[str] = frozenset()  # names of derivations
    on_step: Callable[[str, Decision], None] = lambda _name, _decision: None
    env: str | None = None  # the environment: rows and progress go to its branches
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    days: Days | None = None  # a backfill of these
    sessions: SideBySide | None = None  # where several are computed at once

    def run(self) -> list[RunResult]:
        """Each derivation by itself: one that fails leaves those before it published."""
        return [result for derivation in self.derivations for result in self._attempt([derivation])]

    def run_together(self) -> list[RunResult]:
        """All derivations, published in one commit, or none of them."""
        return self._attempt(self.derivations)

    def _attempt(self, derivations: Sequence[Derivation]) -> list[RunResult]:
        for attempts_left in reversed(range(ATTEMPTS)):
            with suppress(Overtaken):  # everything is looked at again
                return _Together(self, derivations, is_last=not attempts_left).run()
        names = ", ".join(derivation.target for derivation in derivations)
        raise PipelineError(
            f"{names} changed {ATTEMPTS} times while a change was staged",
            hint="nothing was committed; run again when fewer others write to the tables",
            problem="contended",
        )


class _Together:
    """Derivations that are staged, those that need nothing of each other side by side, and published in one commit."""

    def __init__(self, run: GraphRun, derivations: Sequence[Derivation], *, is_last: bool) -> None:
        self.graph, self.world, self.is_last = run, World(run.catalog, run.env), is_last
        self.derivations = [each.in_environment(run.env) for each in derivations]
        self.sessions = run.sessions or SideBySide(run.spark)
        self.staged: list[StagedTable] = []
        self.results: dict[str, RunResult] = {}
        self.kept = ExitStack()

    def run(self) -> list[RunResult]:
        with self.kept:
            try:
                self._stage_all()
                if self.staged:
                    self._publish()
            except CommitUnknown as exc:  # it may still come
                self._tell_failed(exc)
                raise
            except Overtaken as exc:
                for staged in self.staged:
                    self._tell_overtaken(staged.result, exc)
                self._drop()
                raise
            except Exception as exc:  # a driver that is killed leaves its branches to the next run
                self._tell_failed(exc)
                self._drop()
                if isinstance(exc, WriterFenced) and not exc.made_anew:
                    raise _came_first(self.derivations) from exc
                raise
        return [self.results[derivation.name] for derivation in self.derivations]

    # --- staging -----------------------------------------------------------------------------------------------------

    def _stage_all(self) -> None:
        try:
            self.world.fix(list(dict.fromkeys(name for each in self.derivations for name in each.tables)))
        except PipelineError as exc:
            if exc.problem == "contended":
                raise
            # An input does not exist: the derivation that reads it tells.
        makers = {derivation.target: number for number, derivation in enumerate(self.derivations)}
        schedule = Schedule(
            [partial(self._stage_in_session, derivation) for derivation in self.derivations],
            [[makers[name] for name in derivation.tables if name in makers] for derivation in self.derivations],
            threads=min(self.sessions.threads, len(self.derivations)),
            keep_going=False,
            on_end=self._note,
        )
        errors = [outcome.error for outcome in schedule.run() if outcome.error is not None]
        if errors:  # another attempt helps only where all are of this kind
            raise min(errors, key=lambda error: isinstance(error, Overtaken))

    def _stage_in_session(self, derivation: Derivation) -> StagedTable | RunResult:
        return self.sessions.run(derivation.name, lambda spark: self._stage(derivation, spark))

    def _note(self, _: int, outcome: Outcome[StagedTable | RunResult]) -> None:
        if isinstance(outcome.value, StagedTable):
            self.staged.append(outcome.value)
        elif outcome.value is not None:
            self.results[outcome.value.pipeline] = outcome.value

    def _stage(self, derivation: Derivation, spark: SparkSession) -> StagedTable | RunResult:
        result = RunResult(derivation.name, derivation.target, run_id=str(uuid.uuid4()))
        begun = time.monotonic()
        try:
            planned = self._plan(derivation)
            self.graph.on_step(derivation.name, planned.decision)
            if not planned.decision.does_something:
                return replace(result, run_id="")
            marked = self._read_marked(planned, spark)
            if marked is not None and not marked.is_new and planned.decision.action is not Action.OVERWRITE:
                return replace(result, run_id="")
            tell_started(_start_of(planned, result))
            staged = self._compute(planned, result, spark, marked)
            self.world.stage(derivation.target, staged.stages.table_at(staged.branch), staged.snapshot_id)
        except Overtaken as exc:  # by another run: this one begins again
            self._tell_overtaken(result, exc)
            raise
        except Exception as exc:
            error = tell_error(exc, self.graph.catalog.properties)
            failed = replace(result, seconds=time.monotonic() - begun, error=error)
            ref = self.graph.env or MAIN
            note_run(failed, derivation.target, self.graph.catalog, owner=self.graph.owner, ref=ref)
            report_run(failed)
            tell_ended(failed)
            raise
        staged.result = replace(staged.result, seconds=round(time.monotonic() - begun, 3))
        return staged

    def _plan(self, derivation: Derivation) -> Planned:
        """What is to be done; if something is, the table has a branch of the environment."""
        graph = self.graph
        for _ in range(2):
            is_refreshed = derivation.name in graph.full_refresh
            planned = plan_derivation(
                derivation, self.world, full_refresh=is_refreshed, days=graph.days, retry=graph.retry
            )
            if graph.env in (None, planned.target.ref) or not planned.decision.does_something:
                break
            branch_table(graph.catalog, derivation.identifier, graph.env, retry=graph.retry)
        return planned

    def _read_marked(self, planned: Planned, spark: SparkSession) -> MarkedReader | None:
        if planned.marked is None:
            return None
        everything = planned.decision.action in (Action.ALL, Action.OVERWRITE)
        try:
            return read_marked(planned.marked, spark, self.kept, everything=everything)
        except spark_errors() as exc:
            what = spark_error(str(exc))
            raise planned.marked.error(what, problem="unreadable", hint="check the options of the source") from exc

    def _compute(
        self, planned: Planned, result: RunResult, spark: SparkSession, marked: MarkedReader | None
    ) -> StagedTable:
        derivation, graph = planned.derivation, self.graph
        owner = check_pipeline(
            derivation.identifier, graph.catalog, graph.folder, project=graph.owner, adopt=graph.adopt
        )
        owner.claim()
        sink, target = planned.sink, planned.target
        stages = Stages(graph.catalog, target, sink.part, sink.generation)
        if stages.left(planned.live.metadata, derivation.branch):
            stages.clean(derivation.branch)
        readers = {
            name: InputReader(spark, graph.catalog.name, self.world.tables[name], arrived)
            for name, arrived in planned.arrived.items()
        }
        action = planned.decision.action
        work = Computing(
            derivation, action, spark, readers, target, planned.live, sink, stages, self.kept, marked, planned.backfill
        ).compute()
        branch, base_id = stages.begin()
        try:
            snapshot_id = work.write(branch)
            target.retry.on_step("staged")
            if derivation.audit:
                judge: Judge = Audit(derivation, spark, graph.catalog, work.staged.counts.rows)
                check_staged(judge, snapshot_id, base_id, stages, branch)
        except Exception:
            stages.drop(branch)
            raise
        counts = work.staged.counts
        known: dict[str, Any] = {"rows": counts.rows, "duplicates": counts.duplicates, "quarantined": counts.refused}
        merged: Mapping[str, Any] = getattr(work.write, "counts", None) or {}  # of a merge
        result = replace(result, **{**known, **merged}, inputs=_snapshots(planned))
        marks = {planned.marked.name: marked.mark} if planned.marked and marked and marked.mark else {}
        return StagedTable(planned, stages, work, branch, base_id, snapshot_id, result, marks)

    # --- publishing --------------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        publications = [self._publication(staged) for staged in self.staged]
        for staged, published in zip(self.staged, publish_together(publications), strict=True):
            self._finish(staged, published)

    def _publication(self, staged: StagedTable) -> Publication:
        planned = staged.planned
        move = Move(planned.target.identifier, staged.snapshot_id, staged.base_id, staged.branch, planned.target.ref)
        staged.result = replace(staged.result, snapshot_id=staged.snapshot_id)
        return planned.sink.prepare(
            staged.work.staged,
            change=move,
            also=self._run_row(staged),
            inputs=planned.inputs,
            definition=planned.definition,
            marks=staged.marks if planned.backfill is None else planned.sink.marks,
        )

    def _run_row(self, staged: StagedTable) -> dict[Identifier, Append]:
        runs = open_companion(runs_of(staged.planned.derivation.target), self.graph.catalog, owner=self.graph.owner)
        append = append_rows(runs, run_rows(staged.result, runs.schema().as_arrow()), staged.planned.target.ref)
        return {append.identifier: append}

    def _finish(self, staged: StagedTable, published: Published) -> None:
        result = replace(staged.result, snapshot_id=published.snapshot_id or staged.snapshot_id)
        self.results[result.pipeline] = result
        report_run(result)
        tell_ended(result)
        with suppress(Exception):  # the rows are in; the next run removes what is left
            staged.stages.clean_rivals()

    def _tell_failed(self, exc: Exception) -> None:
        """Of what was staged, nothing is published."""
        error = tell_error(exc, self.graph.catalog.properties)
        for staged in self.staged:
            tell_ended(replace(staged.result, snapshot_id=None, error=error))

    def _tell_overtaken(self, result: RunResult, exc: Overtaken) -> None:
        """The run is given up for another attempt; after the last one it has failed."""
        error = tell_error(exc, self.graph.catalog.properties)
        if self.is_last:
            tell_ended(replace(result, snapshot_id=None, error=error))
        else:
            tell_aborted(result.run_id, error)

    def _drop(self) -> None:
        """Removes the staging branches; what stays is removed by the next run."""
        for staged in self.staged:
            staged.stages.drop(staged.branch)
            with suppress(Exception):
                staged.planned.sink.discard_quarantine(staged.work.staged)


def _start_of(planned: Planned, result: RunResult) -> RunStart:
    return RunStart(result.run_id, result.pipeline, result.table, _snapshots(planned))


def _snapshots(planned: Planned) -> dict[str, int | None]:
    return {name: state.snapshot_id for name, state in planned.inputs.items()}


def _came_first(derivations: Sequence[Derivation]) -> PipelineError:
    names = ", ".join(derivation.name for derivation in derivations)
    return PipelineError(
        f"{names}: another run committed first; nothing of this run was committed",
        hint="run again to bring in what is still out of date, and let one run at a time",
        pipeline=derivations[0].name,
        problem="overtaken",
    )
