"""Workers of upkeep for tests: on the database and the server of a running catalog."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from frazil.catalog.store import open_database
from frazil.catalog.store import upkeep as store
from frazil.catalog.store.database import Database
from frazil.catalog.upkeep.status import list_upkeep
from frazil.catalog.upkeep.worker import UpkeepWorker
from frazil.client import FrazilCatalog
from frazil.config import UpkeepSettings

# No pauses and no waits: what a worker does at once is what it would do in time.
EAGER: dict[str, Any] = {"share": 1.0, "poll_seconds": 0.05, "table_seconds": 0.0, "quiet_seconds": 0.0}


def connector(properties: Mapping[str, str]) -> Callable[[str], FrazilCatalog]:
    return lambda warehouse: FrazilCatalog("lake", **{**properties, "warehouse": warehouse})


def make_worker(database: Database, properties: Mapping[str, str], **settings: Any) -> UpkeepWorker:
    return UpkeepWorker(database, connector(properties), UpkeepSettings(**{**EAGER, **settings}))


@contextmanager
def own_database(url: str) -> Iterator[Database]:
    """The database as a worker of its own opens it."""
    opened = open_database(url)
    try:
        yield opened
    finally:
        opened.close()


def status_of(database: Database, table: str) -> dict[str, Any]:
    """What `frazil upkeep status` says of a table."""
    return next(entry for entry in list_upkeep(database) if entry["table"] == table)


def owners(database: Database) -> list[tuple[str, str]]:
    """(table, worker) of every lease that is valid."""
    return [(table.label, table.holder) for table in store.list_all(database.read()) if table.holder]


def run_of(database: Database, table: str) -> dict[str, Any] | None:
    """The last run, as the database keeps it."""
    kept = next(entry for entry in store.list_all(database.read()) if entry.label == table)
    return json.loads(kept.run) if kept.run else None
