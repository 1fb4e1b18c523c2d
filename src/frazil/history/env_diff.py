"""What differs between main and an environment, table by table: rows, columns, and who has moved since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.history.diff import Change, compare_schemas, count_rows
from frazil.history.environments import Member, has_moved, own_snapshots
from frazil.scan.planning import Point, schema_at
from frazil.write.commit import head

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.snapshots import Snapshot


@dataclass(frozen=True)
class TableDifference:
    """How a table's branch differs from main. `main_id` is None if only the environment has rows of it.

    Rows that are the same in both do not count, whatever files they are in; a changed row is one that was added and one
    that was removed. Without reading rows, both numbers are None. The totals are those of the snapshots' summaries,
    without delete files.
    """

    table: str
    main_id: int | None
    branch_id: int
    snapshots: tuple[int, ...]
    has_moved: bool
    schema: tuple[Change, ...]
    rows_added: int | None
    rows_removed: int | None
    rows_main: int | None
    rows_branch: int | None

    @property
    def is_empty(self) -> bool:
        return not (self.schema or self.rows_added or self.rows_removed) and self.rows_main == self.rows_branch


def diff_environment(members: Sequence[Member], environment: str, *, read_rows: bool = True) -> list[TableDifference]:
    """The differences of the tables that have a branch of the environment, without companion tables."""
    return [_diff(each, environment, read_rows=read_rows) for each in members if each.of is None]


def _diff(member: Member, environment: str, *, read_rows: bool) -> TableDifference:
    metadata = member.metadata
    main, on_branch = head(metadata), head(metadata, environment)
    assert on_branch is not None
    added, removed = _count_differences(member, main, on_branch) if read_rows else (None, None)
    return TableDifference(
        member.name,
        main.snapshot_id if main else None,
        on_branch.snapshot_id,
        own_snapshots(metadata, environment),
        has_moved(metadata, environment),
        tuple(compare_schemas(_schema(member, main), _schema(member, on_branch))) if main else (),
        added,
        removed,
        count_rows(_point(main)) if main else 0,
        count_rows(_point(on_branch)),
    )


def _point(snapshot: Snapshot) -> Point:
    return Point(snapshot, str(snapshot.snapshot_id), "snapshot")


def _schema(member: Member, snapshot: Snapshot) -> Schema:
    """The schema that a snapshot was written with: the table has one for all branches, and it may have changed in
    between.
    """
    return schema_at(member.metadata, _point(snapshot))


def _count_differences(member: Member, main: Snapshot | None, on_branch: Snapshot) -> tuple[int, int]:
    """How many rows only the branch has, and how many only main; files that both have are not read."""
    from frazil.scan.engines import AFTER, BEFORE, row_pairs
    from frazil.scan.planning import FileTask
    from frazil.scan.reading import differing_files, plan_snapshot, read_tasks

    table, schema = member.table, member.metadata.schema()
    if main is None:
        old, new = list[FileTask](), plan_snapshot(table, on_branch.snapshot_id)
    else:
        old, new = differing_files(table, main.snapshot_id, on_branch.snapshot_id)
    with row_pairs(read_tasks(table, old, schema), read_tasks(table, new, schema)) as con:
        added, removed = (
            con.execute(f"SELECT count(*) FROM (FROM {having} EXCEPT ALL FROM {lacking})").fetchall()[0][0]  # noqa: S608
            for having, lacking in ((AFTER, BEFORE), (BEFORE, AFTER))
        )
    return int(added), int(removed)
