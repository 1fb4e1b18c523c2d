"""The steps of upkeep on one table: each says first what it would do and what that saves, then does it.

keeper = Keeper(catalog, ("lakehouse", "sales"))
for step in STEPS:
    plan = keeper.plan(step)
    print(plan.lines)
    keeper.perform(plan)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.typedef import Identifier
from pyiceberg.types import GeographyType, GeometryType, TimestampNanoType, TimestamptzNanoType, UnknownType

from frazil import metrics
from frazil.errors import FrazilError, ReferencesUnknown, UpkeepError
from frazil.protocol import COMPANION_SUFFIXES
from frazil.units import count, ms, size
from frazil.upkeep import compact, deletes, expire, indexes, manifests, orphans
from frazil.upkeep.compact import Compaction, CompactionPlan, Engine, LocalEngine
from frazil.upkeep.deletes import DeletePlan, DeleteRewrite
from frazil.upkeep.expire import Expiry, ExpiryPlan
from frazil.upkeep.indexes import IndexPlan, plan_indexes
from frazil.upkeep.manifests import ManifestPlan, ManifestRewrite
from frazil.upkeep.orphans import Locations, OrphanPlan, plan_orphans, remove_orphans
from frazil.upkeep.policy import Policy
from frazil.upkeep.removing import Removed
from frazil.upkeep.retention import choose_expired
from frazil.vector import Coverage, Declared, Indexes
from frazil.write.commit import RetryPolicy

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from frazil.client import FrazilCatalog

log = logging.getLogger("frazil.upkeep")
REMOVING = (expire.STEP, orphans.STEP)  # steps that cannot be undone
NOT_WRITTEN = (TimestampNanoType, TimestamptzNanoType, GeometryType, GeographyType, UnknownType)
MUCH_BYTES = 20 << 30  # from here on a cluster is worth it
Detail = CompactionPlan | DeletePlan | ManifestPlan | IndexPlan | ExpiryPlan | OrphanPlan


@dataclass(frozen=True)
class StepPlan:
    """What a step would do to a table; `files` and `snapshots` are what there would be less of, `bytes` what would be
    free on disk.

    Steps before expiry free nothing: older snapshots keep their files. Without a detail there is nothing to do.
    """

    table: str
    step: str
    lines: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0
    snapshots: int = 0
    detail: Detail | None = field(default=None, repr=False)

    @property
    def removes(self) -> bool:
        return self.detail is not None and self.step in REMOVING


@dataclass(frozen=True)
class StepReport:
    """What a step has done, in the same words; `rewritten_files` and `rewritten_bytes` are what was read for it."""

    table: str
    step: str
    lines: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0
    snapshots: int = 0
    problems: tuple[str, ...] = ()
    rewritten_files: int = 0
    rewritten_bytes: int = 0
    overtaken: int = 0  # pieces of work that were left to the next run: writers committed first


def now_ms() -> int:
    return int(time.time() * 1000)


def ignore_progress(done: int, total: int) -> None:
    """Takes no notice."""


@dataclass
class Keeper:
    """Maintains one table. The table is loaded again for each step: one prepares the next."""

    catalog: FrazilCatalog
    identifier: Identifier
    engine: Engine = field(default_factory=LocalEngine)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    clock_ms: Callable[[], int] = now_ms
    everything: bool = False  # compaction takes files, too, that have the right size
    locations: Locations | None = None
    on_progress: Callable[[int, int], None] = ignore_progress

    @property
    def name(self) -> str:
        return ".".join(self.identifier)

    def plan(self, step: str) -> StepPlan:
        """What the step would do to the table as it is now."""
        table = self._load()
        policy = Policy.of(table.metadata.properties, table=self.name)
        if step in (compact.STEP, deletes.STEP, manifests.STEP) and (reason := _not_rewritten(table.metadata)):
            return StepPlan(self.name, step, (reason,))
        plans: dict[str, Callable[[Table, Policy], StepPlan]] = {
            compact.STEP: self._plan_compact,
            deletes.STEP: self._plan_deletes,
            manifests.STEP: self._plan_manifests,
            indexes.STEP: self._plan_indexes,
            expire.STEP: self._plan_expire,
            orphans.STEP: self._plan_orphans,
        }
        return plans[step](table, policy)

    def perform(self, plan: StepPlan) -> StepReport:
        """Does what was planned, as far as writers have left it possible; and says in the log what came of it."""
        table, start, outcome = self._load(), time.monotonic(), "failed"
        try:
            file = self._perform(table, Policy.of(table.metadata.properties, table=self.name), plan)
            outcome = "problems" if file.problems else "done"
        finally:
            seconds = time.monotonic() - start
            metrics.current().count("frazil_upkeep_steps_total", table=self.name, step=plan.step, outcome=outcome)
            metrics.current().observe("frazil_upkeep_seconds", seconds, step=plan.step)
        facts = {"table": file.table, "step": file.step, "files": file.files, "bytes": file.bytes}
        text = "; ".join((*file.lines, *file.problems))
        log.info("%s: %s: %s", file.table, file.step, text, extra={"fields": {**facts, "seconds": round(seconds, 3)}})
        return file

    def _perform(self, table: Table, policy: Policy, plan: StepPlan) -> StepReport:
        match plan.detail:
            case CompactionPlan() as detail:
                return self._perform_compact(table, policy, detail)
            case DeletePlan() as detail:
                return self._perform_deletes(table, detail)
            case ManifestPlan() as detail:
                return self._perform_manifests(policy, detail)
            case IndexPlan() as detail:
                return self._perform_indexes(detail)
            case ExpiryPlan() as detail:
                return self._perform_expire(table, policy, detail)
            case OrphanPlan() as detail:
                return self._perform_orphans(table, detail)
        return StepReport(plan.table, plan.step, ("nothing to do",))

    # --- compaction --------------------------------------------------------------------------------------------------

    def _plan_compact(self, table: Table, policy: Policy) -> StepPlan:
        compaction = compact.plan_compaction(table, policy, everything=self.everything)
        left = [
            f"leave {count(number, 'file')} as found: each {why}" for why, number in sorted(compaction.left.items())
        ]
        if not compaction.groups:
            return StepPlan(self.name, compact.STEP, tuple(left))
        order = ", sorted" if table.sort_order().fields else ""
        said = (
            f"rewrite {count(compaction.files_before, 'data file')} ({size(compaction.bytes)}) into about "
            f"{compaction.files_after:,}{order}"
        )
        said += f", in {count(len(compaction.groups), 'group')}"
        much = (
            [f"{size(compaction.bytes)} is much for one process: --engine spark shares the work"]
            if self._is_much(compaction)
            else []
        )
        return StepPlan(
            self.name,
            compact.STEP,
            (said, *left, *much),
            files=max(compaction.files_before - compaction.files_after, 0),
            detail=compaction,
        )

    def _is_much(self, plan: CompactionPlan) -> bool:
        return plan.bytes > MUCH_BYTES and isinstance(self.engine, LocalEngine)

    def _perform_compact(self, table: Table, policy: Policy, plan: CompactionPlan) -> StepReport:
        done = 0

        def on_group(_: Any) -> None:
            nonlocal done
            done += 1
            self.on_progress(min(done, len(plan.groups)), len(plan.groups))

        work = Compaction(self.catalog, self.identifier, self.engine, self.retry, on_group)
        outcome = work.run(
            table, plan, replan=lambda now: compact.plan_compaction(now, policy, everything=self.everything)
        )
        before = f"{count(outcome.files_before, 'data file')} ({size(outcome.bytes_before)})"
        lines = [f"rewrote {before} into {outcome.files_after:,} ({size(outcome.bytes_after)})"]
        if outcome.overtaken:
            lines.append(f"left {count(outcome.overtaken, 'group')} to the next run: writers keep changing the files")
        return StepReport(
            self.name,
            compact.STEP,
            tuple(lines),
            files=outcome.files_before - outcome.files_after,
            problems=outcome.problems,
            rewritten_files=outcome.files_before,
            rewritten_bytes=outcome.bytes_before,
            overtaken=outcome.overtaken,
        )

    # --- delete files and manifests ----------------------------------------------------------------------------------

    def _plan_deletes(self, table: Table, policy: Policy) -> StepPlan:
        work = deletes.plan_deletes(table, policy)
        lines = (
            [f"drop {count(len(work.dangling), 'delete file')} that no data file needs any more"]
            if work.dangling
            else []
        )
        merged = sum(len(some) for some in work.merges)
        lines += [f"merge {count(merged, 'small delete file')} into {len(work.merges):,}"] if merged else []
        if not lines:
            return StepPlan(self.name, deletes.STEP)
        return StepPlan(self.name, deletes.STEP, tuple(lines), files=work.before - work.after, detail=work)

    def _perform_deletes(self, table: Table, plan: DeletePlan) -> StepReport:
        done = DeleteRewrite(self.catalog, self.identifier, self.retry).run(table, plan)
        lines = [f"dropped {count(done.dangling, 'delete file')}"] if done.dangling else []
        lines += [f"merged {count(done.merged, 'delete file')} into {done.written:,}"] if done.merged else []
        if done.overtaken:
            lines += [f"left {count(done.overtaken, 'delete file')}: another rewrite committed first"]
        saved = done.dangling + done.merged - done.written
        return StepReport(self.name, deletes.STEP, tuple(lines), files=saved, overtaken=done.overtaken)

    def _plan_manifests(self, table: Table, policy: Policy) -> StepPlan:
        file = manifests.plan_manifests(table, policy)
        if not file.merges:
            return StepPlan(self.name, manifests.STEP)
        said = f"merge {count(file.before, 'manifest')} ({size(file.bytes)}) into {file.after:,}, by partition"
        return StepPlan(self.name, manifests.STEP, (said,), files=file.before - file.after, detail=file)

    def _perform_manifests(self, policy: Policy, plan: ManifestPlan) -> StepReport:
        done = ManifestRewrite(self.catalog, self.identifier, self.retry).run(plan, policy=policy)
        lines = [f"merged {count(done.before, 'manifest')} into {done.after:,}"]
        if done.overtaken:
            lines += [f"left {count(done.overtaken, 'manifest')} to the next run: writers committed first"]
        saved = done.before - done.after
        return StepReport(self.name, manifests.STEP, tuple(lines), files=saved, overtaken=done.overtaken)

    # --- vector indexes ----------------------------------------------------------------------------------------------

    def _plan_indexes(self, table: Table, policy: Policy) -> StepPlan:
        plan = plan_indexes(self.catalog, self.name)
        lines = [
            f"refresh index {index.record.name}: {count(index.uncovered, 'data file')} not covered yet"
            for index in plan.indexes
            if index.uncovered
        ]
        lines += [
            f"repair index {index.record.name}: {problem}" for index in plan.indexes for problem in index.problems
        ]
        for index in plan.indexes:
            if rows := index.expired_rows(plan.expired):
                lines.append(
                    f"leave {count(rows, 'row')} out of index {index.record.name}: no snapshot has their files"
                )
        lines += [f"build index {index.name} of column {index.column}, {index.metric}" for index in plan.missing]
        lines += [f"write the copy of index {record.name} in the table's statistics" for record in plan.uncopied]
        lines += [f"restore the catalog's record of index {record.name} from its copy" for record in plan.lost]
        work = plan if plan.indexes or plan.missing or plan.uncopied or plan.lost else None
        return StepPlan(self.name, indexes.STEP, (*lines, *plan.other), detail=work)

    def _perform_indexes(self, plan: IndexPlan) -> StepReport:
        lines, problems, own = [], list(plan.other), Indexes(self.catalog, self.name)
        work: tuple[Coverage | Declared, ...] = (*plan.indexes, *plan.missing)
        for record in plan.uncopied:
            own.copy(record)
            lines.append(f"wrote the copy of index {record.name} in the table's statistics")
        for record in plan.lost:
            own.restore(record)
            lines.append(f"restored the catalog's record of index {record.name} from its copy")
        if work:
            own = Indexes(self.catalog, self.name, self.engine.index_builder())
        for number, index in enumerate(work):
            self.on_progress(number, len(work))
            name = index.record.name if isinstance(index, Coverage) else index.name
            try:
                if isinstance(index, Coverage):
                    record, did = own.refresh(name, expired=plan.expired), "refreshed"
                else:
                    record, did = own.create(index.column, metric=index.metric, name=name, lists=index.lists), "built"
                lines.append(f"{did} index {name}: {count(record.vectors, 'vector')}")
            except FrazilError as exc:  # a search compares what is not covered: the other steps go on
                problems.append(f"index {name}: {exc.message}")
        return StepReport(self.name, indexes.STEP, tuple(lines), problems=tuple(problems))

    # --- expiry and orphans ------------------------------------------------------------------------------------------

    def _plan_expire(self, table: Table, policy: Policy) -> StepPlan:
        since = self._kept_since(table)
        expiry = expire.plan_expiry(table, policy, now_ms=self.clock_ms(), keep_since_ms=since)
        gone, doomed = expiry.expired, expiry.doomed
        if not gone.snapshot_ids and not gone.refs:
            return StepPlan(self.name, expire.STEP)
        lines = [
            f"expire {count(len(gone.snapshot_ids), 'snapshot')} older than {ms(policy.max_snapshot_age_ms)}, keep "
            f"{gone.kept:,}"
        ]
        lines += [f"drop branches and tags past their own age: {', '.join(gone.refs)}"] if gone.refs else []
        if policy.may_delete:
            lines.append(
                f"remove {count(len(doomed.data), 'data or delete file')} and "
                f"{count(len(doomed) - len(doomed.data), 'metadata file')} "
                f"that nothing else leads to ({size(doomed.bytes)})"
            )
            lines += _say_left(expiry)
        else:
            lines.append("remove no file: the table's property gc.enabled is false")
        return StepPlan(
            self.name,
            expire.STEP,
            tuple(lines),
            files=len(doomed),
            bytes=doomed.bytes,
            snapshots=len(gone.snapshot_ids),
            detail=expiry,
        )

    def _perform_expire(self, table: Table, policy: Policy, plan: ExpiryPlan) -> StepReport:
        work = Expiry(
            self.catalog, self.identifier, policy, self.clock_ms, self.retry, self._kept_since(table), plan.uuid
        )
        done = work.run()
        lines = [f"expired {count(done.snapshots, 'snapshot')}, {_say(done.removed)}"]
        lines += [f"dropped {', '.join(done.refs)}"] if done.refs else []
        return StepReport(
            self.name,
            expire.STEP,
            tuple(lines),
            files=done.removed.files,
            bytes=plan.doomed.bytes,
            snapshots=done.snapshots,
            problems=done.removed.failed,
        )

    def _plan_orphans(self, table: Table, policy: Policy) -> StepPlan:
        if not policy.may_delete:
            return StepPlan(self.name, orphans.STEP, ("remove no file: the table's property gc.enabled is false",))
        self.locations = self.locations or Locations(self.catalog)
        try:
            file = plan_orphans(
                self._load,
                now_ms=self.clock_ms(),
                older_than_ms=policy.orphan_age_ms,
                locations=self.locations,
                on_step=self.retry.on_step,
            )
        except (UpkeepError, ReferencesUnknown) as exc:
            return StepPlan(self.name, orphans.STEP, (exc.message,))
        left = _say_needed(file.needed)
        if not file.orphans:
            return StepPlan(self.name, orphans.STEP, left)
        said = (
            f"remove {count(len(file.orphans), 'file')} older than {ms(policy.orphan_age_ms)} that nothing leads "
            f"to ({size(file.bytes)})"
        )
        return StepPlan(self.name, orphans.STEP, (said, *left), files=len(file.orphans), bytes=file.bytes, detail=file)

    def _perform_orphans(self, table: Table, plan: OrphanPlan) -> StepReport:
        done = remove_orphans(table, plan, on_step=self.retry.on_step)
        return StepReport(
            self.name, orphans.STEP, (_say(done),), files=done.files, bytes=plan.bytes, problems=done.failed
        )

    # --- the table ---------------------------------------------------------------------------------------------------

    def _load(self) -> Table:
        table: Table = self.catalog.load_table(self.identifier)
        return table

    def _kept_since(self, table: Table) -> int | None:
        """Since when a companion must tell what it held: as long as the table that it belongs to can be rolled back."""
        *namespace, name = table.name()
        suffix = next((suffix for suffix in COMPANION_SUFFIXES if name.endswith(suffix)), None)
        if suffix is None:
            return None
        try:
            owner = self.catalog.load_table((*namespace, name.removesuffix(suffix))).metadata
        except NoSuchTableError:
            return None
        rules = Policy.of(owner.properties, table=name.removesuffix(suffix))
        gone = set(choose_expired(owner, rules, now_ms=self.clock_ms()).snapshot_ids)
        return min(
            (snapshot.timestamp_ms for snapshot in owner.snapshots if snapshot.snapshot_id not in gone), default=None
        )


def _not_rewritten(metadata: TableMetadata) -> str | None:
    """Why nothing of a table is rewritten here, if so."""
    version = metadata.format_version
    if version > 3:
        return (
            f"nothing is rewritten: the table has format version {version}, which is not known here; use Spark's "
            f"rewrite_data_files"
        )
    types = [metadata.schema().find_type(field_id) for field_id in metadata.schema().field_ids]
    if new := sorted({str(kind) for kind in types if isinstance(kind, NOT_WRITTEN)}):
        return (
            f"nothing is rewritten: there are columns of type {', '.join(new)}, which are not written here; use "
            f"Spark's rewrite_data_files"
        )
    return None


def _say(removed: Removed) -> str:
    said = f"removed {count(removed.files, 'file')}"
    said += f", found {removed.missing:,} gone already" if removed.missing else ""
    said += f", could not remove {len(removed.failed):,}" if removed.failed else ""
    said += f", left {removed.outside:,} outside the table's folders" if removed.outside else ""
    said += (
        f", left {removed.needed:,} that other tables lead to: {', '.join(removed.needed_by[:3])}"
        if removed.needed
        else ""
    )
    return said + (f", left {removed.unknown:,}: {removed.doubt}" if removed.unknown else "")


def _say_left(plan: ExpiryPlan) -> tuple[str, ...]:
    outside = (f"leave {count(plan.outside, 'file')} outside the table's folders",) if plan.outside else ()
    return (*_say_needed(plan.needed), *outside, *((plan.doubt,) if plan.doubt else ()))


def _say_needed(needed: Mapping[str, str]) -> tuple[str, ...]:
    """
    >>> _say_needed({"s3://b/t/f": "lake.twin"})
    ('leave 1 file that other tables lead to: lake.twin',)
    """
    tables = ", ".join(sorted(set(needed.values()))[:3])
    return (f"leave {count(len(needed), 'file')} that other tables lead to: {tables}",) if needed else ()
