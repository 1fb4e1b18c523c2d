"""Scan plans in the JSON of the REST specification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.scan.rest.pages import PAGE_FILES, Page, Span, make_page
    from frazil.scan.rest.wire import tasks_to_json

__all__ = [
    "PAGE_FILES",
    "Page",
    "Span",
    "make_page",
    "tasks_to_json",
]

__getattr__ = lazy_names(__name__)
