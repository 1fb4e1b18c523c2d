"""What one server process knows about appends: whose tables rebase them, what it has read, what it counts."""

from __future__ import annotations

import threading
from collections import Counter

from frazil.catalog.appends.files import Known
from frazil.catalog.appends.group import Groups
from frazil.catalog.appends.rebase import is_on
from frazil.catalog.fields import Json
from frazil.metrics import Counts, series

MOST_TABLES = 10_000

Key = tuple[str, ...]  # of a table, as a request's path names it


class Appends:
    """Of one process; nothing of it is needed for a commit to be right."""

    def __init__(self, *, default: bool = False) -> None:
        self.default = default  # for tables without the property
        self.known = Known()
        self.groups = Groups()
        self._tables: dict[Key, bool] = {}
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def is_on(self, metadata: Json) -> bool:
        """Whether appends to a table are rebased."""
        return is_on(metadata, default=self.default)

    def note(self, key: Key, metadata: Json) -> None:
        """Remembers whether a table rebases its appends: the next requests ask before they look."""
        if len(self._tables) >= MOST_TABLES:
            self._tables = {}
        self._tables[key] = self.is_on(metadata)

    def expects(self, key: Key) -> bool:
        """Whether appends to a table are rebased, as far as that is remembered."""
        return self._tables.get(key, self.default)

    def count(self, name: str, number: int = 1) -> None:
        with self._lock:
            self._counts[name] += number

    def gauges(self) -> Counts:
        """What the metrics show of it."""
        with self._lock:
            counts = dict(self._counts)
        return {
            **{
                series("frazil_rebases_total", {"outcome": outcome}): float(counts.get(outcome, 0))
                for outcome in ("rebased", "refused")
            },
            "frazil_commit_groups_total": float(counts.get("groups", 0)),
            "frazil_grouped_commits_total": float(counts.get("grouped", 0)),
        }

    def forget_files(self) -> None:
        """Reads all files again: a location may be in another object store now."""
        self.known = Known()
