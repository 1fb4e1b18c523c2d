"""Errors of a table's history and maintenance."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.errors.base import FrazilError


class HistoryError(FrazilError):
    """A snapshot, timestamp, branch or tag does not exist, or cannot be changed as requested."""


class EnvironmentMoved(HistoryError):
    """Tables of an environment cannot be published; `tables` says why, for each. Nothing was changed."""

    def __init__(self, environment: str, tables: Mapping[str, str]) -> None:
        lines = "".join(f"\n  {name}: {reason}" for name, reason in tables.items())
        super().__init__(
            f"environment '{environment}' cannot be published; nothing was changed{lines}",
            hint=f"where main has moved, begin again from there: frazil env drop {environment}, then frazil run --env "
            f"{environment}; else a run in the environment brings its tables up to date",
            ref=environment,
            problem="moved",
        )
        self.environment, self.tables = environment, dict(tables)


class UpkeepError(FrazilError):
    """Maintenance of a table is not possible as requested."""


class RowsMismatch(UpkeepError):
    """A rewrite would have changed the rows; the new files are deleted and the table is unchanged."""

    def __init__(self, table: str, expected: str, got: str, *, first_file: str) -> None:
        super().__init__(
            f"{table}: rewriting {first_file} and others: expected {expected}, got {got}; nothing was committed",
            hint="compare the file's row count with its manifest entry; the writer may have recorded it wrongly",
            table=table,
            expected=expected,
            got=got,
        )
        self.first_file = first_file


class ReferencesUnknown(FrazilError):
    """The files that a table references are unknown, so no file is deleted that it might reference."""

    def __init__(self, table: str, path: str, reason: str) -> None:
        super().__init__(
            f"no file was deleted: {table} cannot be read, so the files it references are unknown ({path}: {reason})",
            hint=f"restore the file, go back to an older version (frazil table recover {table}), or drop the table",
            table=table,
            path=path,
            reason=reason,
        )
