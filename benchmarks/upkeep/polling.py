"""What a worker's look for changed tables costs, on a database with many tables of which none has changed."""

from __future__ import annotations

import statistics
import tempfile
import time

from frazil.catalog.store import open_database
from frazil.catalog.store import upkeep as store
from frazil.catalog.store.database import Database, Sql
from frazil.catalog.store.migrations import migrate

ROUNDS = 5


def poll_ms(tables: int) -> float:
    """The median of both queries of a poll, in ms, on SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        database = open_database(f"sqlite:///{folder}/catalog.db")
        try:
            migrate(database)
            database.write(lambda sql: _fill(sql, tables))
            return statistics.median(_poll(database) for _ in range(ROUNDS))
        finally:
            database.close()


def _fill(sql: Sql, tables: int) -> None:
    sql.run("INSERT INTO namespaces (warehouse, namespace, properties) VALUES ('default', 'lake', '{}')")
    for number in range(tables):
        location = f"file:///lake/t{number}/metadata/00001.metadata.json"
        sql.run(
            "INSERT INTO relations (warehouse, namespace, name, kind, uuid, metadata_location, location, places_known) "
            "VALUES ('default', 'lake', ?, 'table', ?, ?, ?, 1)",
            *(f"t{number}", f"uuid-{number}", location, f"file:///lake/t{number}"),
        )
        store.save_score(sql, f"uuid-{number}", location=location, score=0, debt="{}")


def _poll(database: Database) -> float:
    start = time.perf_counter()
    changed = store.list_changed(database.read(), rescore_ms=3_600_000, limit=200)
    due = store.list_due(database.read(), quiet_ms=0, limit=20)
    assert (changed, due) == ([], [])
    return (time.perf_counter() - start) * 1000
