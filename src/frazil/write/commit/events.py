"""What a commit reports while it is under way: log records of `frazil.write`, and metrics."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from frazil import metrics
from frazil.errors import CommitConflict, CommitUnknown, WriterFenced
from frazil.logs import describe_error

if TYPE_CHECKING:
    from pyiceberg.table.update import TableUpdate

log = logging.getLogger("frazil.write")


def report_retry(table: str, error: Exception, *, attempt: int, wait_seconds: float, seconds: float) -> None:
    """An attempt has failed, and another follows after a wait."""
    reason = _reason(error)
    metrics.current().count("frazil_write_retries_total", table=table, reason=reason)
    cause = describe_error(error)
    facts = {"table": table, "attempt": attempt, "reason": reason, "wait_seconds": round(wait_seconds, 3)}
    log.warning(
        "%s: attempt %d failed after %.1f s (%s); next attempt in %.2f s: %s",
        *(table, attempt, seconds, reason, wait_seconds, cause),
        extra={"fields": {**facts, "seconds": round(seconds, 3), "cause": cause}},
    )


def _reason(error: Exception) -> str:
    if isinstance(error, CommitUnknown):
        return "unknown"
    # CommitFailedError is Delta's, whose library may not be installed
    conflict = isinstance(error, CommitConflict) or type(error).__name__ == "CommitFailedError"
    return "conflict" if conflict else "unavailable"


def report_takeover(table: str, part: str, *, generation: int) -> None:
    """A writer owns a part from now on."""
    metrics.current().count("frazil_write_takeovers_total", table=table)
    facts = {"table": table, "part": part, "generation": generation}
    log.info("%s: took over part '%s', generation %d", table, part, generation, extra={"fields": facts})


def report_fence(table: str, error: WriterFenced) -> None:
    """A newer writer owns the part."""
    metrics.current().count("frazil_write_commits_total", table=table, outcome="fenced")
    log.warning("%s: this writer is fenced: %s", table, describe_error(error), extra={"fields": {"table": table}})


def report_failure(table: str, error: BaseException, *, attempts: int) -> None:
    """No further attempt follows."""
    metrics.current().count("frazil_write_commits_total", table=table, outcome="failed")
    log.info("%s: gave up after %d attempts: %s", table, attempts, describe_error(error))


def report_repeat(table: str, part: str, *, attempts: int) -> None:
    """The progress shows that the rows are in: an earlier attempt, or an earlier process, committed them."""
    metrics.current().count("frazil_write_commits_total", table=table, outcome="repeated")
    facts = {"table": table, "part": part, "attempts": attempts}
    log.info("%s: part '%s': these rows are in already", table, part, extra={"fields": facts})


def report_commit(
    table: str, summary: Mapping[str, str], *, snapshot_id: int | None, attempts: int, seconds: float
) -> None:
    """A commit has happened; `summary` is that of its snapshot."""
    rows, files, size = (int(summary.get(key, 0)) for key in ("added-records", "added-data-files", "added-files-size"))
    report = metrics.current()
    report.count("frazil_write_commits_total", table=table, outcome="committed")
    report.count("frazil_write_rows_total", rows, table=table)
    report.count("frazil_write_files_total", files, table=table)
    report.count("frazil_write_bytes_total", size, table=table)
    report.observe("frazil_write_commit_seconds", seconds, table=table)
    if log.isEnabledFor(logging.INFO):
        facts = {"table": table, "snapshot_id": snapshot_id, "rows": rows, "files": files, "bytes": size}
        log.info(
            "%s: committed snapshot %s: %d rows, %d files, %d bytes, in %.3f s, attempt %d",
            *(table, snapshot_id, rows, files, size, seconds, attempts),
            extra={"fields": {**facts, "attempts": attempts, "seconds": round(seconds, 3)}},
        )


def added_summary(updates: Iterable[TableUpdate]) -> Mapping[str, str]:
    """The summary of the last snapshot that the updates add."""
    summaries = [
        update.snapshot.summary.additional_properties
        for update in updates
        if update.action == "add-snapshot" and update.snapshot.summary
    ]
    return summaries[-1] if summaries else {}
