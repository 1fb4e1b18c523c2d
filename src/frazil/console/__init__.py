"""The console: web pages over the catalog, served by `frazil serve` at `/`. Follow a request from `routes.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.console.routes import ROUTES

__all__ = ["ROUTES"]

__getattr__ = lazy_names(__name__)
