"""Errors of reads: scans, files that cannot be read, SQL."""

from __future__ import annotations

from typing import Unpack

from frazil.errors.base import Facts, FrazilError


class ScanError(FrazilError):
    """A scan cannot be planned: an unknown column, a value of another type, an expired snapshot."""


class ManifestUnreadable(ScanError):
    """A manifest or manifest list exists, but cannot be read."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"cannot read manifest {path}: {reason}",
            hint="read an older snapshot, or restore the file",
            path=path,
            reason=reason,
        )


class DataFileUnreadable(ScanError):
    """A data file or delete file of the table cannot be read."""

    def __init__(self, path: str, reason: str, /, **facts: Unpack[Facts]) -> None:
        facts["hint"] = facts.get("hint") or "restore the file, or read an older snapshot"
        facts["path"], facts["reason"] = path, reason
        super().__init__(f"cannot read {path}: {reason}", **facts)


class DataFileMissing(DataFileUnreadable):
    """A data file or delete file of the table does not exist."""

    def __init__(self, path: str) -> None:
        hint = "the file was deleted while the table still references it: restore it, or read a snapshot without it"
        super().__init__(path, "file not found", hint=hint)


class IndexDamaged(DataFileUnreadable):
    """A file of a vector index exists, but is not what was written."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason, hint="searches compare the rows exactly until the index is built again")


class VectorError(ScanError):
    """A vector search or a vector index is not possible as requested."""


class QueryError(FrazilError):
    """SQL cannot be run, or would write where only reads are allowed."""
