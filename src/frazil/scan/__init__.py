"""Reads: which files and why not the others, their rows whatever was deleted or renamed since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.scan.scan import Scan

__all__ = [
    "Scan",
]

__getattr__ = lazy_names(__name__)
