"""A table of a lake: scans, history, branches and tags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from frazil.errors import FrazilError, HistoryError, ScanError, UpkeepError
from frazil.lake.access import LakeAccess
from frazil.lake.listings import History, Maintenance
from frazil.moved import former_keywords, warn_former
from frazil.names import as_columns
from frazil.notebook import showing_progress

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

    from frazil.history import (
        Bisection,
        BisectStep,
        Blame,
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
    from frazil.lake.result import Result
    from frazil.pipelines.sources import FileSource
    from frazil.quarantine import IcebergQuarantine
    from frazil.scan import Scan
    from frazil.scan.planning import Named, Point
    from frazil.scan.reading import NearestRequest, NearestRows, RowScan
    from frazil.sinks import ArrowSink, BadRows, Options, SinkArguments, WriteResult
    from frazil.sinks.audit import AuditReport
    from frazil.sinks.bytewax import TableSink
    from frazil.sinks.spark import FrameSink
    from frazil.vector import Indexes
    from frazil.write.contract import Extra
    from frazil.write.upsert import Ops

MAIN = "main"
MaintenanceStep = Literal["compact", "deletes", "manifests", "indexes", "expire", "orphans"]


@dataclass(frozen=True, repr=False)
class LakeTable:
    """A table and its past.

    `at`, `since` and `until` take a snapshot id, a timestamp (`datetime`, `date` or ISO text, UTC unless it names a
    zone), a branch or a tag. A text is looked up in this order: snapshot id, branch or tag, timestamp. To name a time
    that is also the name of a branch, pass a `datetime`.
    """

    lake: LakeAccess
    name: str

    def __repr__(self) -> str:
        """The name and the catalog."""
        return f"<LakeTable {self.name} of {self.lake.address}>"

    def _repr_html_(self) -> str | None:
        """The columns, for a notebook; none of a table that cannot be loaded."""
        from frazil.markup import html_table

        try:
            fields = self.schema.fields
        except FrazilError:
            return None
        rows = [(field.name, field.field_type, "yes" if field.required else "", field.doc) for field in fields]
        return html_table(("column", "type", "required", "doc"), rows, title=self.name)

    @property
    def schema(self) -> Schema:
        """The table's current Iceberg schema; `schema.as_arrow()` is Arrow's."""
        return self.load().schema()

    def load(self) -> Table:
        """PyIceberg's table as it is now."""
        return self.lake.load(self.name)

    # --- reads -------------------------------------------------------------------------------------------------------

    @former_keywords(snapshot="at", timestamp="at", branch="at", tag="at")
    def scan(
        self,
        filter: str | BooleanExpression | None = None,
        columns: str | Sequence[str] | None = None,
        *,
        at: Named | None = None,
        limit: int | None = None,
        ordered: bool = False,
        case_sensitive: bool = True,
        workers: int | None = None,
    ) -> Scan:
        """Rows of the table, for any library: `to_arrow()`, `to_polars()`, `to_spark()`, ... Nothing is read before.

        The filter is SQL (`country = 'NO' AND amount > 10`) or a PyIceberg expression. Without `at`, the newest state
        of main is read. A branch has the table's current columns, a snapshot, timestamp or tag those of its time.
        `ordered` gives the rows file by file in the order of the plan; `workers` is the number of threads.
        """
        from frazil.lake.open import open_scan

        return open_scan(
            self,
            self.lake,
            MAIN if at is None else at,
            filter=filter,
            columns=columns,
            case_sensitive=case_sensitive,
            limit=limit,
            ordered=ordered,
            workers=workers,
        )

    def open_nearest(self, scan: RowScan, request: NearestRequest) -> NearestRows:
        """What `scan(...).nearest(...)` gives: by an index of the column, if there is one for the metric."""
        from frazil.vector import embed_texts, open_nearest, pinned_records, texts_of

        scan = scan if request.at is None else self._scan_like(scan, request.at)
        column, vectors = request.column, request.vectors
        if (texts := texts_of(vectors)) is not None:
            from frazil.lake.declared import find_embedder

            embedder_of = self.lake.embedder_of or partial(find_embedder, Path.cwd())
            embed = request.embed or embedder_of(self.name, column)
            embedded = embed_texts(texts, embed, table=self.name, column=column)
            vectors = embedded[0] if isinstance(vectors, str) else embedded

        find = partial(self.indexes.records_for, scan, column)
        records = [] if request.exact else pinned_records(scan, column, find)
        return open_nearest(
            scan,
            column,
            vectors,
            k=request.k,
            metric=request.metric,
            records=records,
            opened=self.lake.vectors,
            io=scan.source.open.io,
        )

    def _scan_like(self, scan: RowScan, at: Named) -> Scan:
        """The same rows and columns at another snapshot."""
        return self.scan(
            scan.request.filter,
            scan.columns,
            at=at,
            limit=scan.limit,
            case_sensitive=scan.request.case_sensitive,
            workers=scan.workers,
        )

    @property
    def indexes(self) -> Indexes:
        """The vector indexes: `records()`, `create(column, metric=...)`, `refresh(name)`, `drop(name)`."""
        from frazil.vector import Indexes

        return Indexes(self.lake.catalog, self.name)

    def count(self, filter: str | BooleanExpression | None = None, *, at: Named | None = None) -> int:
        """The number of rows, from metadata where that is certain."""
        return self.scan(filter, at=at).count()

    @former_keywords(to="until")
    def appends(
        self,
        since: Named | None,
        until: Named = MAIN,
        *,
        filter: str | BooleanExpression | None = None,
        columns: str | Sequence[str] | None = None,
    ) -> Scan:
        """The rows that appends added after `since` (None: from the first snapshot on), up to `until`, also if they
        were changed or deleted later.
        """
        from frazil.lake.open import open_appends

        return open_appends(self.lake, self.name, since, until, filter=filter, columns=columns)

    @former_keywords(to="until")
    def changes(
        self,
        since: Named,
        until: Named = MAIN,
        *,
        key: str | Sequence[str] = (),
        columns: str | Sequence[str] | None = None,
    ) -> Result:
        """The rows that changed after `since`, up to `until`: inserts and deletes, and with a key updates, in the
        column `_change_type`.
        """
        from frazil.lake.changes import read_changes
        from frazil.lake.result import Result

        keys, chosen = as_columns(key, argument="key"), None if columns is None else as_columns(columns)
        return Result(read_changes(self.lake, self.name, since, until, key=keys, columns=chosen))

    # --- writes ------------------------------------------------------------------------------------------------------

    def append(
        self,
        rows: Any,
        *,
        branch: str = MAIN,
        checks: str | Sequence[str] = (),
        bad_rows: BadRows = "stop",
        extra_fields: Extra = "error",
        nested_as_json: bool = False,
    ) -> WriteResult:
        """Appends rows in one commit: Arrow, a DataFrame, or a dictionary, Pydantic model or dataclass, or a list or
        generator of them.

        Called twice, it appends twice; `sink()` writes each row of a stream exactly once. `checks` are SQL conditions
        that rows must keep. A row that breaks the contract raises `RowRefused` and nothing is written; with
        `bad_rows="quarantine"` it goes to the quarantine table in the same commit. `extra_fields` says what becomes of
        fields that the table does not have: `error`, `ignore` or `evolve`. With `nested_as_json`, nested values for
        text columns become JSON text. A branch must exist; a tag cannot be written to.
        """
        from frazil.sinks import append

        options: Options = {
            "checks": checks,
            "bad_rows": bad_rows,
            "extra_fields": extra_fields,
            "nested_as_json": nested_as_json,
        }
        return append(self.lake.catalog, self._writable(branch), rows, branch=branch, options=options)

    def overwrite(
        self,
        rows: Any,
        filter: str | BooleanExpression | None = None,
        *,
        branch: str = MAIN,
        checks: str | Sequence[str] = (),
        bad_rows: BadRows = "stop",
        extra_fields: Extra = "error",
        nested_as_json: bool = False,
    ) -> WriteResult:
        """Replaces the rows that match the filter, or all rows, in one commit. Older snapshots keep the old rows."""
        from frazil.scan.reading import as_filter
        from frazil.sinks import overwrite

        options: Options = {
            "checks": checks,
            "bad_rows": bad_rows,
            "extra_fields": extra_fields,
            "nested_as_json": nested_as_json,
        }
        chosen = as_filter(filter, table=self.name)
        return overwrite(self.lake.catalog, self._writable(branch), rows, filter=chosen, branch=branch, options=options)

    def upsert(
        self,
        rows: Any,
        *,
        key: str | Sequence[str],
        sequence: str | None = None,
        op: str | Ops | None = None,
        branch: str = MAIN,
        checks: str | Sequence[str] = (),
        bad_rows: BadRows = "stop",
        extra_fields: Extra = "error",
        nested_as_json: bool = False,
    ) -> WriteResult:
        """Updates the rows that have the key of a new one and inserts the others, in one commit.

        The column `sequence` says which of two rows is newer: an older one changes nothing. The column `op` says which
        rows are deletes. `docs/upserts.md` has both.
        """
        from frazil.sinks import upsert

        options: Options = {
            "checks": checks,
            "bad_rows": bad_rows,
            "extra_fields": extra_fields,
            "nested_as_json": nested_as_json,
        }
        return upsert(
            self.lake.catalog,
            self._writable(branch),
            rows,
            key=key,
            sequence=sequence,
            op=op,
            branch=branch,
            options=options,
        )

    def delete(self, filter: str | BooleanExpression, *, branch: str = MAIN, dry_run: bool = False) -> WriteResult:
        """Deletes the rows that match the filter, in one commit. Older snapshots keep them until they expire.

        It deletes by default, for `rollback` brings the rows back; with `dry_run=True` it only counts them. A
        comparison with NULL is not true, so such rows stay. `overwrite([])` deletes all rows.
        """
        from frazil.scan.reading import as_filter
        from frazil.sinks import WriteResult, delete

        if filter is None:  # a variable that was never set must not empty the table
            raise ScanError(
                f"{self.name}: a delete needs a filter",
                hint="overwrite([]) deletes all rows",
                table=self.name,
                problem="no-filter",
            )
        chosen, identifier = as_filter(filter, table=self.name), self._writable(branch)
        count = self.scan(chosen, at=branch).count()
        if dry_run or not count:
            return WriteResult(self.name, deleted=count, dry_run=dry_run)
        return delete(self.lake.catalog, identifier, chosen, branch=branch)

    @overload
    def sink(self, *, name: str, host: Literal["python"] = "python", **options: Unpack[SinkArguments]) -> ArrowSink: ...

    @overload
    def sink(
        self, *, name: str | None = None, host: Literal["bytewax"], **options: Unpack[SinkArguments]
    ) -> TableSink: ...

    @overload
    def sink(self, *, name: str, host: Literal["spark"], **options: Unpack[SinkArguments]) -> FrameSink: ...

    def sink(self, **options: Any) -> ArrowSink | TableSink | FrameSink:
        """A sink that writes each row of a stream to the table exactly once: `table.sink(name="orders")`.

        `frazil.sinks.open` has the hosts and options.
        """
        from frazil.sinks import open

        arguments: dict[str, Any] = {"catalog": self.lake.catalog, **options}
        sink: ArrowSink | TableSink | FrameSink = open(self.name, **arguments)
        return sink

    def _identifier(self) -> Identifier:
        """The name as the catalog wants it; an error that names near ones if there is no such table."""
        return self.load().name()

    def _writable(self, branch: str) -> Identifier:
        """The same, for a write to a branch: one that exists, unless the table has no snapshots yet."""
        from frazil.write.commit import check_branch

        table = self.load()
        check_branch(table.metadata, branch, table=self.name)
        return table.name()

    # --- upkeep ------------------------------------------------------------------------------------------------------

    def maintain(self, *steps: MaintenanceStep, dry_run: bool = True, rewrite_all: bool = False) -> Maintenance:
        """Compacts files, rewrites delete files and manifests, refreshes vector indexes, expires snapshots and removes
        orphans.

        By default it only says what each step would do, for expired snapshots and removed files do not come back;
        `dry_run=False` does it. `steps` are some of `compact`, `deletes`, `manifests`, `indexes`, `expire` and
        `orphans`; all without any. The rules are the table's own: `Table(..., upkeep=Upkeep(...))`.
        """
        from frazil.upkeep import STEPS, Keeper

        if unknown := [step for step in steps if step not in STEPS]:
            raise UpkeepError(f"'{unknown[0]}' is not a maintenance step", hint=f"there are: {', '.join(STEPS)}")
        keeper = Keeper(self.lake.catalog, self._identifier(), everything=rewrite_all)
        results, chosen = Maintenance(), [step for step in STEPS if not steps or step in steps]
        with showing_progress(f"maintaining {self.name}", "steps", total=len(chosen)) as bar:
            for done, step in enumerate(chosen, start=1):
                if bar is not None:
                    bar.note = step
                plan = keeper.plan(step)
                results.append(plan if dry_run or plan.detail is None else keeper.perform(plan))
                if bar is not None:
                    bar.done = done
        return results

    def audit(self, *, ref: str = MAIN) -> AuditReport:
        """Checks from the commits that are kept that every row of the table's sinks came in exactly once."""
        from frazil.sinks.audit import audit

        return audit(self.load().metadata, ref)

    @property
    def quarantine(self) -> IcebergQuarantine:
        """The rows that broke the contract: `rows()`, `holding()`, `replay(dry_run=...)`, `drop(choice)`."""
        from frazil.quarantine import IcebergQuarantine

        return IcebergQuarantine(self.lake.catalog, self._identifier())

    # --- history -----------------------------------------------------------------------------------------------------

    def history(
        self,
        *,
        ref: str = MAIN,
        since: Named | None = None,
        until: Named | None = None,
        all: bool = False,
        limit: int | None = None,
    ) -> History:
        """The snapshots of a branch or tag, newest first: those after `since`, up to and including `until`.

        With `all`, every snapshot that is kept, also those that were rolled back or are on other branches.
        """
        from frazil.history import between, read_log, read_runs

        if not isinstance(limit, int | None) or (limit or 0) < 0:
            raise HistoryError(f"limit is {limit!r:.100}: expected a whole number from 0, or None", option="limit")
        table = self.load()
        runs = read_runs(self.lake.catalog, table)
        entries = read_log(table.metadata, table=self.name, ref=ref, all=all, runs=runs)
        return History(between(table.metadata, entries, since, until, table=self.name)[:limit])

    @former_keywords(before="since", after="until")
    def diff(self, since: Named, until: Named = MAIN) -> TableDiff:
        """What changed in the schema, the partitioning, the files and the number of rows."""
        from frazil.history import diff_points

        table = self.load()
        return diff_points(table, self._point(table, since), self._point(table, until))

    @former_keywords(before="since", after="until")
    def diff_rows(
        self, since: Named, until: Named = MAIN, *, key: str | Sequence[str], limit: int | None = 20
    ) -> RowDiff:
        """How many rows were added, removed and changed, by key, and the first `limit` of them."""
        from frazil.history import diff_rows

        table = self.load()
        before, after = self._point(table, since), self._point(table, until)
        return diff_rows(table, before, after, key=as_columns(key, argument="key"), limit=limit)

    def bisect(
        self,
        checks: str | Sequence[str],
        *,
        ref: str = MAIN,
        good: Named | None = None,
        bad: Named | None = None,
        all: bool = False,
        samples: int = 5,
        on_step: Callable[[BisectStep], None] | None = None,
    ) -> Bisection:
        """The first snapshot in which a check fails, by binary search: `bisect("amount < 1e6")`.

        A check is a condition on rows, as in `Table(..., checks=[...])`, or a query that finds wrong rows, as in
        `audit=[...]` of a pipeline: `SELECT ... FROM {table} ...`. The search goes from `good` (the oldest snapshot
        that is kept) to `bad` (the newest of `ref`), by parent. It assumes that the check changes once; with `all`,
        every snapshot is checked, and `flips` of the result are all changes. `on_step` is called after each snapshot.
        """
        from frazil.history import BisectRequest, bisect_table
        from frazil.lake.query import run_query

        texts = (checks,) if isinstance(checks, str) else tuple(checks)
        request = BisectRequest(texts, ref=ref, good=good, bad=bad, all=all, samples=samples)
        table = self.load()

        def query(sql: str, scans: dict[str, RowScan]) -> pa.RecordBatchReader:
            return run_query(self.lake, sql, LakeTable, scans=scans)

        source = self.lake.source(table)
        return bisect_table(self.lake.catalog, table, source, request, run_query=query, on_step=on_step)

    def blame(
        self,
        where: str,
        *,
        at: Named = MAIN,
        columns: str | Sequence[str] | None = None,
        limit: int = 20,
        project: str | Path = ".",
        sources: Mapping[str, FileSource] | None = None,
    ) -> Blame:
        """Where rows came from: `blame("amount >= 1e6")`.

        For each of the first `limit` rows for which the condition is true: its file, the snapshot that brought it, the
        run or sink that made the snapshot, and the landing files, offsets or tables that it was made from. Rows that
        compaction or an upsert only rewrote are followed to where they came in. Landing files below `project` are read
        again to find the row's line; `sources` say how those of a pipeline are spelled, if their names do not.
        """
        from frazil.history import BlameRequest, blame_rows
        from frazil.pipelines.files import LineFinder

        chosen = None if columns is None else as_columns(columns)
        table = self.load()
        request = BlameRequest(where, at=at, columns=chosen, limit=limit)
        lines = LineFinder(Path(project), self.lake.catalog.properties, sources or {})
        return blame_rows(self.lake.catalog, table, self.lake.source(table), request, lines=lines)

    @former_keywords(to="at")
    def plan_rollback(self, at: Named, *, ref: str = MAIN) -> RollbackPlan:
        """What a rollback would do. Changes nothing."""
        from frazil.history import plan_rollback
        from frazil.scan.planning import find_point

        table = self.load()
        target = find_point(table.metadata, at, table=self.name, ref=ref)
        return plan_rollback(self.lake.catalog, table, target, ref=ref)

    @former_keywords(to="at")
    def rollback(self, at: Named, *, ref: str = MAIN, with_progress: bool | None = None) -> int:
        """Brings a branch back to an older state, as a new snapshot; returns its id.

        No file is deleted, and a second rollback undoes the first. `plan_rollback` shows what it would do. If sinks or
        pipelines have written since, `with_progress` is required: with True their sources send those rows again, with
        False the rows stay out.
        """
        from frazil.history import perform_rollback

        plan = self.plan_rollback(at, ref=ref)
        if with_progress is None and plan.has_progress:
            hint = "with_progress=True: their rows come again; with_progress=False: they stay out for good"
            raise HistoryError(
                f"{self.name}: sinks or pipelines have written since {plan.target}: say what becomes of their progress",
                hint=hint,
                table=self.name,
                problem="progress-undecided",
            )
        return perform_rollback(self.lake.catalog, plan, with_progress=bool(with_progress))

    # --- branches and tags -------------------------------------------------------------------------------------------

    def branches(self) -> list[RefInfo]:
        """The branches, main first."""
        return self._refs("branch")

    def tags(self) -> list[RefInfo]:
        """The tags, by name."""
        return self._refs("tag")

    def create_branch(self, name: str, *, at: Named = MAIN, retention: Retention | None = None) -> Point:
        """Creates a branch; returns the snapshot where it begins."""
        return self._create_ref(name, "branch", at, retention)

    def create_tag(self, name: str, *, at: Named = MAIN, retention: Retention | None = None) -> Point:
        """Creates a tag; returns the snapshot that it names."""
        return self._create_ref(name, "tag", at, retention)

    def drop_branch(self, name: str) -> DropPlan:
        """Drops a branch; returns what went with it. Its snapshots are kept until they expire."""
        return self._drop_ref(name, "branch")

    def drop_tag(self, name: str) -> DropPlan:
        """Drops a tag; returns what went with it."""
        return self._drop_ref(name, "tag")

    def publish(self, branch: str) -> PublishPlan:
        """Moves main forward to a branch that began there, with the progress of the sinks that wrote to it."""
        from frazil.history import perform_publish, plan_publish

        table = self.load()
        plan = plan_publish(table, branch)
        perform_publish(self.lake.catalog, table, plan)
        return plan

    def _refs(self, kind: RefKind | None) -> list[RefInfo]:
        from frazil.history import list_refs

        return list_refs(self.load().metadata, kind)

    def _create_ref(self, name: str, kind: RefKind, at: Named, retention: Retention | None) -> Point:
        from frazil.history import create_ref

        table = self.load()
        point = self._point(table, at)
        create_ref(self.lake.catalog, table, name, kind, point, retention=retention)
        return point

    def _drop_ref(self, name: str, kind: RefKind) -> DropPlan:
        from frazil.history import perform_drop, plan_drop

        table = self.load()
        plan = plan_drop(table, name, kind)
        perform_drop(self.lake.catalog, table, plan)
        return plan

    def _point(self, table: Table, named: Named) -> Point:
        from frazil.scan.planning import find_point

        return find_point(table.metadata, named, table=self.name)

    # --- former names ------------------------------------------------------------------------------------------------

    def log(self, *, ref: str = MAIN, all: bool = False, limit: int | None = None) -> list[LogEntry]:
        """Deprecated: use `history()`."""
        warn_former("LakeTable.log()", "history()")
        return self.history(ref=ref, all=all, limit=limit)

    def refs(self, kind: RefKind | None = None) -> list[RefInfo]:
        """Deprecated: use `branches()` and `tags()`."""
        warn_former("LakeTable.refs()", "branches() and tags()")
        return self._refs(kind)

    def create_ref(self, name: str, kind: RefKind, *, at: Named = MAIN, retention: Retention | None = None) -> Point:
        """Deprecated: use `create_branch()` or `create_tag()`."""
        warn_former("LakeTable.create_ref()", f"create_{kind}()")
        return self._create_ref(name, kind, at, retention)

    def drop_ref(self, name: str, kind: RefKind) -> DropPlan:
        """Deprecated: use `drop_branch()` or `drop_tag()`."""
        warn_former("LakeTable.drop_ref()", f"drop_{kind}()")
        return self._drop_ref(name, kind)
