"""Upkeep in SQL: the debt of each table, its last run, what someone has asked for, and the lease of the worker that is
at work on it.

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
    request: str | None = None  # JSON: what someone asked for, and no worker has done yet
    taken_ms: int = 0  # when the last lease began

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
    "COALESCE(u.next_ms, 0), u.run, u.owner, COALESCE(u.expires_ms, 0), {now}, u.request, COALESCE(u.taken_ms, 0)"
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
    """Tables that a worker may take: those that someone asked for, then the largest debt first. One that is being
    written waits for twice the debt.
    """
    condition = (
        " AND u.expires_ms <= {now} AND (u.request IS NOT NULL OR (u.score >= ? AND u.next_ms <= {now} "
        "AND (u.score >= ? OR u.changed_ms <= {now} - ?))) "
        "ORDER BY CASE WHEN u.request IS NULL THEN 1 ELSE 0 END, u.score DESC, r.uuid LIMIT ?"
    )
    return _select(sql, condition, DUE, 2 * DUE, quiet_ms, limit)


def list_requested(sql: Sql) -> list[Kept]:
    """Tables that someone asked for, also those that a worker is at."""
    return _select(sql, " AND u.request IS NOT NULL ORDER BY r.uuid")


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
    """The lease, if no other one is valid and the table may be worked on by now, or someone asked for it."""
    now = sql.now_ms
    statement = (
        f"UPDATE upkeep SET owner = ?, generation = generation + 1, expires_ms = {now} + ?, taken_ms = {now} "  # noqa: S608
        f"WHERE table_uuid = ? AND expires_ms <= {now} AND (next_ms <= {now} OR request IS NOT NULL)"
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


def release(sql: Sql, lease: Lease, *, run: str | None = None, wait_ms: int = 0, request: str | None = None) -> bool:
    """Ends the lease and notes the run; the table is taken again after the wait at the earliest. The request that it
    was made for is done. False, and nothing noted, if another worker has taken the table meanwhile.
    """
    statement = (
        f"UPDATE upkeep SET owner = NULL, expires_ms = 0, next_ms = {sql.now_ms} + ?, run = COALESCE(?, run), "  # noqa: S608
        f"request = CASE WHEN request = ? THEN NULL ELSE request END WHERE {_HELD}"
    )
    return sql.run(statement, wait_ms, run, request, lease.table_uuid, lease.owner, lease.generation) == 1


def save_request(sql: Sql, table_uuid: str, request: str) -> None:
    """Has the next worker that is free work on a table, in place of what was asked for before."""
    statement = (
        "INSERT INTO upkeep (table_uuid, metadata_location, score, debt, scored_ms, changed_ms, request) "  # noqa: S608
        f"VALUES (?, '', 0, '{{}}', 0, {sql.now_ms}, ?) "
        "ON CONFLICT (table_uuid) DO UPDATE SET request = excluded.request"
    )
    sql.run(statement, table_uuid, request)


def note_worker(sql: Sql, owner: str, *, for_ms: int) -> None:
    """Notes that a worker looks for tables, at least until that time; forgets those that have ended without a word."""
    sql.run(f"DELETE FROM upkeep_workers WHERE until_ms <= {sql.now_ms}")  # noqa: S608
    statement = (
        f"INSERT INTO upkeep_workers (owner, until_ms) VALUES (?, {sql.now_ms} + ?) "  # noqa: S608
        "ON CONFLICT (owner) DO UPDATE SET until_ms = excluded.until_ms"
    )
    sql.run(statement, owner, for_ms)


def forget_worker(sql: Sql, owner: str) -> None:
    """Notes that a worker has ended."""
    sql.run("DELETE FROM upkeep_workers WHERE owner = ?", owner)


def count_workers(sql: Sql) -> int:
    """How many workers look for tables or are at one. One that is at a table for long notes nothing but its lease."""
    statement = (
        f"SELECT owner FROM upkeep_workers WHERE until_ms > {sql.now_ms} UNION "  # noqa: S608
        f"SELECT owner FROM upkeep WHERE owner IS NOT NULL AND expires_ms > {sql.now_ms}"
    )
    return len(sql.rows(statement))


def forget_dropped(sql: Sql) -> int:
    """Deletes what is known about tables that no longer exist, unless a worker is still at one."""
    statement = (
        f"DELETE FROM upkeep WHERE expires_ms <= {sql.now_ms} AND "  # noqa: S608
        "NOT EXISTS (SELECT 1 FROM relations WHERE relations.uuid = upkeep.table_uuid)"
    )
    return sql.run(statement)
