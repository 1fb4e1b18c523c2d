"""Which files a scan reads, and why not the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.scan.planning.compiled import ScanCache, Term
    from frazil.scan.planning.deletes import EQUALITY, PATH_FIELD, POSITIONS, DeleteFile
    from frazil.scan.planning.explain import ROW_GROUPS, EngineReport, Layer, ScanReport
    from frazil.scan.planning.filters import (
        SIGNS,
        FilterReader,
        ParsedFilter,
        bind_filter,
        check_column,
        filter_to_json,
    )
    from frazil.scan.planning.parallel import default_workers, read_ahead
    from frazil.scan.planning.partitions import partition_rows
    from frazil.scan.planning.plan import DATA, DELETES, FileTask, Group, Planner, ScanPlan, ScanRequest, Unit
    from frazil.scan.planning.points import (
        MAIN,
        Named,
        Point,
        ancestors,
        find_point,
        find_ref,
        find_snapshot,
        find_time,
        schema_at,
        show_time,
        time_of,
    )
    from frazil.scan.planning.prune import skip_mask
    from frazil.scan.planning.select import parse_filter, select_fields
    from frazil.scan.planning.source import Files, Source
    from frazil.scan.planning.sure import as_list, sure_mask
    from frazil.scan.planning.table import TableState

__all__ = [
    "DATA",
    "DELETES",
    "EQUALITY",
    "MAIN",
    "PATH_FIELD",
    "POSITIONS",
    "ROW_GROUPS",
    "SIGNS",
    "DeleteFile",
    "EngineReport",
    "FileTask",
    "Files",
    "FilterReader",
    "Group",
    "Layer",
    "Named",
    "ParsedFilter",
    "Planner",
    "Point",
    "ScanCache",
    "ScanPlan",
    "ScanReport",
    "ScanRequest",
    "Source",
    "TableState",
    "Term",
    "Unit",
    "ancestors",
    "as_list",
    "bind_filter",
    "check_column",
    "default_workers",
    "filter_to_json",
    "find_point",
    "find_ref",
    "find_snapshot",
    "find_time",
    "parse_filter",
    "partition_rows",
    "read_ahead",
    "schema_at",
    "select_fields",
    "show_time",
    "skip_mask",
    "sure_mask",
    "time_of",
]

__getattr__ = lazy_names(__name__)
