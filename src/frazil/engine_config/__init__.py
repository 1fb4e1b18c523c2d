"""The settings that each engine needs to reach the catalog: the texts of `frazil connect`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.engine_config.connection import S3, TOKEN_VARIABLE, Connection, find_connection
    from frazil.engine_config.engines import duckdb, trino
    from frazil.engine_config.known import ENGINES, SIGNED, VENDED

__all__ = [
    "ENGINES",
    "S3",
    "SIGNED",
    "TOKEN_VARIABLE",
    "VENDED",
    "Connection",
    "duckdb",
    "find_connection",
    "trino",
]

__getattr__ = lazy_names(__name__)
