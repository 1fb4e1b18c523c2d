"""Which rows leave the quarantine: rows that keep the table's contract now, or rows that a user has dropped. Decides,
and does nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from frazil.quarantine.held import Choice, HeldRow, Naming
from frazil.write.contract import Contract, parse_row, reason_kind


@dataclass(frozen=True)
class Verdict:
    """On some rows of a quarantine table: which of them leave it, by number, and the rows that the table gets."""

    leaving: frozenset[int]
    rows: pa.Table | None = None


class Judge(Protocol):
    """Sees all rows of a quarantine table once, some at a time."""

    def judge(self, rows: pa.Table) -> Verdict:
        """Who leaves."""


@dataclass
class GivingUp:
    """Lets the chosen rows go; `reasons` counts them."""

    choice: Choice
    naming: Naming = field(default_factory=Naming)
    reasons: Counter[str] = field(default_factory=Counter)
    ids: list[str] = field(default_factory=list)

    def judge(self, rows: pa.Table) -> Verdict:
        """All that were chosen leave, and come in nowhere."""
        chosen = [(number, row) for number, row in enumerate(self.naming.name_rows(rows)) if self.choice.has(row)]
        self.reasons.update(reason_kind(row.reason) for _, row in chosen)
        self.ids += [row.id for _, row in chosen]
        return Verdict(frozenset(number for number, _ in chosen))


@dataclass
class Retrial:
    """Holds the chosen rows against the contract again, with what was edited in place of what was written."""

    contract: Contract
    choice: Choice
    edits: Mapping[str, str] = field(default_factory=dict)
    extra_is_error: bool = True
    naming: Naming = field(default_factory=Naming)
    passed: list[str] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    seen: set[str] = field(default_factory=set)

    def judge(self, rows: pa.Table) -> Verdict:
        """Those that pass leave, and come in."""
        named = enumerate(self.naming.name_rows(rows))
        parsed = [(number, row, self._parse(row)) for number, row in named if self.choice.has(row)]
        fit = [(number, row, values) for number, row, values in parsed if values is not None]
        accepted = self.contract.accept_dicts([values for _, _, values in fit]) if fit else None
        if accepted is None:
            return Verdict(frozenset())
        self.failed.update(reason_kind(rejected.reason) for rejected in accepted.rejected)
        kept = range(len(fit)) if accepted.numbers is None else accepted.numbers.to_pylist()
        self.passed += [fit[at][1].id for at in kept]
        return Verdict(frozenset(fit[at][0] for at in kept), accepted.rows)

    def _parse(self, row: HeldRow) -> dict[str, Any] | None:
        """The row's values; None, and counted, where it cannot pass as it stands."""
        self.seen.add(row.id)
        try:
            values = parse_row(self.edits.get(row.id, row.raw), self.contract.layout.arrow)
        except ValueError:
            self.failed["the raw row is no JSON object"] += 1
            return None
        extra = sorted(set(values) - set(self.contract.layout.arrow.names)) or self.contract.new_nested_keys([values])
        if extra and self.extra_is_error:
            self.failed[f"field '{extra[0]}': the table has no such field"] += 1
            return None
        return values


def apply_verdict(rows: pa.Table, verdict: Verdict) -> pa.Table:
    """The rows that stay."""
    mask = [number not in verdict.leaving for number in range(rows.num_rows)]
    return rows.filter(pa.array(mask, pa.bool_()))


@dataclass(frozen=True)
class ReplayResult:
    """What a replay came to: rows that are in the table now, rows that stay in quarantine and why, edited rows that are
    not there.
    """

    replayed: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    snapshot_id: int | None = None
    dry_run: bool = False

    @classmethod
    def of(cls, trial: Retrial, *, snapshot_id: int | None = None, dry_run: bool = False) -> ReplayResult:
        missing = tuple(sorted(set(trial.edits) - trial.seen))
        return cls(len(trial.passed), dict(trial.failed.most_common()), missing, snapshot_id, dry_run)


@dataclass(frozen=True)
class DropResult:
    """Rows that were given up, or would be, and why they were in quarantine."""

    dropped: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    snapshot_id: int | None = None
