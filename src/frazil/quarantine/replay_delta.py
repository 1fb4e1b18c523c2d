"""The quarantine of a Delta table. Delta commits one table at a time, so a replay takes two steps, and the second one
can be made up for.

First the rows come into the table, by an application transaction whose progress names a plan: a file with the ids of
these rows, written before. Then they leave the quarantine, by an application transaction that names the same plan. A
program that dies in between leaves a plan of which the quarantine knows nothing: these rows count as gone from then on,
and the next replay or drop takes them out before all else.
"""

from __future__ import annotations

import contextlib
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction, RemoveAction

from frazil.errors import ProgressMismatch
from frazil.moved import former_fields
from frazil.protocol import QUARANTINE_SUFFIX, SUMMARY_RELEASE
from frazil.quarantine.held import COLUMNS, Choice, HeldRow, Holding, Naming, as_choice, check_choice
from frazil.quarantine.judging import DropResult, GivingUp, ReplayResult, Retrial
from frazil.quarantine.replay import Rules, as_rules
from frazil.quarantine.replay_files import ReplayFiles
from frazil.sinks import REPLAY_PART
from frazil.sinks.delta import DeltaLog, add_action, delta_layout, now_ms, open_log
from frazil.write.commit import Claim, PartProgress, RetryPolicy
from frazil.write.contract import reason_kind
from frazil.write.files import Buffer, TableLayout, writing

_LEFT = "frazil/quarantine/left/"  # and the plan's name: the application transaction with which its rows left


@former_fields(patience="retry")
@dataclass(frozen=True)
class DeltaQuarantine:
    """The quarantine of a Delta table; the table does not exist before the first bad row."""

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold keys
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    @property
    def name(self) -> str:
        return self.uri

    def holding(self) -> Holding | None:
        """What is in it; None if no row was ever quarantined."""
        if self._open_quarantine() is None:
            return None
        return Holding.of(self.name, ((row.reason, row.quarantined_at) for row in self.rows()))

    def rows(self, choice: Choice | None = None) -> list[HeldRow]:
        """The chosen rows, oldest first."""
        quarantine, chosen, naming = self._open_quarantine(), as_choice(choice), Naming()
        if quarantine is None:
            return []
        chosen = replace(chosen, without=self._pending(quarantine).ids)
        matching = [
            row
            for _, piece in _pieces(quarantine, quarantine.load())
            for row in naming.name_rows(piece)
            if chosen.has(row)
        ]
        return sorted(matching, key=lambda row: (row.quarantined_at, row.position))

    def replay(
        self,
        rules: Rules | None = None,
        *,
        choice: Choice | None = None,
        edits: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> ReplayResult:
        """Brings the chosen rows that keep the contract now into the table. Rows that still fail remain in quarantine,
        with the reason.

        A new replay takes over from one that is still running: that one ends with `WriterFenced`, and no row
        comes in twice.
        """
        held, meant = as_rules(rules), as_choice(choice)
        quarantine = self._open_quarantine()
        if quarantine is None:
            return ReplayResult(missing=tuple(sorted(edits or ())), dry_run=dry_run)
        without = self._pending(quarantine).ids if dry_run else frozenset()
        meant = replace(meant, ids=meant.ids if edits is None else frozenset(edits), without=without)
        case = _Case(self, quarantine, held, meant, edits or {})
        if not dry_run:
            self._finish(quarantine)
        first = case.judge()
        return self._bring_in(case) if first.passed and not dry_run else ReplayResult.of(first, dry_run=dry_run)

    def _bring_in(self, case: _Case) -> ReplayResult:
        """Takes over, and looks again: from here on no other replay can come in between."""
        owner, log = uuid.uuid4().hex[:16], self.log_of(self.uri)
        progress = log.take_over(REPLAY_PART, owner)
        self._finish(case.log)  # what the one before us may have left
        buffer = Buffer(self.layout_of(log))
        try:
            trial = case.judge(buffer)
            files = buffer.flush()
        finally:
            buffer.abandon()
        if trial.passed:
            self.retry.on_step("files written")
            plan = self._write_plan(trial.passed)
            # Whatever comes of it, the files stay: one that was fenced may have committed before.
            log.commit(
                [add_action(file, buffer.layout) for file in files], _claim(owner, progress, plan, len(trial.passed))
            )
            self.retry.on_step("rows are in")
            self._finish(case.log)
        return ReplayResult.of(trial)

    def drop(self, choice: Choice, *, dry_run: bool = False) -> DropResult:
        """The chosen rows are gone from the quarantine, in a new version; older ones hold them until a vacuum."""
        check_choice(choice)
        quarantine = self._open_quarantine()
        if quarantine is None:
            return DropResult()
        if dry_run:
            reasons = Counter(reason_kind(row.reason) for row in self.rows(choice))
        else:
            self._finish(quarantine)
            reasons = self._let_go(quarantine, choice, plan=uuid.uuid4().hex).reasons
        return DropResult(reasons.total(), dict(reasons.most_common()))

    def _finish(self, quarantine: DeltaLog) -> None:
        """Takes out the rows of a plan that was begun: they are in the table."""
        pending = self._pending(quarantine)
        if pending.plan is not None:
            self._let_go(quarantine, Choice(ids=pending.ids), plan=pending.plan)
            with contextlib.suppress(OSError):
                self.log_of(self.uri).io.delete(self._plan_location(pending.plan))

    def _let_go(self, quarantine: DeltaLog, choice: Choice, *, plan: str) -> GivingUp:
        """The rows leave the quarantine with the plan's transaction; or it is found that they have left."""
        judges = [GivingUp(choice)]

        def attempt(table: DeltaTable) -> GivingUp:
            if table.transaction_version(_LEFT + plan) is not None:
                return judges[-1]
            judges.append(GivingUp(choice))
            layout = self.layout_of(quarantine)
            with ReplayFiles(layout, layout, write=True) as files:
                files.split(_pieces(quarantine, table), judges[-1])
                files.flush()
                actions: list[AddAction | RemoveAction] = [RemoveAction(path, True, now_ms()) for path in files.removed]
                actions += [add_action(file, layout) for file in files.kept_files]
                self.retry.on_step("before commit")
                # Whatever comes of it, the files stay: delta-rs also reports its own commit as a conflict, if the reply
                # to it was lost.
                files.hand_over()
                _commit(table, actions, Transaction(_LEFT + plan, 1))
            self.retry.on_step("after commit")
            return judges[-1]

        return quarantine.until_decided(attempt)

    def _pending(self, quarantine: DeltaLog) -> _Pending:
        """The plan that was begun and not finished, and its rows."""
        log = self.log_of(self.uri)
        for plan in log.progress(log.load(), REPLAY_PART).offsets:
            if quarantine.load().transaction_version(_LEFT + plan) is not None:
                continue
            try:
                with log.io.new_input(self._plan_location(plan)).open() as stream:
                    return _Pending(plan, frozenset(stream.read().decode().split()))
            except FileNotFoundError as exc:
                if quarantine.load().transaction_version(_LEFT + plan) is None:  # else another has just finished it
                    raise ProgressMismatch(
                        f"{self.uri}: the plan of a replay is lost: {self._plan_location(plan)} is not there",
                        table=self.uri,
                        problem="missing",
                    ) from exc
        return _Pending()

    def _write_plan(self, ids: Sequence[str]) -> str:
        plan = uuid.uuid4().hex
        location = self._plan_location(plan)
        with writing(location), self.log_of(self.uri).io.new_output(location).create() as stream:
            stream.write("\n".join(ids).encode())
        return plan

    def _plan_location(self, plan: str) -> str:
        return f"{self.uri.rstrip('/')}/_frazil/{quote(REPLAY_PART, safe='')}/{plan}.ids"

    def _open_quarantine(self) -> DeltaLog | None:
        self.log_of(self.uri).load()  # a table that is not there has no empty quarantine either
        uri = f"{self.uri.rstrip('/')}{QUARANTINE_SUFFIX}"
        there = DeltaTable.is_deltatable(uri, dict(self.storage_options) or None)
        return self.log_of(uri) if there else None

    def log_of(self, uri: str) -> DeltaLog:
        """The log of the table, or of its quarantine."""
        return open_log(uri, self.storage_options, self.retry)

    def layout_of(self, log: DeltaLog) -> TableLayout:
        """The table as it is now."""
        return delta_layout(log.uri, log.load(), log.io.properties)


@dataclass(frozen=True)
class _Case:
    """What a replay was asked for."""

    quarantine: DeltaQuarantine
    log: DeltaLog
    rules: Rules
    choice: Choice
    edits: Mapping[str, str]

    def judge(self, buffer: Buffer | None = None) -> Retrial:
        """Holds the rows against the table as both are now; those that pass are put into the buffer."""
        layout = self.quarantine.layout_of(self.quarantine.log_of(self.quarantine.uri))
        contract = self.rules.contract(layout, lambda: (row.reason for row in self.quarantine.rows()))
        trial = Retrial(contract, self.choice, self.edits, extra_is_error=self.rules.extra_fields == "error")
        for _, rows in _pieces(self.log, self.log.load()):
            passed = trial.judge(rows).rows
            if buffer is not None and passed is not None:
                buffer.add(passed)
        return trial


@dataclass(frozen=True)
class _Pending:
    plan: str | None = None
    ids: frozenset[str] = frozenset()


def _claim(owner: str, progress: PartProgress, plan: str, count: int) -> Claim:
    """The progress of replays is the name of the last plan; the one before needs no entry any more."""
    return Claim(
        part=REPLAY_PART,
        writer=owner,
        generation=progress.generation,
        commit=progress.commits + 1,
        start={},
        end={plan: count},
        done=frozenset(progress.offsets),
    )


def _commit(table: DeltaTable, actions: list[AddAction | RemoveAction], transaction: Transaction) -> None:
    properties = CommitProperties(app_transactions=[transaction], custom_metadata={SUMMARY_RELEASE: transaction.app_id})
    table.create_write_transaction(actions, "append", table.schema(), [], commit_properties=properties)


def _pieces(quarantine: DeltaLog, table: DeltaTable) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each file of a version of the quarantine."""
    for path in sorted(pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()):
        with quarantine.io.new_input(f"{quarantine.uri.rstrip('/')}/{path}").open() as stream:
            yield path, pq.read_table(stream, columns=list(COLUMNS))
