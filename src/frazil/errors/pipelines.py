"""Errors of runs and streams: what stopped them. Nothing of a failed run is committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

from frazil.errors.base import Facts, FrazilError


class PipelineError(FrazilError):
    """A run stopped; nothing of it was committed."""


class SourceDrift(PipelineError):
    """The source's columns differ from the table's, and the policy is to stop."""

    def __init__(self, message: str, *, columns: tuple[str, ...], **facts: Unpack[Facts]) -> None:
        super().__init__(message, **facts)
        self.columns = columns


class SourceChanged(PipelineError):
    """Loaded files have, or may have, different content now, and the pipeline does not declare what to do.

    For `unverified` files only the modification time or the ETag is known to differ: the ledger has no hash of the
    content that was loaded.
    """

    def __init__(self, pipeline: str, paths: Sequence[str], *, mode: str, unverified: Sequence[str] = ()) -> None:
        lines = [
            f"\n  {path}" + (" (same size; no hash in the ledger)" if path in unverified else "") for path in paths[:20]
        ]
        listed = "".join(lines) + (f"\n  and {len(paths) - 20:,} more" if len(paths) > 20 else "")
        change = "have different content now"
        if set(paths) <= set(unverified):
            change = (
                "have a different modification time or ETag now, and the ledger has no hash to compare their content to"
            )
        meaning = (
            'on_change="append" loads their whole content again, in addition to the rows in the table'
            if mode == "append"
            else f'on_change="replace" loads them again, by the rules of mode="{mode}"'
        )
        super().__init__(
            f"pipeline '{pipeline}': files that were loaded {change}:{listed}",
            hint=f"nothing was committed; put new rows into new files, or declare what a change means: {meaning}",
            pipeline=pipeline,
        )
        self.paths = tuple(paths)
        self.unverified = tuple(unverified)


class TooManyBadRows(PipelineError):
    """More rows were rejected than the pipeline allows."""

    def __init__(self, pipeline: str, *, bad: int, rows: int, limit: float, reasons: Mapping[str, int]) -> None:
        counts = "".join(f"\n  {count:>10,}  {reason}" for reason, count in reasons.items())
        share = bad / max(rows, 1)
        super().__init__(
            f"pipeline '{pipeline}': {bad:,} of {rows:,} rows are bad ({share:.2%}), expected at most "
            f"{limit:.2%}:{counts}",
            hint="nothing was committed; fix the files, or raise max_bad_share",
            pipeline=pipeline,
        )
        self.bad = bad
        self.rows = rows
        self.limit = limit
        self.reasons = dict(reasons)


class MessagesLost(PipelineError):
    """Kafka no longer has messages that were not read yet.

    `losses` has one line per loss, `ranges` the first and last offset that a partition lost, `recreated` the topics
    that were deleted and made again.
    """

    def __init__(
        self,
        pipeline: str,
        losses: Sequence[str],
        *,
        ranges: Mapping[str, tuple[int, int]],
        recreated: Sequence[str] = (),
        hint: str,
    ) -> None:
        super().__init__(
            f"pipeline '{pipeline}': messages are lost:" + "".join(f"\n  {loss}" for loss in losses),
            hint=hint,
            pipeline=pipeline,
        )
        self.losses = tuple(losses)
        self.ranges = dict(ranges)
        self.recreated = tuple(recreated)


class AuditFailed(PipelineError):
    """A check of rows on a staging branch failed; `failures` has the number of violations per check."""

    def __init__(self, pipeline: str, table: str, branch: str, *, rows: int, failures: Mapping[str, int]) -> None:
        violations = "".join(f"\n  {count:,} x {check}" for check, count in failures.items())
        super().__init__(
            f"pipeline '{pipeline}': the audit failed; main of {table} is unchanged, {rows:,} new rows are on branch "
            f"'{branch}':{violations}",
            hint=f"inspect them: frazil log {table} --ref {branch}, frazil query --ref {branch} ...; fix the rows or "
            f"the check, and run again",
            pipeline=pipeline,
            table=table,
            ref=branch,
        )
        self.rows = rows
        self.failures = dict(failures)
        self.branch = branch
