"""Which snapshot brought rows that break a check: a binary search over the history of a branch.

The search follows parents, not times: after a rollback, what was undone is not on the line. As every bisection, it
assumes that the check changes once, from passing to failing; the snapshot that it gives and the one before are always
among those that were checked. `find_flips` looks at every snapshot and does not depend on that.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol

from frazil.errors import ArgumentError, CheckError, HistoryError
from frazil.history.log import LogEntry, describe, refs_by_snapshot
from frazil.history.origins import OriginReader, Origins, Run
from frazil.history.row_checks import Effort, Findings, FoundRow, RowSearch
from frazil.scan.planning import MAIN, Named, Source, ancestors, find_point, find_ref, schema_at, show_time
from frazil.units import count
from frazil.write.contract import is_query

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from frazil.client import FrazilCatalog
    from frazil.history.query_checks import RunQuery

Outcome = Literal["found", "passes", "older"]
OnStep = Callable[["BisectStep"], None]
REPAIRED = "a check can fail in between and be repaired later: --all checks every snapshot"
SHOWN = 5  # expired snapshots that a note names


class Search(Protocol):
    """What finds the rows of a snapshot that break the checks: `RowSearch`, `QuerySearch`."""

    effort: Effort

    def has_rows(self, snapshot_id: int) -> bool:
        """Whether there are any."""

    def still_has_rows(self, snapshot_id: int) -> bool | None:
        """The same without a check: from what is known by now; None if that does not tell."""

    def find(self, snapshot_id: int, limit: int) -> Findings:
        """How many there are, and the first of them."""


@dataclass(frozen=True)
class BisectStep:
    """A snapshot that was checked: the `number`th of `total` on the line, the oldest is the first."""

    snapshot_id: int
    number: int
    total: int
    fails: bool


@dataclass(frozen=True)
class Flip:
    """A snapshot from which on the checks fail, or pass again."""

    entry: LogEntry
    fails: bool


@dataclass(frozen=True)
class Culprit:
    """The first snapshot that fails: what it is, who made it from what, and rows of it that break the checks."""

    entry: LogEntry
    summary: Mapping[str, str]
    origins: Origins
    bad_rows: int
    samples: tuple[FoundRow, ...]


@dataclass(frozen=True)
class AddedBy:
    """The snapshot that added files with rows that break the checks, and what is known of it."""

    snapshot_id: int
    origins: Origins
    is_kept: bool


@dataclass(frozen=True, repr=False)
class Bisection:
    """What a bisection has found.

    `outcome` is `found`; `passes`, if the newest snapshot passes; or `older`, if the oldest one fails already. Then
    `culprit` is that oldest snapshot, and `sources` says which snapshots its files came from.
    """

    table: str
    ref: str
    checks: tuple[str, ...]
    outcome: Outcome
    good: LogEntry | None  # the last that passes before the culprit; none if the culprit is the table's first
    bad: LogEntry  # the newest snapshot of the line
    snapshots: int  # on the line
    culprit: Culprit | None
    effort: Effort
    flips: tuple[Flip, ...] | None = None  # if every snapshot was checked
    sources: tuple[AddedBy, ...] = ()
    notes: tuple[str, ...] = ()  # what a reader should know of the result

    def __repr__(self) -> str:
        """The verdict in one line."""
        checked = f"{self.effort.snapshots} of {count(self.snapshots, 'snapshot')} checked"
        culprit = "" if self.culprit is None else f" snapshot {self.culprit.entry.snapshot_id}"
        read = f"{count(self.effort.files_read, 'file')} read"
        return f"<Bisection of {self.table}: {self.outcome}{culprit}; {checked}, {read}>"

    def commands(self) -> tuple[str, ...]:
        """What to run next, if a snapshot was found."""
        if self.culprit is None or self.outcome != "found":
            return ()
        table, culprit_id = shlex.quote(self.table), self.culprit.entry.snapshot_id
        commands = []
        if self.good is not None:
            ref = "" if self.ref == MAIN else f" --ref {shlex.quote(self.ref)}"
            commands.append(f"frazil diff {table} {self.good.snapshot_id} {culprit_id}")
            commands.append(f"frazil rollback {table} --at {self.good.snapshot_id}{ref}")
        if not any(is_query(check) for check in self.checks):
            where = " OR ".join(f"NOT ({check})" for check in self.checks)
            commands.append(f"frazil blame {table} --at {culprit_id} --where {shlex.quote(where)}")
        return tuple(commands)


# --- the search: pure ------------------------------------------------------------------------------------------------


def first_failing(count: int, fails: Callable[[int], bool]) -> int:
    """The first place that fails, or `count` if none does, if it changes at most once from passing to failing. It asks
    for log2(count + 1) places, rounded up, and for none twice: the place that it gives, and the one before.

    >>> asked = []
    >>> first_failing(1000, lambda at: asked.append(at) or at >= 637), len(asked)
    (637, 10)
    """
    good, bad = -1, count
    while bad - good > 1:
        middle = (good + bad) // 2
        if fails(middle):
            bad = middle
        else:
            good = middle
    return bad


def find_flips(count: int, fails: Callable[[int], bool]) -> list[tuple[int, bool]]:
    """Every place that fails or passes where the one before did not; before the first one there is a pass.

    >>> find_flips(6, lambda at: at in (2, 3, 5))
    [(2, True), (4, False), (5, True)]
    """
    flips, before = list[tuple[int, bool]](), False
    for place in range(count):
        if (now := fails(place)) != before:
            flips.append((place, now))
        before = now
    return flips


def line_between(
    metadata: TableMetadata, *, table: str, ref: str = MAIN, good: Named | None = None, bad: Named | None = None
) -> list[Snapshot]:
    """The snapshots from the good end to the bad one, the oldest first, by parent. Without a good end, from the oldest
    that is kept.
    """
    newest = find_ref(metadata, ref, table=table) if bad is None else find_point(metadata, bad, table=table, ref=ref)
    line = list(ancestors(metadata, newest.snapshot))
    if good is not None:
        oldest = find_point(metadata, good, table=table, ref=ref)
        ids = [snapshot.snapshot_id for snapshot in line]
        if oldest.snapshot.snapshot_id not in ids:
            raise HistoryError(
                f"{table}: {oldest} is not in the history of {newest}",
                hint=f"frazil log {table} lists that history; what was rolled back, or lies on another branch, is not "
                "in it",
                table=table,
                snapshot=oldest.snapshot.snapshot_id,
                problem="not-an-ancestor",
            )
        line = line[: ids.index(oldest.snapshot.snapshot_id) + 1]
    return line[::-1]


def tell_missing(metadata: TableMetadata, oldest: Snapshot, runs: Mapping[int, Run]) -> Iterator[str]:
    """What is known of the time before the oldest snapshot that was looked at."""
    parent_id = oldest.parent_snapshot_id
    if parent_id is not None and metadata.snapshot_by_id(parent_id) is not None:
        yield "the good end fails already: name an older snapshot with --good, or none for the oldest that is kept"
        return
    yield f"older snapshots have expired: snapshot {parent_id} came before it, and can no longer be read"
    logged = [
        entry
        for entry in metadata.snapshot_log
        if entry.timestamp_ms < oldest.timestamp_ms and metadata.snapshot_by_id(entry.snapshot_id) is None
    ]
    for entry in logged[-SHOWN:]:
        yield f"main was at snapshot {entry.snapshot_id} from {show_time(entry.timestamp_ms)} UTC on"
    expired = [(run, number) for number, run in runs.items() if metadata.snapshot_by_id(number) is None]
    for run, number in sorted(expired, key=lambda item: str(item[0].started_at))[-SHOWN:]:
        started = f", started at {run.started_at:%Y-%m-%d %H:%M:%S} UTC" if run.started_at else ""
        yield f"run {run.run_id} of {run.pipeline} made snapshot {number}, which has expired{started}"


# --- a table ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BisectRequest:
    """What is looked for, and between which ends."""

    checks: tuple[str, ...]
    ref: str = MAIN
    good: Named | None = None
    bad: Named | None = None
    all: bool = False  # check every snapshot
    samples: int = 5  # rows to show

    def __post_init__(self) -> None:
        if not self.checks:
            raise ArgumentError("check", self.checks, expected="a condition such as 'amount < 1e6', or a query")
        for check in self.checks:
            if not isinstance(check, str):
                raise ArgumentError("check", check, expected="a condition such as 'amount < 1e6', or a query")
        if len({is_query(check) for check in self.checks}) > 1:
            raise CheckError(
                "conditions and queries cannot be bisected together",
                hint="one at a time: they may have different culprits",
                check=self.checks[0],
                problem="mixed",
            )


def bisect_table(
    catalog: FrazilCatalog,
    table: Table,
    source: Source,
    request: BisectRequest,
    *,
    run_query: RunQuery,
    on_step: OnStep | None = None,
) -> Bisection:
    """Finds the first snapshot of a table that fails a check."""
    name = ".".join(table.name())
    line = line_between(table.metadata, table=name, ref=request.ref, good=request.good, bad=request.bad)
    end = request.ref if request.bad is None else request.bad
    newest = find_point(table.metadata, end, table=name, ref=request.ref)
    schema = schema_at(table.metadata, newest)
    if is_query(request.checks[0]):
        from frazil.history.query_checks import QuerySearch

        search: Search = QuerySearch.of(table, source, schema, request.checks, run_query)
    else:
        search = RowSearch.breaking(table, source, schema, request.checks)
    return _Bisecting(catalog, table, line, search, request, on_step).run()


@dataclass
class _Bisecting:
    """One bisection: the line, what was found on it so far, and the result."""

    catalog: FrazilCatalog
    table: Table
    line: Sequence[Snapshot]
    search: Search
    request: BisectRequest
    on_step: OnStep | None
    known: dict[int, bool] = field(default_factory=dict)  # by place

    def run(self) -> Bisection:
        if self.request.all:
            return self._run_all()
        place = first_failing(len(self.line), self._fails)
        if place == len(self.line):
            return replace(self._result("passes", None), notes=(REPAIRED,) if place > 1 else ())
        newest = len(self.line) - 1
        if newest not in self.known and self.search.still_has_rows(self.line[newest].snapshot_id) is False:
            since = f"snapshot {self.line[place].snapshot_id} fails, and what failed was repaired since"
            return replace(self._result("passes", None), notes=(since, REPAIRED))
        return self._oldest_fails() if place == 0 else self._result("found", place)

    def _run_all(self) -> Bisection:
        flips = find_flips(len(self.line), self._fails)
        if not flips:
            result = self._result("passes", None)
        elif flips[0][0] == 0:
            result = self._oldest_fails()
        else:
            result = self._result("found", flips[0][0])
        return replace(result, flips=tuple(Flip(self._entry(place), fails) for place, fails in flips))

    def _oldest_fails(self) -> Bisection:
        """Before the first snapshot of a table there were no rows: then it is the culprit. Otherwise the culprit is
        older than what is looked at.
        """
        if self.line[0].parent_snapshot_id is None:
            return self._result("found", 0)
        notes = tell_missing(self.table.metadata, self.line[0], self._origins.runs)
        return replace(self._result("older", 0), sources=tuple(self._sources()), notes=tuple(notes))

    def _fails(self, place: int) -> bool:
        if place not in self.known:
            snapshot_id = self.line[place].snapshot_id
            self.known[place] = self.search.has_rows(snapshot_id)
            if self.on_step is not None:
                self.on_step(BisectStep(snapshot_id, place + 1, len(self.line), self.known[place]))
        return self.known[place]

    def _result(self, outcome: Outcome, place: int | None) -> Bisection:
        good = self._entry(place - 1) if place else None
        return Bisection(
            table=".".join(self.table.name()),
            ref=self.request.ref,
            checks=self.request.checks,
            outcome=outcome,
            good=good,
            bad=self._entry(len(self.line) - 1),
            snapshots=len(self.line),
            culprit=None if place is None else self._culprit(place),
            effort=self.search.effort,
        )

    def _culprit(self, place: int) -> Culprit:
        snapshot = self.line[place]
        findings = self.search.find(snapshot.snapshot_id, self.request.samples)
        summary = dict(snapshot.summary.additional_properties) if snapshot.summary else {}
        origins = self._origins.of(snapshot.snapshot_id)
        return Culprit(self._entry(place), summary, origins, findings.rows, findings.samples)

    def _sources(self) -> list[AddedBy]:
        """The snapshots that added the files with bad rows of the oldest snapshot: manifests name them, also when they
        have expired.
        """
        if not isinstance(self.search, RowSearch):
            return []
        added = self.search.adders(self.line[0].snapshot_id)
        kept = self.table.metadata.snapshot_by_id
        return [AddedBy(adder, self._origins.of(adder), kept(adder) is not None) for adder in added]

    def _entry(self, place: int) -> LogEntry:
        snapshot, refs = self.line[place], refs_by_snapshot(self.table.metadata)
        run = self._origins.runs.get(snapshot.snapshot_id)
        text = f"{run.pipeline} run {run.run_id}" if run else ""
        return describe(snapshot, refs=refs.get(snapshot.snapshot_id, ()), run=text)

    @cached_property
    def _origins(self) -> OriginReader:
        return OriginReader(self.catalog, self.table)
