"""The quarantine of an Iceberg table: what it holds, and how rows leave it.

Rows that pass the contract now are appended to the table and taken out of the quarantine in one commit of both. It is
guarded by the very snapshot of the quarantine that was read: who comes second reads again, and finds the rows gone. So
a row comes in once, though the program is killed at any point, a reply is lost, two replays meet, or a sink quarantines
more rows in the meantime.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.typedef import Identifier

from frazil.client import Change
from frazil.errors import ArgumentError, CommitConflict, SinkError
from frazil.moved import former_fields
from frazil.protocol import PROPERTY_UPSERTED_BY, SUMMARY_PROGRESS, SUMMARY_RELEASE, SUMMARY_REPLAY
from frazil.quarantine.held import Choice, HeldRow, Holding, Naming, as_choice, check_choice
from frazil.quarantine.judging import DropResult, GivingUp, ReplayResult, Retrial
from frazil.quarantine.replay_files import ReplayFiles
from frazil.scan.reading import read_each_file, scan_rows
from frazil.write.commit import (
    Append,
    CommitCatalog,
    Overtaken,
    RetryPolicy,
    Rewrite,
    load_existing,
    property_key,
    quarantine_of,
    until_decided,
)
from frazil.write.contract import Contract, failed_check
from frazil.write.files import TableLayout

if TYPE_CHECKING:
    from pyiceberg.table import Table

R = TypeVar("R")


@dataclass(frozen=True)
class Rules:
    """What replayed rows must keep besides the table's types. Where the checks are not known (None), those that the
    reasons name hold.
    """

    checks: tuple[str, ...] | None = None
    extra_fields: Literal["error", "ignore"] = "error"
    append: bool = False  # also where the table is upserted

    def contract(self, layout: TableLayout, reasons: Callable[[], Iterator[str]]) -> Contract:
        """The contract of the table under these rules."""
        checks = self.checks
        if checks is None:
            checks = tuple(dict.fromkeys(check for reason in reasons() if (check := failed_check(reason)) is not None))
        return Contract.of(layout, checks=checks, extra="ignore")  # fields too many are judged row by row


def as_rules(rules: Rules | None) -> Rules:
    """The rules; None is those that the reasons name. Raises `ArgumentError` for anything else."""
    if not isinstance(rules, Rules | None):
        raise ArgumentError("rules", rules, expected="a frazil.quarantine.Rules, such as Rules(checks=('amount > 0',))")
    return rules or Rules()


@former_fields(patience="retry")
@dataclass(frozen=True, repr=False)
class IcebergQuarantine:
    """The quarantine of an Iceberg table; the table does not exist before the first bad row."""

    catalog: CommitCatalog
    identifier: Identifier
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    def __repr__(self) -> str:
        """The table whose rejected rows it holds."""
        return f"<IcebergQuarantine of {self.name}>"

    @property
    def name(self) -> str:
        return ".".join(self.identifier)

    def holding(self) -> Holding | None:
        """What is in it; None if no row was ever quarantined."""
        quarantine = self._open_quarantine()
        if quarantine is None:
            return None
        table = scan_rows(quarantine, ("reason", "quarantined_at")).to_arrow()
        return Holding.of(self.name, zip(table["reason"].to_pylist(), table["quarantined_at"].to_pylist(), strict=True))

    def rows(self, choice: Choice | None = None) -> list[HeldRow]:
        """The chosen rows, oldest first."""
        chosen = as_choice(choice)
        matching = [row for row in self.iter_rows() if chosen.has(row)]
        return sorted(matching, key=lambda row: (row.quarantined_at, row.position))

    def iter_rows(self) -> Iterator[HeldRow]:
        """All rows, file by file: only one of the files is in memory."""
        quarantine, naming = self._open_quarantine(), Naming()
        for _, piece in read_each_file(quarantine) if quarantine is not None else ():
            yield from naming.name_rows(piece)

    def snapshot_id(self) -> int | None:
        """The newest snapshot of the quarantine table; None if no row was ever quarantined."""
        quarantine = self._open_quarantine()
        return None if quarantine is None else quarantine.metadata.current_snapshot_id

    def replay(
        self,
        rules: Rules | None = None,
        *,
        choice: Choice | None = None,
        edits: Mapping[str, str] | None = None,
        dry_run: bool = False,
        expected: int | None = None,
    ) -> ReplayResult:
        """Brings the chosen rows that keep the contract now into the table. Rows that still fail remain in quarantine,
        with the reason.

        With `edits` (see `held.edited_rows`) only the rows named there are meant, and what stands there takes the place
        of the raw row. With `expected`, only if that is still the newest snapshot of the quarantine: what a person has
        been shown is what comes in.
        """
        held, meant = as_rules(rules), as_choice(choice)
        if edits is not None:
            meant = Choice(meant.reason, meant.part, frozenset(edits))
        sent: list[tuple[int, ReplayResult]] = []

        def attempt(number: int) -> ReplayResult:
            quarantine = self._load_quarantine()
            if quarantine is None:
                return ReplayResult(missing=tuple(sorted(edits or ())), dry_run=dry_run)
            if done := _committed(quarantine, sent):
                return done
            self._require(quarantine, expected)
            self._refuse_upserted(quarantine, held)
            table = load_existing(self.catalog, self.identifier)
            contract = held.contract(layout_of(table), lambda: _reasons(quarantine))
            trial = Retrial(contract, meant, edits or {}, extra_is_error=held.extra_fields == "error")
            with ReplayFiles(contract.layout, layout_of(quarantine), write=not dry_run) as files:
                files.split(read_each_file(quarantine), trial)
                if dry_run or not trial.passed:
                    return ReplayResult.of(trial, dry_run=dry_run)
                files.flush()
                self.retry.on_step("files written")
                append, rewrite = self._changes((table, quarantine), files, len(trial.passed), number)
                snapshot_id = next(iter(append.snapshot_ids))
                sent.append((next(iter(rewrite.snapshot_ids)), ReplayResult.of(trial, snapshot_id=snapshot_id)))
                self._commit([append, rewrite], files)
            return sent[-1][1]

        return until_decided(attempt, name=self.name, retry=self.retry)

    def drop(self, choice: Choice, *, dry_run: bool = False) -> DropResult:
        """The chosen rows are gone from the quarantine, in a new snapshot; older ones hold them until they expire."""
        check_choice(choice)
        sent: list[tuple[int, DropResult]] = []

        def attempt(number: int) -> DropResult:
            quarantine = self._load_quarantine()
            if quarantine is None:
                return DropResult()
            if done := _committed(quarantine, sent):
                return done
            judge = GivingUp(choice)
            layout = layout_of(quarantine)
            with ReplayFiles(layout, layout, write=not dry_run) as files:
                files.split(read_each_file(quarantine), judge)
                if dry_run or not judge.ids:
                    return DropResult(len(judge.ids), dict(judge.reasons.most_common()))
                files.flush()
                rewrite = Rewrite(quarantine_of(self.identifier), files.removed, files.kept_files)
                change = rewrite.build(
                    quarantine, attempt=number, summary={SUMMARY_RELEASE: _note(rows=len(judge.ids), to=None)}
                )
                snapshot_id = next(iter(change.snapshot_ids))
                sent.append((snapshot_id, DropResult(len(judge.ids), dict(judge.reasons.most_common()), snapshot_id)))
                self._commit([change], files)
            return sent[-1][1]

        return until_decided(attempt, name=self.name, retry=self.retry)

    def _require(self, quarantine: Table, expected: int | None) -> None:
        """Passes when the quarantine is at the expected snapshot."""
        newest = quarantine.metadata.current_snapshot_id
        if expected not in (None, newest):
            raise Overtaken(
                f"The quarantine of {self.name} is not at snapshot {expected} any more, but at {newest}: nothing was "
                f"changed",
                hint="look at what it holds now",
                table=self.name,
            )

    def _refuse_upserted(self, quarantine: Table, rules: Rules) -> None:
        if (key := quarantine.properties.get(PROPERTY_UPSERTED_BY)) and not rules.append:
            raise SinkError(
                f"{self.name} is upserted by {key}, and a replay appends: its rows would be added to those of the "
                f"same key",
                hint="send the rows through their stream again; or, if none of their keys is in the table, replay "
                "with --append",
                table=self.name,
                problem="upserted",
            )

    def _changes(
        self, tables: tuple[Table, Table], files: ReplayFiles, count: int, attempt: int
    ) -> tuple[Change, Change]:
        (table, read), changes = tables, quarantine_of(self.identifier)
        summary = {SUMMARY_REPLAY: _note(rows=count, source=".".join(changes))}
        if (progress := table.metadata.properties.get(property_key())) is not None:
            summary[SUMMARY_PROGRESS] = progress  # unchanged; said again, for the snapshots before may expire
        append = Append(self.identifier, files.good_files).build(table, attempt=attempt, summary=summary, properties={})
        rewrite = Rewrite(changes, files.removed, files.kept_files)
        return append, rewrite.build(read, attempt=attempt, summary={SUMMARY_RELEASE: _note(rows=count, to=self.name)})

    def _commit(self, changes: list[Change], files: ReplayFiles) -> None:
        self.retry.on_step("before commit")
        files.hand_over()  # from here on the files must not be deleted: the commit may happen late
        try:
            self.catalog.commit_changes(changes)
        except CommitConflict:
            files.take_back()  # certain: it never will
            raise
        self.retry.on_step("after commit")

    def _load_quarantine(self) -> Table | None:
        self.retry.on_step("before load")
        return self._open_quarantine()

    def _open_quarantine(self) -> Table | None:
        try:
            return self.catalog.load_table(quarantine_of(self.identifier))
        except (NoSuchTableError, NoSuchNamespaceError):
            load_existing(self.catalog, self.identifier)  # a table that is not there has no empty quarantine either
            return None


def layout_of(table: Table) -> TableLayout:
    """What new files of the table or its quarantine look like. Sinks make no table of format 3, but engines upgrade
    tables that have a quarantine. There, replayed rows get new ids, and so do rows that stay behind in a new file.
    """
    return TableLayout.of(table, formats=(1, 2, 3))


def _reasons(quarantine: Table) -> Iterator[str]:
    yield from scan_rows(quarantine, ("reason",)).to_arrow()["reason"].to_pylist()


def _committed(quarantine: Table, sent: list[tuple[int, R]]) -> R | None:
    """What came of an attempt whose reply was lost, if it has happened: its snapshot is there."""
    return next(
        (result for snapshot_id, result in sent if quarantine.metadata.snapshot_by_id(snapshot_id) is not None), None
    )


def _note(**values: object) -> str:
    return json.dumps({key: value for key, value in values.items() if value is not None}, separators=(",", ":"))
