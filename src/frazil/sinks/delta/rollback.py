"""A Delta table back to an older version, in a way that writers see; the same choice as for Iceberg, see `rollback`.

Delta's own RESTORE brings the files back and leaves the application transactions alone: the rows that it takes out stay
out, for the progress says that they are in. Where the progress is to go back as well, the same commit carries it, under
a generation that fences every writer. The quarantine table stays as it is: it has progress of its own, so what it holds
is not quarantined again.

RESTORE looks for every file of the old version before it commits, and the commit fails if another one came first. A
vacuum writes no commit that it could conflict with: one that runs at that very moment, with a retention shorter than
the age of the old version, can still remove its files. Delta has nothing to guard against that; keep the retention
longer than the way back may be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from frazil.errors import CommitConflict, CommitUnknown, ProgressMismatch, SinkError
from frazil.protocol import SUMMARY_ROLLBACK_PROGRESS
from frazil.sinks.delta.log import DeltaLog
from frazil.sinks.delta.target import open_log
from frazil.write.commit import PartProgress, Progress

_MISSING = "missing file"  # delta-rs has no error of its own for it


def roll_back_delta(
    uri: str, version: int, *, with_progress: bool, storage_options: Mapping[str, str] | None = None
) -> int:
    """The table has the rows of an older version, as a new one whose number is returned. If progress goes back, every
    writer is fenced.
    """
    log = open_log(uri, storage_options or {})
    now, old = log.load(), _at(log, version)
    if version == now.version():
        raise SinkError(
            f"{uri} is at version {version}: there is nothing to undo",
            snapshot=version,
            table=uri,
            problem="nothing-to-undo",
        )
    current, then = log.progress_of_all(now), _known_progress(log, old)
    after: dict[str, PartProgress] = {}
    if with_progress:
        after = _older_progress(uri, version, current, then)
    else:
        _check_covered(uri, version, current, then or Progress())
    try:
        now.restore(version, commit_properties=_properties(log, after))
    except CommitFailedError as exc:
        raise CommitConflict(
            f"{uri}: another writer committed first: {exc}",
            hint="nothing was changed; try again",
            reason=str(exc),
            table=uri,
        ) from exc
    except (DeltaError, OSError) as exc:
        raise _restore_error(uri, version, str(exc)) from exc
    return now.version()


def _older_progress(uri: str, version: int, current: Progress, then: Progress | None) -> dict[str, PartProgress]:
    """The progress of every part as it was at the version, if that is known."""
    if then is None:
        raise ProgressMismatch(
            f"{uri}: what the progress was at version {version} is no longer known: the log keeps that of the last "
            f"commits alone",
            hint="roll back without the progress, or to a later version",
            snapshot=version,
            table=uri,
            problem="expired",
        )
    # Generations never go back: a writer of the time that is undone must not regain ownership.
    return {
        name: replace(then.part(name), generation=part_progress.generation + 1, writer="")
        for name, part_progress in current.parts.items()
    }


def _restore_error(uri: str, version: int, reason: str) -> SinkError | CommitUnknown:
    """What an error of delta-rs means for the rollback."""
    if _MISSING in reason:  # looked for before the commit is sent
        return SinkError(
            f"{uri}: version {version} cannot be brought back: {reason}",
            hint="a vacuum has removed its files; choose a version that is kept: nothing was changed",
            snapshot=version,
            reason=reason,
            table=uri,
            problem="not-restorable",
        )
    return CommitUnknown(
        f"{uri}: the rollback may or may not have happened: {reason}",
        hint="look at the table's history",
        reason=reason,
        table=uri,
    )


def _at(log: DeltaLog, version: int) -> DeltaTable:
    try:
        return DeltaTable(log.uri, version=version, storage_options=log.storage_options or None)
    except DeltaError as exc:  # it says that a version is not there in several ways
        raise SinkError(
            f"{log.uri} has no version {version}", hint="it may have expired; choose one that is kept", snapshot=version
        ) from exc


def _known_progress(log: DeltaLog, table: DeltaTable) -> Progress | None:
    try:
        return log.progress_of_all(table)
    except ProgressMismatch:
        return None


def _check_covered(uri: str, version: int, now: Progress, then: Progress) -> None:
    for name, part in then.parts.items():
        for source, offset in part.offsets.items():
            if offset > now.part(name).offsets.get(source, -1):
                raise ProgressMismatch(
                    f"{uri}: version {version} has rows up to {offset} of source partition '{source}', which the "
                    f"progress does not cover",
                    hint="let the progress go with them, or the source would bring these rows in again",
                    snapshot=version,
                    source=source,
                    table=uri,
                    expected=now.part(name).offsets.get(source),
                    got=offset,
                )


def _properties(log: DeltaLog, after: Mapping[str, PartProgress]) -> CommitProperties | None:
    properties = [transaction for name, part in after.items() for transaction in log.prepare(name, part)]
    return (
        CommitProperties(
            app_transactions=properties, custom_metadata={SUMMARY_ROLLBACK_PROGRESS: Progress(after).dump()}
        )
        if properties
        else None
    )
