"""A batch run: the files that are new -> the user's function -> the table, in one commit with quarantine, ledger and
the run itself.

A run reads the pipeline's progress, then the ledger: which files are new. What the executors write is not visible until
the one `/transactions/commit` at the end. That commit is the takeover, too: it requires that the progress still is what
the run planned from, and gives the pipeline a new writer. So of two runs at once the first to commit wins, and the
other one commits nothing and says so. A run that fails or is killed at any moment before leaves no snapshot, and the
next one takes up exactly the files that are missing.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frazil.errors import CommitUnknown, PipelineError, SourceChanged, TooManyBadRows, WriterFenced
from frazil.history import branch_table, ref_in
from frazil.ownership import check_pipeline
from frazil.pipelines import (
    Pipeline,
    RunResult,
    RunStart,
    append_rows,
    ledger_of,
    ledger_rows,
    note_run,
    open_companion,
    reported,
    run_rows,
    runs_of,
    tell_ended,
    tell_error,
    tell_started,
)
from frazil.pipelines.batch.arrivals import (
    Arrivals,
    Tag,
    compare_with_ledger,
    find_copies,
    local_digest,
    with_content,
)
from frazil.pipelines.files import find_changed
from frazil.pipelines.sources import SourceFile
from frazil.sinks.spark import as_staged
from frazil.write.commit import MAIN, head

if TYPE_CHECKING:
    from pyiceberg.table import Table as LiveTable
    from pyiceberg.typedef import Identifier
    from pyspark.sql import SparkSession

    from frazil.client import FrazilCatalog
    from frazil.pipelines import LoadPublisher
    from frazil.pipelines.batch.staging import StagedLoad, Staging
    from frazil.sinks import IcebergTarget
    from frazil.sinks.spark import FrameSink, TaskReport
    from frazil.write.commit import Append, Replace

TOP_REASONS = 5


@reported
def run_pipeline(
    pipeline: Pipeline,
    *,
    spark: SparkSession,
    catalog: FrazilCatalog,
    folder: Path,
    owner: str | None = None,
    adopt: bool = False,
    plan: RunPlan | None = None,
    env: str | None = None,
) -> RunResult:
    """Loads what is new since the last run. Safe to call again after any failure.

    The tables belong to project `owner`; without it, to the project that the settings in `folder` name. If they belong
    to another one, nothing is written and `OtherProject` is raised, unless the project is to `adopt` them. `plan` is
    what `plan_run` has found with the same catalog, if the caller has looked; else the run plans by itself. In an
    environment, rows, ledger and quarantine are those of its branches.
    """
    is_given, plan, ref = plan is not None, plan or plan_run(pipeline, catalog, folder, env=env), env or MAIN
    if not plan.arrived.files:
        return _unchanged(pipeline, plan.arrived)
    # The owner may have changed since a plan was given.
    identifier, loaded = pipeline.target.identifier, None if is_given else plan.tables
    tables = check_pipeline(identifier, catalog, folder, project=owner, adopt=adopt, tables=loaded)
    refuse_changes(pipeline, plan.arrived, catalog, ref=ref)
    tables.claim()
    if env is not None:
        pipeline = replace(pipeline, branch=f"{pipeline.branch}-{env}")
        plan = _plan_on_branch(pipeline, plan, catalog, folder, env)
    begun = time.monotonic()
    run = _Run(pipeline, plan, spark=spark, catalog=catalog, folder=folder, owner=tables.project)
    paths = tuple(file.path for file in plan.arrived.files)
    tell_started(RunStart(run.result.run_id, pipeline.name, pipeline.target.name, files=paths))
    try:
        result = run.load()
        tell_ended(result)
        return result
    except BaseException as exc:
        tell_ended(replace(run.result, snapshot_id=None, error=tell_error(exc, catalog.properties)))
        if not isinstance(exc, CommitUnknown):  # it may be in, with the row of this run
            seconds = time.monotonic() - begun
            failed = replace(run.result, snapshot_id=None, seconds=seconds, error=tell_error(exc, catalog.properties))
            note_run(failed, pipeline.target, catalog, owner=tables.project, ref=ref)
        if isinstance(exc, WriterFenced) and not exc.made_anew:
            raise _came_first(pipeline) from exc
        raise


def _plan_on_branch(pipeline: Pipeline, plan: RunPlan, catalog: FrazilCatalog, folder: Path, env: str) -> RunPlan:
    """The plan for a table that has a branch of the environment: now it has."""
    if plan.target.ref == env:
        return plan
    branch_table(catalog, pipeline.target.identifier, env)
    return plan_run(pipeline, catalog, folder, env=env)


def _came_first(pipeline: Pipeline) -> PipelineError:
    return PipelineError(
        f"pipeline '{pipeline.name}': another run committed first, after this run listed the files; "
        "nothing of this run was committed",
        hint="the ledger says which files are in; run again to load those that are not, and let one run at a time",
        pipeline=pipeline.name,
        problem="overtaken",
    )


@dataclass(frozen=True)
class RunPlan:
    """The files that a run is to load, by one listing and one reading of the ledger, and the writer that loads them.

    `tables` are the target and, once a run has committed, its ledger, as they were then.
    """

    arrived: Arrivals
    target: IcebergTarget
    sink: FrameSink
    tables: tuple[LiveTable, ...]

    @property
    def ledger_at(self) -> int | None:
        """The ledger's snapshot when the files were looked up."""
        return _snapshot_id(self.tables[1], self.target.ref) if len(self.tables) > 1 else None


def plan_run(
    pipeline: Pipeline,
    catalog: FrazilCatalog,
    folder: Path,
    listed: Sequence[SourceFile] | None = None,
    *,
    env: str | None = None,
) -> RunPlan:
    """The landing files that are new, or changed since they were loaded; `listed` is the listing, if there is one.
    In an environment, the table's branch counts where there is one. Changes nothing.
    """
    from frazil.sinks import IcebergTarget, SinkOptions, part_name
    from frazil.sinks.spark import FrameSink

    if listed is None:
        listed = pipeline.files.list_files(folder, catalog.properties)
    live = load_target(pipeline, catalog)
    ref = ref_in(live.metadata, env, table=pipeline.target.name)
    target = IcebergTarget(
        catalog, pipeline.target.identifier, ref, key=pipeline.upserted_by, quarantine_ref=ref, table=live
    )
    options, part = SinkOptions(checks=pipeline.checks), part_name(pipeline.name, 0)
    # Progress first, then the ledger: a commit in between moves the progress on, and the run's own commit is refused.
    sink = FrameSink(target, part, options=options, takeover="first commit")
    ledger = _load_ledger(pipeline, catalog)
    arrived = compare_with_ledger(listed, ledger, pipeline.name, digest=local_digest(folder), ref=ref)
    return RunPlan(arrived, target, sink, (live,) if ledger is None else (live, ledger))


def refuse_changes(pipeline: Pipeline, arrived: Arrivals, catalog: FrazilCatalog, *, ref: str = MAIN) -> None:
    """Raises `SourceChanged` if loaded files have other content now and the pipeline does not say what that means.

    It counts as a failed run, of the ref that was to be written.
    """
    if refused := _refusal(pipeline, arrived):
        result = RunResult(pipeline.name, pipeline.target.name, run_id=str(uuid.uuid4()), error=refused.message)
        note_run(result, pipeline.target, catalog, ref=ref)
        raise refused


def _refusal(pipeline: Pipeline, arrived: Arrivals) -> SourceChanged | None:
    if not arrived.changed or pipeline.on_change != "error":
        return None
    paths = [file.path for file in arrived.changed]
    return SourceChanged(pipeline.name, paths, mode=pipeline.mode, unverified=arrived.unverified)


def _load_ledger(pipeline: Pipeline, catalog: FrazilCatalog) -> LiveTable | None:
    from pyiceberg.exceptions import NoSuchTableError

    try:
        ledger: LiveTable = catalog.load_table(ledger_of(pipeline.target).identifier)
    except NoSuchTableError:
        return None  # no run has committed yet
    return ledger


def _unchanged(pipeline: Pipeline, arrived: Arrivals) -> RunResult:
    return RunResult(pipeline.name, pipeline.target.name, touched=tuple(file.path for file in arrived.touched))


class _Run:
    """One run under way; `result` is what is known of it so far."""

    def __init__(
        self,
        pipeline: Pipeline,
        plan: RunPlan,
        *,
        spark: SparkSession,
        catalog: FrazilCatalog,
        folder: Path,
        owner: str,
    ) -> None:
        self.pipeline, self.plan = pipeline, plan
        self.spark, self.catalog, self.folder, self.owner = spark, catalog, folder, owner
        self.begun = time.monotonic()
        self.result = RunResult(pipeline.name, pipeline.target.name, run_id=str(uuid.uuid4()))

    def load(self) -> RunResult:
        """Stages the rows of the planned files, and commits them."""
        from frazil.pipelines import LoadPublisher, Stages

        files, target, sink = self._identify(), self.plan.target, self.plan.sink
        publisher = LoadPublisher(self.pipeline, self.spark, Stages(self.catalog, target, sink.part, sink.generation))
        publisher.clean(self.plan.tables[0].metadata)
        with ExitStack() as kept:
            staging = self._staging(files, kept)
            report = self._stage(staging, files).report
            companions, kind = partial(self._companion_rows, files, publisher), self._kind(report)
            publisher.publish(
                sink, as_staged(report), rows=report.counts.rows, changes=staging.changes, kind=kind, also=companions
            )
        publisher.clean_rivals()
        return self.result

    def _identify(self) -> list[SourceFile]:
        """The files to load, with their content in their tags."""
        arrived = self.plan.arrived
        files = with_content(arrived.files, local_digest(self.folder))
        copies = find_copies(files, arrived)
        changed, touched = (tuple(file.path for file in kind) for kind in (arrived.changed, arrived.touched))
        size, unverified = sum(file.size for file in files), arrived.unverified
        self.result = replace(
            self.result,
            files=len(files),
            bytes=size,
            changed=changed,
            unverified=unverified,
            touched=touched,
            copies=copies,
        )
        return files

    def _staging(self, files: Sequence[SourceFile], kept: ExitStack) -> Staging:
        from frazil.pipelines.batch.staging import Staging
        from frazil.pipelines.batch.upsert_load import ChangeStaging

        target, part = self.plan.target, self.plan.sink.part
        what = (self.pipeline, files, self.folder, self.spark, target, part, self.catalog.properties)
        return ChangeStaging(*what, kept=kept) if self.pipeline.mode == "upsert" else Staging(*what)

    def _stage(self, staging: Staging, files: Sequence[SourceFile]) -> StagedLoad:
        """What the tasks have written; refused, and deleted again, if too much of it is bad."""
        staged = staging.run()
        self._count(staged)
        try:
            self._check_bad_share(staged.report)
            self._check_unchanged(files)
        except BaseException:
            self.plan.sink.discard(as_staged(staged.report))
            raise
        return staged

    def _count(self, staged: StagedLoad) -> None:
        report = staged.report
        self.result = replace(
            self.result,
            rows_in=staged.rows_in,
            rows=report.counts.rows,
            duplicates=report.counts.duplicates,
            quarantined=report.counts.refused,
        )

    def _check_bad_share(self, report: TaskReport) -> None:
        counts = report.counts
        rows = counts.rows + counts.duplicates + counts.refused
        if counts.refused > self.pipeline.max_bad_share * rows:
            reasons = dict(sorted(report.reasons.items(), key=lambda pair: -pair[1])[:TOP_REASONS])
            limit = self.pipeline.max_bad_share
            raise TooManyBadRows(self.pipeline.name, bad=counts.refused, rows=rows, limit=limit, reasons=reasons)

    def _check_unchanged(self, files: Sequence[SourceFile]) -> None:
        """A file that grew while it was read would be loaded again as a new one: rows twice."""
        before = [replace(file, tag=Tag.parse(file.tag).stamp) for file in files]
        if changed := find_changed(before, self.folder, self.catalog.properties):
            raise PipelineError(
                f"pipeline '{self.pipeline.name}': {changed[0]} changed while it was read",
                hint="nothing was committed; let files appear whole: write them under a hidden name (_part.csv), then "
                "rename them",
                pipeline=self.pipeline.name,
                path=changed[0],
            )

    def _check_ledger(self, files: Sequence[SourceFile], ledger: LiveTable) -> None:
        """Refuses files that are in the ledger by now. The progress tells what runs have loaded; this sees rows that
        came otherwise.
        """
        ref = self.plan.target.ref
        if _snapshot_id(ledger, ref) == self.plan.ledger_at:
            return
        stamped = [replace(file, tag=Tag.parse(file.tag).stamp) for file in files]
        now = compare_with_ledger(stamped, ledger, self.pipeline.name, digest=local_digest(self.folder), ref=ref)
        if _numbers(now.files) != _numbers(files):
            raise _came_first(self.pipeline)

    def _companion_rows(
        self, files: Sequence[SourceFile], publisher: LoadPublisher, snapshot_id: int
    ) -> dict[str | Identifier, Append]:
        """The appends to ledger and runs for a commit whose rows are in the snapshot. Touched files are noted: no later
        run hashes them.
        """
        target, ref = self.pipeline.target, self.plan.target.ref
        seconds = round(time.monotonic() - self.begun, 3)
        counts: Mapping[str, Any] = (publisher.merge.counts if publisher.merge else None) or {}
        self.result = replace(self.result, snapshot_id=snapshot_id, seconds=seconds, **counts)
        ledger = open_companion(ledger_of(target), self.catalog, owner=self.owner)
        self._check_ledger(files, ledger)
        runs = open_companion(runs_of(target), self.catalog, owner=self.owner)
        noted, run_id = [*files, *self.plan.arrived.touched], self.result.run_id
        loaded = ledger_rows(noted, pipeline=self.pipeline.name, run_id=run_id, ledger=ledger)
        row = run_rows(self.result, runs.schema().as_arrow())
        appends = [append_rows(ledger, loaded, ref), append_rows(runs, row, ref)]
        return {append.identifier: append for append in appends}

    def _kind(self, report: TaskReport) -> type[Append | Replace]:
        from frazil.write.commit import Append, Replace

        return Replace if self.pipeline.mode == "replace-partition" and report.files else Append


def _numbers(files: Sequence[SourceFile]) -> set[tuple[str, int]]:
    """Which content of its path each file is to be: the first, or one that replaces it."""
    return {(file.path, Tag.parse(file.tag).number) for file in files}


def _snapshot_id(table: LiveTable, ref: str) -> int | None:
    snapshot = head(table.metadata, ref)
    return snapshot.snapshot_id if snapshot is not None else None


def load_target(pipeline: Pipeline, catalog: FrazilCatalog) -> LiveTable:
    """The table that the pipeline fills, as it is now."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        live: LiveTable = catalog.load_table(pipeline.target.identifier)
    except NoSuchTableError as exc:
        raise PipelineError(
            f"pipeline '{pipeline.name}': table {pipeline.target.name} does not exist",
            hint="frazil apply",
            pipeline=pipeline.name,
            table=pipeline.target.name,
        ) from exc
    return live
