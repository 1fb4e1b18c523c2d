"""Upkeep in SQL: the debt of each table, its last run, and the lease of the worker that is at work on it.

The key is the table's UUID, so that a rename does not touch it. A commit writes nothing here: workers look for tables
whose pointer is not the one that was scored. All times are those of the database's clock, which all workers share.
"""

from __future__ import annotations

from dataclasses import dataclass

from frazil.catalog.names import SEPARATOR
from frazil.catalog.store.database import Sql

DUE = 1000  # a score of 1: scores are stored in thousandths


@dataclass(frozen=True, slots=True)
class Kept:
    """A table, and what is known about its upkeep."""

    warehouse: str
    namespace: str  # as a key
    name: str
    uuid: str
    metadata_location: str  # now
    scored_location: str | None  # the one that the score is about
    score: int  # in thousandths
    debt: str | None  # JSON
    next_ms: int
    run: str | None  # JSON
    owner: str | None
    expires_ms: int
    now_ms: int  # when this was read

    @property
    def label(self) -> str:
        return ".".join((*self.namespace.split(SEPARATOR), self.name))

    @property
    def identifier(self) -> tuple[str, ...]:
        return (*self.namespace.split(SEPARATOR), self.name)

    @property
    def holder(self) -> str | None:
        """The worker whose lease has not expired."""
        return self.owner if self.expires_ms > self.now_ms else None


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on a table, until it expires. A later lease of the table has a higher generation."""

    table_uuid: str
    owner: str
    generation: int


_COLUMNS = (
    "r.warehouse, r.namespace, r.name, r.uuid, r.metadata_location, u.metadata_location, COALESCE(u.score, 0), u.debt, "
    "COALESCE(u.next_ms, 0), u.run, u.owner, COALESCE(u.expires_ms, 0), {now}"
)


def _select(sql: Sql, rest: str, *parameters: object) -> list[Kept]:
    columns = _COLUMNS.format(now=sql.now_ms)
    statement = (
        f"SELECT {columns} FROM relations r LEFT JOIN upkeep u ON u.table_uuid = r.uuid "  # noqa: S608  # constants
        "WHERE r.kind = 'table'"
    )
    return [Kept(*row) for row in sql.rows(statement + rest.format(now=sql.now_ms), *parameters)]


def list_all(sql: Sql) -> list[Kept]:
    """Every table of every warehouse, the largest debt first."""
    return _select(sql, " ORDER BY COALESCE(u.score, 0) DESC, r.warehouse, r.namespace, r.name")


def list_of(sql: Sql, warehouse: str) -> list[Kept]:
    """Every table of a warehouse, by name."""
    return _select(sql, " AND r.warehouse = ? ORDER BY r.namespace, r.name", warehouse)


def list_changed(sql: Sql, *, rescore_ms: int, limit: int) -> list[Kept]:
    """Tables whose pointer has moved since they were scored, or whose score is older than that.

    Of tables that share one UUID, and so one score, the pointer of one is always another: they wait for their time.
    """
    shared = (
        "SELECT 1 FROM relations o WHERE o.uuid = r.uuid AND o.kind = 'table' "
        "AND o.metadata_location <> r.metadata_location"
    )
    condition = (
        " AND (u.table_uuid IS NULL OR u.scored_ms <= {now} - ? "
        f"OR (u.metadata_location <> r.metadata_location AND NOT EXISTS ({shared})))"
    )
    return _select(sql, f"{condition} ORDER BY COALESCE(u.scored_ms, 0) LIMIT ?", rescore_ms, limit)


def list_due(sql: Sql, *, quiet_ms: int, limit: int) -> list[Kept]:
    """Tables that a worker may take, the largest debt first. One that is being written waits for twice the debt."""
    condition = (
        " AND u.score >= ? AND u.next_ms <= {now} AND u.expires_ms <= {now} "
        "AND (u.score >= ? OR u.changed_ms <= {now} - ?) ORDER BY u.score DESC, r.uuid LIMIT ?"
    )
    return _select(sql, condition, DUE, 2 * DUE, quiet_ms, limit)


def find(sql: Sql, table_uuid: str) -> list[Kept]:
    """The tables with this UUID: one, unless a table was registered twice."""
    return _select(sql, " AND r.uuid = ? ORDER BY r.warehouse, r.namespace, r.name", table_uuid)


def save_score(sql: Sql, table_uuid: str, *, location: str, score: int, debt: str) -> None:
    """Notes the debt of a table as of a metadata file."""
    statement = (
        "INSERT INTO upkeep (table_uuid, metadata_location, score, debt, scored_ms, changed_ms) "  # noqa: S608
        f"VALUES (?, ?, ?, ?, {sql.now_ms}, {sql.now_ms}) ON CONFLICT (table_uuid) DO UPDATE SET score = "
        "excluded.score, debt = excluded.debt, scored_ms = excluded.scored_ms, changed_ms = CASE "
        "WHEN upkeep.metadata_location = excluded.metadata_location THEN upkeep.changed_ms "
        "ELSE excluded.changed_ms END, metadata_location = excluded.metadata_location"
    )
    sql.run(statement, table_uuid, location, score, debt)


def take(sql: Sql, table_uuid: str, owner: str, *, lease_ms: int) -> Lease | None:
    """The lease, if no other one is valid and the table may be worked on by now."""
    now = sql.now_ms
    statement = (
        f"UPDATE upkeep SET owner = ?, generation = generation + 1, expires_ms = {now} + ? "  # noqa: S608
        f"WHERE table_uuid = ? AND expires_ms <= {now} AND next_ms <= {now}"
    )
    if sql.run(statement, owner, lease_ms, table_uuid) != 1:
        return None
    generation = sql.rows("SELECT generation FROM upkeep WHERE table_uuid = ?", table_uuid)[0][0]
    return Lease(table_uuid, owner, int(generation))


_HELD = "table_uuid = ? AND owner = ? AND generation = ?"


def renew(sql: Sql, lease: Lease, *, lease_ms: int) -> bool:
    """Whether the lease was still the newest of its table; then it is valid for that much longer."""
    statement = f"UPDATE upkeep SET expires_ms = {sql.now_ms} + ? WHERE {_HELD}"  # noqa: S608
    return sql.run(statement, lease_ms, lease.table_uuid, lease.owner, lease.generation) == 1


def release(sql: Sql, lease: Lease, *, run: str | None = None, wait_ms: int = 0) -> bool:
    """Ends the lease and notes the run; the table is taken again after the wait at the earliest. False, and nothing
    noted, if another worker has taken it meanwhile.
    """
    statement = (
        f"UPDATE upkeep SET owner = NULL, expires_ms = 0, next_ms = {sql.now_ms} + ?, run = COALESCE(?, run) "  # noqa: S608
        f"WHERE {_HELD}"
    )
    return sql.run(statement, wait_ms, run, lease.table_uuid, lease.owner, lease.generation) == 1


def forget_dropped(sql: Sql) -> int:
    """Deletes what is known about tables that no longer exist, unless a worker is still at one."""
    statement = (
        f"DELETE FROM upkeep WHERE expires_ms <= {sql.now_ms} AND "  # noqa: S608
        "NOT EXISTS (SELECT 1 FROM relations WHERE relations.uuid = upkeep.table_uuid)"
    )
    return sql.run(statement)
