"""The debt of tables, kept in the database for all workers and for `frazil upkeep status`.

Commits do nothing for it. A worker asks for the tables whose pointer is not the one that was scored, loads their
metadata and notes the debt; a table that is not written is scored again once an hour, for snapshots get old by
themselves.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frazil import metrics
from frazil.catalog.store import upkeep as store
from frazil.catalog.store.database import Database
from frazil.catalog.store.upkeep import Kept
from frazil.catalog.upkeep.record import memory_of
from frazil.catalog.upkeep.table_run import describe, is_enabled, wants_orphans
from frazil.config import UpkeepSettings
from frazil.errors import Unavailable, UpkeepError
from frazil.upkeep import Debt, Policy, debt_of

if TYPE_CHECKING:
    from frazil.client import FrazilCatalog

log = logging.getLogger("frazil.upkeep")
RESCORE_MS = 3_600_000
AT_ONCE = 200  # tables that are scored before the next run


@dataclass
class Scores:
    """Scores tables as one worker sees them, through the catalog's REST API."""

    database: Database
    connect: Callable[[str], FrazilCatalog]  # by warehouse
    settings: UpkeepSettings = field(default_factory=UpkeepSettings)
    _shown: set[str] = field(default_factory=set)  # tables whose gauge was set

    def update(self) -> int:
        """Scores what has changed; gives how many tables. `Unavailable` if the catalog or the database is away."""
        changed = store.list_changed(self.database.read(), rescore_ms=RESCORE_MS, limit=AT_ONCE)
        for table in changed:
            self.score(table)
        return len(changed)

    def score(self, table: Kept) -> Debt | None:
        """The debt of a table, which the database now has, too; None for one that is left alone."""
        location, debt = table.metadata_location, None
        facts: dict[str, Any] = {}
        try:
            location, debt, facts = self._debt(table)
        except Unavailable:
            raise
        except Exception as exc:  # one table must not end the worker: status shows what is wrong with it
            facts = {"error": describe(exc)}
            log.warning("%s: no upkeep: %s", table.label, facts["error"])
        score = debt.score if debt is not None else 0.0
        document = json.dumps({**(debt or Debt()).to_json(), "enabled": True, "error": None, **facts})
        self.database.write(
            lambda sql: store.save_score(
                sql, table.uuid, location=location, score=round(score * store.DUE), debt=document
            )
        )
        self._show(table.label, score)
        return debt

    def _debt(self, table: Kept) -> tuple[str, Debt | None, dict[str, Any]]:
        same = store.find(self.database.read(), table.uuid)
        if len(same) > 1:
            # Who may read this table need not know the others' names: they are in the log alone.
            log.warning("tables share one UUID and so their files: %s", ", ".join(other.label for other in same))
            raise UpkeepError(f"{table.label}: {len(same)} tables share one UUID and so their files", table=table.label)
        live = self.connect(table.warehouse).load_table(table.identifier)
        metadata, memory = live.metadata, memory_of(table.run)
        if str(metadata.table_uuid) != table.uuid:
            raise UpkeepError(f"{table.label}: another table has this name by now", table=table.label)
        policy = Policy.of(metadata.properties, table=table.label)
        if not is_enabled(policy, self.settings):
            return live.metadata_location, None, {"enabled": False}
        debt = debt_of(metadata, policy, now_ms=table.now_ms, looked=memory.looked, factor=memory.factor)
        orphans = wants_orphans(policy, self.settings, memory, now_ms=table.now_ms) and metadata.snapshots
        return live.metadata_location, debt.at_least(1.0) if orphans else debt, {}

    def _show(self, label: str, score: float) -> None:
        if score >= 1 or label in self._shown:
            self._shown.add(label)
            metrics.current().gauge("frazil_upkeep_debt", score, table=label)
