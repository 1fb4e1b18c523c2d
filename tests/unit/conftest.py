"""Fixtures that the unit tests share."""

from __future__ import annotations

from tests.kit.layouts import layout_of, on_small_disk

__all__ = ["layout_of", "on_small_disk"]
