"""Rejected rows: list, replay, drop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.quarantine.held import TOP_REASONS, Choice, HeldRow, Holding, edited_rows
    from frazil.quarantine.judging import ReplayResult
    from frazil.quarantine.replay import IcebergQuarantine, Rules
    from frazil.quarantine.replay_delta import DeltaQuarantine

__all__ = [
    "TOP_REASONS",
    "Choice",
    "DeltaQuarantine",
    "HeldRow",
    "Holding",
    "IcebergQuarantine",
    "ReplayResult",
    "Rules",
    "edited_rows",
]

__getattr__ = lazy_names(__name__)
