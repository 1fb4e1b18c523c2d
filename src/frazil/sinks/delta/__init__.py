"""Delta tables as targets of the sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.sinks.delta.log import DeltaLog, now_ms
    from frazil.sinks.delta.repair import repair_paths
    from frazil.sinks.delta.rollback import roll_back_delta
    from frazil.sinks.delta.target import DeltaTarget, add_action, create_delta_table, delta_layout, open_log

__all__ = [
    "DeltaLog",
    "DeltaTarget",
    "add_action",
    "create_delta_table",
    "delta_layout",
    "now_ms",
    "open_log",
    "repair_paths",
    "roll_back_delta",
]

__getattr__ = lazy_names(__name__)
