"""The commit core: rows and progress in one commit, exactly once.

The loop is our own. Before every attempt the table is loaded again and its progress decides: what it covers is in, what
it does not cover is not; after a conflict, after a lost reply and at the start, in the same way. PyIceberg's own retry
never runs: it would append a batch again that another writer has brought in.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar
from uuid import UUID

import requests
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, ServerError, ServiceUnavailableError
from pyiceberg.schema import Schema
from pyiceberg.typedef import Identifier

from frazil.client import Change
from frazil.errors import (
    CommitConflict,
    CommitUnknown,
    ProgressMismatch,
    SinkError,
    Unavailable,
    WriteFailed,
    WriterFenced,
)
from frazil.moved import warn_former
from frazil.protocol import SUMMARY_COMMIT, SUMMARY_PROGRESS, SUMMARY_REF
from frazil.storage_errors import classify, hint_for
from frazil.write.commit.builder import check_branch, head
from frazil.write.commit.events import (
    added_summary,
    report_commit,
    report_failure,
    report_fence,
    report_repeat,
    report_retry,
    report_takeover,
)
from frazil.write.commit.progress import (
    MAIN,
    Claim,
    PartProgress,
    PlannedTakeover,
    Progress,
    apply_claim,
    plan_takeover,
    progress_at,
    property_key,
    read_progress,
    take_over,
)
from frazil.write.commit.snapshots import Append, Move, Publishable

if TYPE_CHECKING:
    from pyiceberg.table import Table

T = TypeVar("T")


class CommitCatalog(Protocol):
    """What the core needs of a catalog: `frazil.client.FrazilCatalog` has it, and `SingleTableCatalog` gives it to any
    of PyIceberg's.
    """

    def load_table(self, identifier: str | Identifier) -> Table:
        """The table as it is now."""

    def create_table(self, identifier: str | Identifier, schema: Schema, *, properties: dict[str, str]) -> Table:
        """A new table."""

    def commit_changes(self, changes: Sequence[Change]) -> None:
        """All changes in one commit; else `CommitConflict` (none happened, ever) or `CommitUnknown`."""


def ignore(step: str) -> None:
    """Takes no notice of a step."""


@dataclass(frozen=True)
class RetryPolicy:
    """How long and how often a commit is retried after conflicts or while the catalog is unavailable."""

    give_up_seconds: float = 300.0
    longest_pause_seconds: float = 2.0
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    chance: random.Random = field(default_factory=random.Random)
    on_step: Callable[[str], None] = ignore  # is called at each step of a commit

    def pause_seconds(self, attempt: int) -> float:
        """A random wait that grows with the attempts, so that writers of one table get out of each other's way."""
        return self.chance.uniform(0, min(0.02 * 2**attempt, self.longest_pause_seconds))


@dataclass(frozen=True)
class Committed:
    """A commit that has happened: the progress then, and its snapshot (None if it was in already, and where there are
    none).
    """

    progress: PartProgress
    snapshot_id: int | None = None


@dataclass(frozen=True)
class Published(Committed):
    """The same for an Iceberg table: with the number of attempts, and the table just before."""

    _: KW_ONLY
    attempts: int
    table: Table


@dataclass(frozen=True)
class Publisher:
    """Commits for one ref of one table."""

    catalog: CommitCatalog
    identifier: Identifier
    ref: str = MAIN
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    # the table that each writer took over
    _taken: dict[str, UUID] = field(default_factory=dict, compare=False, repr=False)

    @property
    def table_name(self) -> str:
        return ".".join(self.identifier)

    def take_over(self, part: str, writer: str) -> PartProgress:
        """Makes `writer` the one writer of a part: from now on every other one's commits are refused. Gives the
        progress to go on from.
        """
        append = Append(self.identifier, ref=self.ref)

        def attempt(number: int) -> PartProgress:
            table = self._load(self.identifier)
            self._taken[writer] = table.metadata.table_uuid
            before = self._before_take_over(table, part)
            if before.part(part).writer == writer:  # the reply was lost, the commit was not
                return before.part(part)
            after = take_over(before, part, writer)
            # An empty append: without a snapshot of its own, the take-over would pass unseen by the old writer's guard.
            self._commit([self._change(append, table, number, after, None)])
            report_takeover(self.table_name, part, generation=after.part(part).generation)
            return after.part(part)

        return self._until_decided(attempt)

    def plan_takeover(self, part: str, writer: str, loaded: Table | None = None) -> PlannedTakeover:
        """What `writer` needs to take over with its first commit, which is refused if the progress has moved by then.
        Changes nothing. `loaded` is the table, if the caller has it.
        """

        def attempt(_: int) -> PlannedTakeover:
            table = loaded or self._load(self.identifier)
            self._taken[writer] = table.metadata.table_uuid
            return plan_takeover(self._before_take_over(table, part).part(part), writer)

        return self._until_decided(attempt)

    def _before_take_over(self, table: Table, part: str) -> Progress:
        """The progress of the ref. A branch has the rows of main up to where it left it: there a part goes on that is
        new on the branch.
        """
        check_branch(table.metadata, self.ref, table=self.table_name)
        known, on_ref = read_progress(table.metadata, self.ref), head(table.metadata, self.ref)
        if self.ref == MAIN or part in known.parts or on_ref is None:
            return known
        main = head(table.metadata, MAIN)
        is_main = main is not None and main.snapshot_id == on_ref.snapshot_id
        inherited = read_progress(table.metadata) if is_main else progress_at(table.metadata, on_ref, MAIN)
        if inherited is None and part in read_progress(table.metadata).parts:
            raise ProgressMismatch(
                f"{self.table_name}: the progress of part '{part}' where branch '{self.ref}' left main is "
                f"unknown: "
                "those snapshots are expired",
                hint="recreate the branch from main, or write under another name",
                part=part,
                ref=self.ref,
                problem="expired",
            )
        return (
            known.with_part(part, inherited.part(part)) if inherited is not None and part in inherited.parts else known
        )

    def publish(self, target: Publishable, claim: Claim, *, also: Sequence[Append] = ()) -> Published:
        """Commits the target's rows, those of the other tables and the progress, all at once; or finds that this has
        happened before.

        Raises `WriterFenced` when another writer owns the part now or the table was recreated, and `CommitConflict`
        when a staged snapshot was overtaken.
        """

        (published,) = publish_together([Publication(self, target, claim, tuple(also))])
        return published

    def _apply(self, claim: Claim, table: Table) -> Progress | None:
        known = read_progress(table.metadata, self.ref)
        if self._taken.get(claim.writer, table.metadata.table_uuid) != table.metadata.table_uuid:
            # A new table knows no part, and neither did the old one when a writer planned its first takeover: they look
            # the same.
            current = known.part(claim.part).generation
            raise WriterFenced(self.table_name, claim.part, ours=claim.generation, current=current, made_anew=True)
        if claim.takes_over is not None:
            known = self._before_take_over(table, claim.part)
        return apply_claim(known, claim, table=self.table_name)

    def prepare(self, publication: Publication, number: int) -> Prepared:
        """The publication on the table as it is now: what to commit, or that it has been committed before."""
        table, claim, target = self._load(self.identifier), publication.claim, publication.target
        after = self._apply(claim, table)
        if after is None:
            report_repeat(self.table_name, claim.part, attempts=number)
            done = Published(read_progress(table.metadata, self.ref).part(claim.part), attempts=number, table=table)
            return Prepared((), done)
        if isinstance(target, Move) and (now := head(table.metadata, self.ref)) and now.snapshot_id != target.base_id:
            raise Overtaken(
                f"{self.table_name}: '{self.ref}' has moved since '{target.stage}' was begun",
                hint="stage the change again",
                ref=self.ref,
                table=self.table_name,
            )
        change = self._change(target, table, number, after, claim)
        others = [
            other.build(self._load(other.identifier), attempt=number, summary={}, properties={})
            for other in publication.also
            if other.files
        ]
        snapshot_id = next(iter(change.snapshot_ids), None)
        done = Published(after.part(claim.part), snapshot_id, attempts=number, table=table)
        return Prepared((change, *others), done)

    def report(self, publication: Publication, prepared: Prepared, *, seconds: float) -> None:
        """Says that the publication is committed."""
        done, claim = prepared.done, publication.claim
        if claim.takes_over is not None:
            report_takeover(self.table_name, claim.part, generation=done.progress.generation)
        summary = added_summary(prepared.changes[0].updates)
        report_commit(self.table_name, summary, snapshot_id=done.snapshot_id, attempts=done.attempts, seconds=seconds)

    def progress(self) -> Progress:
        """The progress of the ref as it is now."""
        return self._until_decided(lambda _: read_progress(self._load(self.identifier).metadata, self.ref))

    def _change(self, target: Publishable, table: Table, attempt: int, after: Progress, claim: Claim | None) -> Change:
        text = after.dump()
        summary = {SUMMARY_PROGRESS: text}
        if claim is not None:
            # Other targets (upserts, overwrites, stages) depend on the rows of the table, not on the part alone.
            rebases = type(target) is Append and self.ref == MAIN and claim.needs_part_alone
            summary[SUMMARY_COMMIT] = claim.summary(rebases=rebases)
        if self.ref != MAIN:
            summary[SUMMARY_REF] = self.ref
        return target.build(table, attempt=attempt, summary=summary, properties={property_key(self.ref): text})

    def commit(self, changes: Sequence[Change]) -> None:
        """Commits changes of tables, all at once."""
        self._commit(changes)

    def _commit(self, changes: Sequence[Change]) -> None:
        self.retry.on_step("before commit")
        self.catalog.commit_changes(changes)
        self.retry.on_step("after commit")

    def _load(self, identifier: Identifier) -> Table:
        self.retry.on_step("before load")
        return load_existing(self.catalog, identifier)

    def _until_decided(self, attempt: Callable[[int], T]) -> T:
        return until_decided(attempt, name=self.table_name, retry=self.retry)


@dataclass(frozen=True)
class Publication:
    """What one writer wants to commit: a change of its table under a claim, and rows of other tables."""

    publisher: Publisher
    target: Publishable
    claim: Claim
    also: tuple[Append, ...] = ()


@dataclass(frozen=True)
class Prepared:
    """A publication on the tables as they are at one attempt: its changes, and what it gives once they are committed.
    Without changes it has been committed before.
    """

    changes: tuple[Change, ...]
    done: Published


def publish_together(publications: Sequence[Publication]) -> list[Published]:
    """Commits all publications at once, each with its progress, or none; the first one's publisher says how often it is
    tried. Part of them cannot be in: a commit that was lost has happened for all, or for none.

    Raises `WriterFenced` if another writer owns one of the parts now, and `Overtaken` if one of the staged snapshots
    was overtaken.
    """
    first, start = publications[0].publisher, time.monotonic()

    def attempt(number: int) -> list[Published]:
        prepared = [publication.publisher.prepare(publication, number) for publication in publications]
        if changes := [change for each in prepared for change in each.changes]:
            first.commit(changes)
            for publication, each in zip(publications, prepared, strict=True):
                if each.changes:
                    publication.publisher.report(publication, each, seconds=time.monotonic() - start)
        return [each.done for each in prepared]

    return until_decided(attempt, name=", ".join(each.publisher.table_name for each in publications), retry=first.retry)


def load_existing(catalog: CommitCatalog, identifier: Identifier) -> Table:
    """The table as it is now; raises `SinkError` if it does not exist."""
    try:
        return catalog.load_table(identifier)
    except (NoSuchTableError, NoSuchNamespaceError) as exc:
        name = ".".join(identifier)
        raise SinkError(
            f"table {name} is not there",
            hint="create it before rows are written to it: a sink makes no tables",
            table=name,
            problem="missing",
        ) from exc


def until_decided(attempt: Callable[[int], T], *, name: str, retry: RetryPolicy) -> T:
    """Tries until the commit is done, fails for good, or the retry policy ends. Every attempt reads the table again:
    see the rules in see the rules in `progress`.

    Once the outcome of one try is unknown, giving up is a `CommitUnknown`, whatever the last try ended with; so is a
    fence that is seen after it, for the newer writer may have come after that commit. A fault that waiting does not
    end, such as wrong keys, is not tried again, except that one more look may decide an unknown outcome.
    """
    start, number = retry.clock(), 0
    doubt: CommitUnknown | None = None
    looked = False
    while True:
        number += 1
        try:
            return attempt(number)
        except WriterFenced as exc:
            report_fence(name, exc)
            if doubt is not None:
                raise doubt from exc
            raise
        except _TRANSIENT as exc:
            if isinstance(exc, Overtaken):
                raise
            doubt = exc if isinstance(exc, CommitUnknown) else doubt
            if is_lasting(exc):
                if looked or not isinstance(exc, CommitUnknown):
                    raise doubt or _lasting(exc, name) from exc
                looked = True
            seconds = retry.clock() - start
            if seconds > retry.give_up_seconds:
                report_failure(name, doubt or exc, attempts=number)
                raise doubt or _given_up(exc, name, number) from exc
            wait = retry.pause_seconds(number)
            report_retry(name, exc, attempt=number, wait_seconds=wait, seconds=seconds)
            retry.sleep(wait)


def is_lasting(error: Exception) -> bool:
    """Whether waiting cannot help: the user has to change keys, permissions or settings first."""
    if isinstance(error, CommitConflict):  # the catalog refuses so, too, when its own store fails
        return classify(str(error)).lasting
    return getattr(error, "lasting", False) or classify(error).lasting


def _lasting(error: Exception, table: str) -> Exception:
    """An error that waiting does not end, as one of ours, with a hint about keys and permissions."""
    if isinstance(error, WriteFailed | Unavailable) and error.lasting:
        return error
    return Unavailable(f"{table}: {error}", hint=hint_for(classify(error), "s3:"), lasting=True, table=table)


def _given_up(error: Exception, table: str, attempts: int) -> Exception:
    """The last error, as one of ours."""
    known = isinstance(error, CommitConflict | CommitUnknown | Unavailable | WriteFailed)
    return error if known else Unavailable(f"{table}: no answer after {attempts} attempts: {error}", table=table)


class Overtaken(CommitConflict):
    """A staged snapshot builds on a state that is no longer the latest: no attempt can succeed."""


# What may be over at the next attempt.
_TRANSIENT = (
    CommitConflict,
    CommitUnknown,
    Unavailable,
    WriteFailed,
    ServerError,
    ServiceUnavailableError,
    requests.ConnectionError,
    requests.Timeout,
    OSError,
)


@dataclass(frozen=True)
class SingleTableCatalog:
    """Any catalog of PyIceberg as the core wants it: one table in a commit, no more."""

    catalog: object

    def load_table(self, identifier: str | Identifier) -> Table:
        table: Table = self.catalog.load_table(identifier)  # type: ignore[attr-defined]
        return table

    def create_table(self, identifier: str | Identifier, schema: Schema, *, properties: dict[str, str]) -> Table:
        table: Table = self.catalog.create_table(identifier, schema, properties=properties)  # type: ignore[attr-defined]
        return table

    def commit_changes(self, changes: Sequence[Change]) -> None:
        from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

        if len(changes) != 1:
            raise SinkError(
                f"this catalog commits one table at a time, not {' and '.join(change.name for change in changes)} "
                f"together",
                hint="use a REST catalog with /transactions/commit (frazil serve), or bad_rows='stop'",
                problem="single-table",
            )
        (change,) = changes
        try:
            self.catalog.commit_table(self.load_table(change.identifier), change.requirements, change.updates)  # type: ignore[attr-defined]
        except CommitFailedException as exc:
            raise CommitConflict(f"the commit to {change.name} was refused: {exc}", reason=str(exc)) from exc
        except (CommitStateUnknownException, ServerError, ServiceUnavailableError, requests.RequestException) as exc:
            raise CommitUnknown(
                f"the commit to {change.name} may or may not have happened: {exc}", reason=str(exc)
            ) from exc


def __getattr__(name: str) -> type[RetryPolicy]:
    if name == "Patience":
        warn_former("Patience", "RetryPolicy")
        return RetryPolicy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
