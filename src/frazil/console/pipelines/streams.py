"""What streams of the project say about themselves: `frazil stream` leaves its progress in the project's folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from frazil.config import load_settings
from frazil.errors import ConfigError

MOST_STREAMS, MOST_BYTES = 100, 64 << 10
NUMBERS = ("batches", "rows", "quarantined", "lag", "batch_seconds", "batch_rows", "rows_per_second", "committed_at")


def read_streams(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The progress of each stream by its pipeline and table."""
    try:
        files = sorted((folder / load_settings(folder=folder).stack.folder / "streams").glob("*/progress.json"))
    except (ConfigError, OSError):
        return {}
    return dict(_read(files))


def _read(files: list[Path]) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for file in islice(files, MOST_STREAMS):
        try:
            with file.open("rb") as opened:
                stored = json.loads(opened.read(MOST_BYTES))
            key = (str(stored["pipeline"]), str(stored["table"]))
            numbers = {name: stored.get(name) for name in NUMBERS}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # written by something else, or not yet
        yield key, {name: value if isinstance(value, int | float) else None for name, value in numbers.items()}
