"""The lake in Python: what the commands about history and queries do, as calls.

import frazil

lake = frazil.Lake()                                   # the settings that hold in this folder
orders = lake.table("lakehouse.sales")
orders.log()                                           # snapshots, the newest first
orders.diff("2024-01-18", "main").files                # a time, a branch, a tag or a snapshot's id
orders.scan("country = 'NO'", ["amount"], at="before-backfill").read_all()
orders.scan("country = 'NO'").explain()                # what is skipped, and why
orders.rollback(at="2024-01-18 09:00", with_progress=True)
lake.query("SELECT country, sum(amount) FROM lakehouse.sales GROUP BY ALL", at="2024-01-18").read_all()
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from frazil.errors import HistoryError, NoSuchTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from frazil.client import FrazilCatalog
    from frazil.config import Settings
    from frazil.history.diff import TableDiff
    from frazil.history.log import LogEntry
    from frazil.history.refs import DropPlan, PublishPlan, RefInfo, RefKind, Retention
    from frazil.history.rollback import RollbackPlan
    from frazil.history.rows import RowDiff
    from frazil.scan.compiled import ScanCache
    from frazil.scan.points import Named, Point
    from frazil.scan.scan import Scan
    from frazil.scan.source import Source

MAIN = "main"
QueryEngine = Literal["duckdb", "trino", "spark"]
MOST_CACHES = 64  # tables whose manifests are kept


class Lake:
    """The tables of a catalog: their history, and SQL over them."""

    def __init__(self, settings: Settings | None = None, *, catalog: FrazilCatalog | None = None) -> None:
        self._settings, self._catalog = settings, catalog
        self._caches: dict[str, ScanCache] = {}

    @cached_property
    def settings(self) -> Settings:
        """The settings that were given, or those that hold in this folder."""
        from frazil.config import load_settings

        return self._settings or load_settings()

    @cached_property
    def catalog(self) -> FrazilCatalog:
        """The client of the catalog."""
        from frazil.client import connect

        return self._catalog or connect(self.settings)

    def table(self, name: str) -> LakeTable:
        """A table by its full name, `namespace.table`. Nothing is asked of the catalog yet."""
        return LakeTable(self, name)

    def load(self, name: str) -> Table:
        """PyIceberg's table as it is now; an error names near ones when there is none of this name."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            if "." not in name:
                raise NoSuchTableError(name)
            table: Table = self.catalog.load_table(name)
        except (NoSuchTableError, NoSuchNamespaceError) as exc:
            error = NoSuchTable(name)
            error.hint = self._near(name)
            raise error from exc
        return table

    def source(self, table: Table) -> Source:
        """How the table's files are opened; what was learned from its manifests is kept, for they never change."""
        from frazil.scan.source import Source

        key = str(table.metadata.table_uuid)
        if key not in self._caches and len(self._caches) >= MOST_CACHES:
            self._caches.pop(next(iter(self._caches)))
        made = Source.of(table.io, self._caches.get(key))  # the access is always the newest: keys may have a short life
        self._caches[key] = made.cache
        return made

    def query(self, sql: str, *, at: Named | None = None, engine: QueryEngine = "duckdb", write: bool = False) -> pa.RecordBatchReader:
        """The result of a SELECT over the lake's tables, as an Arrow stream; `at` is when, for tables that say nothing else themselves.

        On the embedded DuckDB a query only reads; with `write`, Trino and Spark may be told to change something.
        """
        if engine != "duckdb":
            from frazil.scan.elsewhere import query_elsewhere

            return query_elsewhere(self, sql, engine, at=at, write=write)
        from frazil.scan.query import run_query

        return run_query(self, sql, at=at)

    def table_names(self) -> list[str]:
        """The full names of all tables."""
        pending, found = list(self.catalog.list_namespaces()), []
        while pending:
            namespace = pending.pop()
            pending += self.catalog.list_namespaces(namespace)
            found += [".".join(identifier) for identifier in self.catalog.list_tables(namespace)]
        return sorted(found)

    def _near(self, name: str) -> str:
        known = self.table_names()
        last = name.rpartition(".")[2]
        near = [one for one in known if one.rpartition(".")[2] == last] or difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        if near:
            return f"did you mean {' or '.join(near)}?"
        return f"there are: {', '.join(known[:10])}{', ...' if len(known) > 10 else ''}" if known else "the catalog has no tables yet"


@dataclass(frozen=True)
class LakeTable:
    """A table and its past. Points are snapshot ids, times, branches or tags."""

    lake: Lake
    name: str

    def load(self) -> Table:
        """PyIceberg's table as it is now."""
        return self.lake.load(self.name)

    def log(self, *, ref: str = MAIN, all: bool = False, limit: int | None = None) -> list[LogEntry]:
        """The snapshots of a ref, the newest first; with `all`, every one that is kept."""
        from frazil.history.log import read_log, read_runs

        table = self.load()
        runs = read_runs(self.lake.catalog, table)
        return read_log(table.metadata, table=self.name, ref=ref, all=all, limit=limit, runs=runs)

    def diff(self, before: Named, after: Named = MAIN) -> TableDiff:
        """What changed between two points: schema, partitioning, files, rows."""
        from frazil.history.diff import diff_points

        table = self.load()
        return diff_points(table, self._point(table, before), self._point(table, after))

    def diff_rows(self, before: Named, after: Named = MAIN, *, key: Sequence[str], limit: int | None = 20) -> RowDiff:
        """The rows that were added, removed and changed between two points, by key; lists the first `limit` of them."""
        from frazil.history.rows import diff_rows

        table = self.load()
        return diff_rows(table, self._point(table, before), self._point(table, after), key=key, limit=limit)

    def scan(
        self,
        filter: str | BooleanExpression | None = None,
        columns: Sequence[str] | None = None,
        *,
        at: Named | None = None,
        snapshot: int | None = None,
        timestamp: str | datetime | None = None,
        branch: str | None = None,
        tag: str | None = None,
        limit: int | None = None,
        ordered: bool = False,
        case_sensitive: bool = True,
        workers: int | None = None,
    ) -> Scan:
        """Rows of the table, as Arrow or whatever library reads them; nothing is read before it is asked for.

        The filter is SQL's text (`country = 'NO' AND amount > 10`) or PyIceberg's expression. Of when: a snapshot, a time, a branch or a
        tag, or any of these as `at`; else the newest state of main. Branches have the table's columns, everything else those of its time.
        `ordered` gives the rows file by file in the order of the plan.
        """
        from frazil.scan.open import open_scan
        from frazil.scan.points import choose

        point = choose(at=at, snapshot=snapshot, timestamp=timestamp, branch=branch, tag=tag, table=self.name)
        return open_scan(
            self.lake,
            self.name,
            point,
            filter=filter,
            columns=columns,
            case_sensitive=case_sensitive,
            limit=limit,
            ordered=ordered,
            workers=workers,
        )

    def count(self, filter: str | BooleanExpression | None = None, *, at: Named | None = None) -> int:
        """How many rows there are, from metadata as far as that tells."""
        return self.scan(filter, at=at).count()

    def appends(
        self, since: Named | None, to: Named = MAIN, *, filter: str | BooleanExpression | None = None, columns: Sequence[str] | None = None
    ) -> Scan:
        """The rows that appends have added after a point (None: from the start), up to another; what became of them later is not asked."""
        from frazil.scan.open import open_appends

        return open_appends(self.lake, self.name, since, to, filter=filter, columns=columns)

    def changes(
        self, since: Named, to: Named = MAIN, *, key: Sequence[str] = (), columns: Sequence[str] | None = None
    ) -> pa.RecordBatchReader:
        """What became of the rows between two points: inserts and deletes, and with a key updates, in the column `_change_type`."""
        from frazil.scan.changes import read_changes

        return read_changes(self.lake, self.name, since, to, key=key, columns=columns)

    def plan_rollback(self, *, to: int | None = None, at: str | datetime | None = None, ref: str = MAIN) -> RollbackPlan:
        """What a rollback would do; nothing is changed."""
        from frazil.history.rollback import plan_rollback
        from frazil.scan.points import find_snapshot, find_time

        table = self.load()
        if (to is None) == (at is None):
            raise HistoryError("a rollback needs a snapshot or a time, and not both", hint="--to SNAPSHOT, or --at TIME")
        if to is not None:
            target = find_snapshot(table.metadata, to, table=self.name)
        else:
            assert at is not None
            target = find_time(table.metadata, at, table=self.name, ref=ref)
        return plan_rollback(self.lake.catalog, table, target, ref=ref)

    def rollback(
        self, *, to: int | None = None, at: str | datetime | None = None, ref: str = MAIN, with_progress: bool | None = None
    ) -> int:
        """The branch has the rows of an older snapshot, as a new snapshot whose id is returned.

        Where sinks or pipelines have written since, `with_progress` must be given: True, and the source sends those rows again; False, and
        they stay out for good.
        """
        from frazil.history.rollback import perform_rollback

        plan = self.plan_rollback(to=to, at=at, ref=ref)
        if with_progress is None and plan.has_progress:
            hint = "with_progress=True: their rows come again; with_progress=False: they stay out for good"
            raise HistoryError(
                f"{self.name}: sinks or pipelines have written since {plan.target}: say what becomes of their progress", hint=hint
            )
        return perform_rollback(self.lake.catalog, plan, with_progress=bool(with_progress))

    def refs(self, kind: RefKind | None = None) -> list[RefInfo]:
        """The branches and tags."""
        from frazil.history.refs import list_refs

        return list_refs(self.load().metadata, kind)

    def create_ref(self, name: str, kind: RefKind, *, at: Named = MAIN, retention: Retention | None = None) -> Point:
        """A new branch or tag at a point, which is returned."""
        from frazil.history.refs import create_ref

        table = self.load()
        point = self._point(table, at)
        create_ref(self.lake.catalog, table, name, kind, point, retention=retention)
        return point

    def drop_ref(self, name: str, kind: RefKind) -> DropPlan:
        """The branch or tag is gone; tells what went with it."""
        from frazil.history.refs import perform_drop, plan_drop

        table = self.load()
        plan = plan_drop(table, name, kind)
        perform_drop(self.lake.catalog, table, plan)
        return plan

    def publish(self, branch: str) -> PublishPlan:
        """Main has moved forward to a branch that has grown out of it, with the progress of the sinks that wrote there."""
        from frazil.history.refs import perform_publish, plan_publish

        table = self.load()
        plan = plan_publish(table, branch)
        perform_publish(self.lake.catalog, table, plan)
        return plan

    def _point(self, table: Table, named: Named) -> Point:
        from frazil.scan.points import find_point

        return find_point(table.metadata, named, table=self.name)
