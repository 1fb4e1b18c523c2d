"""Scans of a lake's tables: the point that is meant, the schema of that point, and the table's files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from frazil.names import as_columns
from frazil.scan import Scan
from frazil.scan.planning import MAIN, Named, ScanRequest, TableState, find_point, schema_at
from frazil.scan.reading import as_filter

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from frazil.lake.access import LakeAccess
    from frazil.scan.engines import ScannedTable


def open_scan(
    home: ScannedTable,
    lake: LakeAccess,
    named: Named,
    *,
    filter: str | BooleanExpression | None = None,
    columns: str | Sequence[str] | None = None,
    case_sensitive: bool = True,
    **options: Any,
) -> Scan:
    """A scan of a table at a point; a table without snapshots has no rows."""
    name, table = home.name, home.load()
    request = ScanRequest(
        filter=as_filter(filter, table=name), case_sensitive=case_sensitive, **_at(table, name, named)
    )
    return Scan(TableState.of(name, table.metadata), lake.source(table), request, _names(columns), home=home, **options)


def _at(table: Table, name: str, named: Named) -> dict[str, int]:
    if named == MAIN and MAIN not in table.metadata.refs:
        return {}
    point = find_point(table.metadata, named, table=name)
    return {"snapshot_id": point.snapshot.snapshot_id, "schema_id": schema_at(table.metadata, point).schema_id}


def open_appends(
    lake: LakeAccess,
    name: str,
    since: Named | None,
    to: Named,
    *,
    filter: str | BooleanExpression | None = None,
    columns: str | Sequence[str] | None = None,
) -> Scan:
    """A scan of what was appended after a point up to another."""
    table = lake.load(name)
    start, end = (
        (None if since is None else find_point(table.metadata, since, table=name)),
        find_point(table.metadata, to, table=name),
    )
    request = ScanRequest(
        filter=as_filter(filter, table=name),
        start_snapshot_id=None if start is None else start.snapshot.snapshot_id,
        end_snapshot_id=end.snapshot.snapshot_id,
        schema_id=schema_at(table.metadata, end).schema_id,
    )
    return Scan(TableState.of(name, table.metadata), lake.source(table), request, _names(columns))


def _names(columns: str | Sequence[str] | None) -> tuple[str, ...] | None:
    return None if columns is None else as_columns(columns)
