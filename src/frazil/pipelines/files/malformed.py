"""Rows of a landing file that cannot be split into columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Malformed:
    """A row that cannot be taken apart into columns."""

    slice: int
    row: int
    reason: str
    text: str


OnMalformed = Callable[[Malformed], None]
