"""Rows against the table's schema and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.write.contract.checks import Check, compile_checks
    from frazil.write.contract.contract import Accepted, Contract, Extra, Rejected, as_table, check_new_names, roots_of
    from frazil.write.contract.conversion import Converted, convert, extra_fields, fits, null_violations
    from frazil.write.contract.dict_fields import nested_columns, new_nested_fields
    from frazil.write.contract.models import as_dicts, columns_as_json, nested_as_json
    from frazil.write.contract.outcomes import FAILS, HOLDS, NOT_TRUE, PASSES, rows_where
    from frazil.write.contract.raw import as_json, parse_row
    from frazil.write.contract.reasons import failed_check, reason_contains, reason_kind
    from frazil.write.contract.sql_limits import is_query, why_unreadable

__all__ = [
    "FAILS",
    "HOLDS",
    "NOT_TRUE",
    "PASSES",
    "Accepted",
    "Check",
    "Contract",
    "Converted",
    "Extra",
    "Rejected",
    "as_dicts",
    "as_json",
    "as_table",
    "check_new_names",
    "columns_as_json",
    "compile_checks",
    "convert",
    "extra_fields",
    "failed_check",
    "fits",
    "is_query",
    "nested_as_json",
    "nested_columns",
    "new_nested_fields",
    "null_violations",
    "parse_row",
    "reason_contains",
    "reason_kind",
    "roots_of",
    "rows_where",
    "why_unreadable",
]

__getattr__ = lazy_names(__name__)
