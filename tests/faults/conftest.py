"""The catalog as its own processes on each database, for tests that break it."""

from __future__ import annotations

from tests.kit.fixtures import database, postgres

__all__ = ["database", "postgres"]  # fixtures
