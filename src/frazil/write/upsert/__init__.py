"""Changes by key or by filter: which files they concern, and what becomes of the rows there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.write.upsert.apply import Upsert
    from frazil.write.upsert.changes import Changes, relay_columns
    from frazil.write.upsert.keys import ARRIVAL, count_up
    from frazil.write.upsert.mark_rows import merges_on_read
    from frazil.write.upsert.replace_rows import ReplaceRows
    from frazil.write.upsert.rules import DELETED, FORMATS, ChangeContract, Ops, UpsertRules

__all__ = [
    "ARRIVAL",
    "DELETED",
    "FORMATS",
    "ChangeContract",
    "Changes",
    "Ops",
    "ReplaceRows",
    "Upsert",
    "UpsertRules",
    "count_up",
    "merges_on_read",
    "relay_columns",
]

__getattr__ = lazy_names(__name__)
