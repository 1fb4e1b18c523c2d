"""Arrow sinks: rows wait in a bounded buffer, become well-sized files, and are committed exactly once. The promises: docs/sinks.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from frazil.sinks.python import open, open_delta
    from frazil.sinks.sink import ArrowSink, FlushPolicy, SinkOptions

__all__ = ["ArrowSink", "FlushPolicy", "SinkOptions", "open", "open_delta"]

_HOMES = {"open": "python", "open_delta": "python", "ArrowSink": "sink", "FlushPolicy": "sink", "SinkOptions": "sink"}


def __getattr__(name: str) -> Any:
    # Late, so that one module of the sink can be had without all of them.
    if name not in _HOMES:
        raise AttributeError(f"module 'frazil.sinks' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"frazil.sinks.{_HOMES[name]}"), name)
