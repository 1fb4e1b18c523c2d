"""`audit`: the proof that every row was committed exactly once, from the table alone (audit_line.py says how)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from frazil.sinks.audit_line import AuditReport, PartReport, check_line
from frazil.sinks.audit_steps import delta_line, iceberg_line
from frazil.write.commit import MAIN

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

__all__ = ["AuditReport", "PartReport", "audit", "audit_delta"]


def audit(metadata: TableMetadata, ref: str = MAIN) -> AuditReport:
    """Checks the commits of every sink on a ref of an Iceberg table."""
    return check_line(iceberg_line(metadata, ref))


def audit_delta(uri: str, storage_options: Mapping[str, str] | None = None) -> AuditReport:
    """The same for a Delta table, as far back as its log is kept."""
    return check_line(delta_line(uri, storage_options or {}))
