"""Errors of the write path and its sinks: rows that were not committed stay uncommitted."""

from __future__ import annotations

import warnings

from frazil.errors.base import FrazilError


class SinkError(FrazilError):
    """The sink stopped; rows that were not committed stay uncommitted."""


class PartitionSpecError(SinkError):
    """A partition spec names an unknown column, or one whose type its transform does not support."""


class SchemaMismatch(SinkError):
    """A batch lacks a column, has an unknown one, or one of another type."""

    expected: str
    got: str

    def __init__(self, table: str, column: str, *, expected: str, got: str, hint: str | None = None) -> None:
        super().__init__(
            f"{table}: {column}: expected {expected}, got {got}",
            hint=hint,
            table=table,
            column=column,
            expected=expected,
            got=got,
        )

    @property
    def field(self) -> str | None:
        """The former name of `column`, for one release."""
        warnings.warn("the attribute 'field' of SchemaMismatch is 'column' now", DeprecationWarning, stacklevel=2)
        return self.column


class RowRefused(SinkError):
    """A row breaks its type, NOT NULL or a check, and the policy is to stop."""

    def __init__(self, table: str, reason: str, *, position: str, row: str) -> None:
        super().__init__(
            f"{table}: row at {position} rejected: {reason}\n  row: {row}",
            hint="nothing of this batch was committed; fix the source, or set bad_rows='quarantine'",
            table=table,
            reason=reason,
        )
        self.position = position
        self.row = row


class CheckError(SinkError):
    """A check is not a SQL expression that the sink supports, or names an unknown column."""


class WriteFailed(SinkError):
    """A data file or a temporary file could not be written; nothing that it belongs to was committed."""

    def __init__(self, path: str, reason: str, *, lasting: bool = False, hint: str | None = None) -> None:
        super().__init__(f"cannot write {path}: {reason}", hint=hint, path=path, reason=reason)
        self.lasting = lasting  # retrying does not help


class RowsLost(SinkError):
    """The written files have another row count than the input: a bug in Frazil. Nothing was committed."""

    expected: int
    got: int

    def __init__(self, table: str, *, expected: int, got: int) -> None:
        super().__init__(
            f"{table}: internal error: expected {expected:,} rows in the written files, got {got:,}; "
            f"nothing was committed",
            hint="please report it, with the table's schema and partitioning; it is safe to write the rows again",
            table=table,
            expected=expected,
            got=got,
        )


class WriterFenced(SinkError):
    """A newer writer owns this part of the sink: stop this one. Its open rows are not committed.

    Or the table was dropped and recreated under the same name (`made_anew`). A writer that takes over with its first
    commit is `outrun` if another writer committed after it planned.
    """

    def __init__(
        self, table: str, part: str, *, ours: int, current: int, made_anew: bool = False, outrun: bool = False
    ) -> None:
        message = f"{table}: part '{part}' is owned by writer generation {current}; this writer is generation {ours}"
        hint = "stop this writer; the newer one continues from the table's progress"
        if outrun:
            message = f"{table}: another writer of part '{part}' committed first: the progress changed since planning"
            hint = "nothing was committed; run again to continue from the table's progress"
        if made_anew:
            message = f"{table} was dropped and recreated after this writer of part '{part}' was opened"
            hint = "open rows are not committed; open the sink again to continue from the new table's progress"
        super().__init__(message, hint=hint, table=table, part=part)
        self.made_anew = made_anew
        self.outrun = outrun
        self.ours = ours
        self.current = current


class ProgressMismatch(SinkError):
    """The rows do not continue where the table's progress ends."""
