"""A table of a lake: scans, its history, and changes to its branches and tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from frazil.errors import HistoryError
from frazil.lake.access import LakeAccess

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from frazil.history import (
        DropPlan,
        LogEntry,
        PublishPlan,
        RefInfo,
        RefKind,
        Retention,
        RollbackPlan,
        RowDiff,
        TableDiff,
    )
    from frazil.scan import Scan
    from frazil.scan.planning import Named, Point

MAIN = "main"


@dataclass(frozen=True)
class LakeTable:
    """A table and its past. Points are snapshot ids, times, branches or tags."""

    lake: LakeAccess
    name: str

    def load(self) -> Table:
        """PyIceberg's table as it is now."""
        return self.lake.load(self.name)

    def log(self, *, ref: str = MAIN, all: bool = False, limit: int | None = None) -> list[LogEntry]:
        """The snapshots of a ref, the newest first; with `all`, every one that is kept."""
        from frazil.history import read_log, read_runs

        table = self.load()
        runs = read_runs(self.lake.catalog, table)
        return read_log(table.metadata, table=self.name, ref=ref, all=all, limit=limit, runs=runs)

    def diff(self, before: Named, after: Named = MAIN) -> TableDiff:
        """What changed between two points: schema, partitioning, files, rows."""
        from frazil.history import diff_points

        table = self.load()
        return diff_points(table, self._point(table, before), self._point(table, after))

    def diff_rows(self, before: Named, after: Named = MAIN, *, key: Sequence[str], limit: int | None = 20) -> RowDiff:
        """The rows that were added, removed and changed between two points, by key; lists the first `limit` of them."""
        from frazil.history import diff_rows

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

        The filter is SQL's text (`country = 'NO' AND amount > 10`) or PyIceberg's expression. Of when: a snapshot, a
        time, a branch or a tag, or any of these as `at`; else the newest state of main. Branches have the table's
        columns, everything else those of its time. `ordered` gives the rows file by file in the order of the plan.
        """
        from frazil.lake.open import open_scan
        from frazil.scan.planning import choose

        point = choose(at=at, snapshot=snapshot, timestamp=timestamp, branch=branch, tag=tag, table=self.name)
        return open_scan(
            self,
            self.lake,
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
        self,
        since: Named | None,
        to: Named = MAIN,
        *,
        filter: str | BooleanExpression | None = None,
        columns: Sequence[str] | None = None,
    ) -> Scan:
        """The rows that appends have added after a point (None: from the start), up to another; what became of them
        later is not asked.
        """
        from frazil.lake.open import open_appends

        return open_appends(self.lake, self.name, since, to, filter=filter, columns=columns)

    def changes(
        self, since: Named, to: Named = MAIN, *, key: Sequence[str] = (), columns: Sequence[str] | None = None
    ) -> pa.RecordBatchReader:
        """What became of the rows between two points: inserts and deletes, and with a key updates, in the column
        `_change_type`.
        """
        from frazil.lake.changes import read_changes

        return read_changes(self.lake, self.name, since, to, key=key, columns=columns)

    def plan_rollback(
        self, *, to: int | None = None, at: str | datetime | None = None, ref: str = MAIN
    ) -> RollbackPlan:
        """What a rollback would do; nothing is changed."""
        from frazil.history import plan_rollback
        from frazil.scan.planning import find_snapshot, find_time

        table = self.load()
        if (to is None) == (at is None):
            raise HistoryError(
                "a rollback needs a snapshot or a time, and not both", hint="--to SNAPSHOT, or --at TIME"
            )
        if to is not None:
            target = find_snapshot(table.metadata, to, table=self.name)
        else:
            assert at is not None
            target = find_time(table.metadata, at, table=self.name, ref=ref)
        return plan_rollback(self.lake.catalog, table, target, ref=ref)

    def rollback(
        self,
        *,
        to: int | None = None,
        at: str | datetime | None = None,
        ref: str = MAIN,
        with_progress: bool | None = None,
    ) -> int:
        """The branch has the rows of an older snapshot, as a new snapshot whose id is returned.

        Where sinks or pipelines have written since, `with_progress` must be given: True, and the source sends those
        rows again; False, and they stay out for good.
        """
        from frazil.history import perform_rollback

        plan = self.plan_rollback(to=to, at=at, ref=ref)
        if with_progress is None and plan.has_progress:
            hint = "with_progress=True: their rows come again; with_progress=False: they stay out for good"
            raise HistoryError(
                f"{self.name}: sinks or pipelines have written since {plan.target}: say what becomes of their progress",
                hint=hint,
                table=self.name,
            )
        return perform_rollback(self.lake.catalog, plan, with_progress=bool(with_progress))

    def refs(self, kind: RefKind | None = None) -> list[RefInfo]:
        """The branches and tags."""
        from frazil.history import list_refs

        return list_refs(self.load().metadata, kind)

    def create_ref(self, name: str, kind: RefKind, *, at: Named = MAIN, retention: Retention | None = None) -> Point:
        """A new branch or tag at a point, which is returned."""
        from frazil.history import create_ref

        table = self.load()
        point = self._point(table, at)
        create_ref(self.lake.catalog, table, name, kind, point, retention=retention)
        return point

    def drop_ref(self, name: str, kind: RefKind) -> DropPlan:
        """The branch or tag is gone; tells what went with it."""
        from frazil.history import perform_drop, plan_drop

        table = self.load()
        plan = plan_drop(table, name, kind)
        perform_drop(self.lake.catalog, table, plan)
        return plan

    def publish(self, branch: str) -> PublishPlan:
        """Main has moved forward to a branch that has grown out of it, with the progress of the sinks that
        wrote there.
        """
        from frazil.history import perform_publish, plan_publish

        table = self.load()
        plan = plan_publish(table, branch)
        perform_publish(self.lake.catalog, table, plan)
        return plan

    def _point(self, table: Table, named: Named) -> Point:
        from frazil.scan.planning import find_point

        return find_point(table.metadata, named, table=self.name)
