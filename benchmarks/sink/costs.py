"""What a case cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """CPU and wall seconds, and the highest memory; `pandas` is the version that the case went through."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    pandas: str | None = None
