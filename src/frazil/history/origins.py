"""Where the rows of a snapshot came from, as far as the table says: landing files, offsets of a source, other tables.

Three records tell, and nothing is guessed from anything else: the snapshot's summary (what a sink's commit consumed,
and which tables a model read), the table of runs (which run made the snapshot) and the ledger (the landing files of a
run). The last two outlive a snapshot that has expired.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from frazil.protocol import LEDGER_SUFFIX, RUNS_SUFFIX, SUMMARY_COMMIT, SUMMARY_REPLAY, SUMMARY_STAGED_BY
from frazil.scan.planning import ancestors
from frazil.scan.reading import scan_rows

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from frazil.client import FrazilCatalog

_TOPIC = re.compile(r"(?P<topic>.+)@[\w-]{8}/(?P<number>\d+)")


@dataclass(frozen=True)
class Run:
    """A run of a pipeline; `files` is the number of landing files that it loaded."""

    pipeline: str
    run_id: str
    started_at: dt.datetime | None = None
    files: int | None = None


@dataclass(frozen=True)
class LandingFile:
    """A landing file that a run loaded; `lines` are those with the values of the row that is asked for, if they could
    be found (of a Parquet file its rows).
    """

    path: str
    size: int
    lines: tuple[int, ...] = ()


@dataclass(frozen=True)
class OffsetRange:
    """Offsets of a source partition: from `start` (None: its beginning) up to and without `end`."""

    source: str
    start: int | None
    end: int

    @property
    def partition(self) -> str:
        """The source partition as people know it.

        >>> OffsetRange("uplink@Xf3k9aQ2/0", 3, 7).partition, OffsetRange("orders", None, 7).partition
        ('uplink/0', 'orders')
        """
        match = _TOPIC.fullmatch(self.source)
        return f"{match['topic']}/{match['number']}" if match else self.source


@dataclass(frozen=True)
class InputTable:
    """A table that rows were made from, at a snapshot of it; `since_id` is the snapshot that the commit before read."""

    table: str
    snapshot_id: int | None
    since_id: int | None = None


@dataclass(frozen=True)
class Origins:
    """What a snapshot's rows were made from."""

    run: Run | None = None
    part: str | None = None
    commit: int | None = None  # the number of the part's commit
    files: tuple[LandingFile, ...] = ()
    offsets: tuple[OffsetRange, ...] = ()
    inputs: tuple[InputTable, ...] = ()
    replayed: int | None = None  # rows that came out of quarantine

    @property
    def is_known(self) -> bool:
        """Whether anything says where the rows came from."""
        return self != Origins()


class OriginReader:
    """Reads the origins of a table's snapshots. The companion tables are read once, when they are needed."""

    def __init__(self, catalog: FrazilCatalog, table: Table) -> None:
        self._catalog, self._table = catalog, table
        self._files: dict[str, tuple[LandingFile, ...]] = {}

    def of(self, snapshot_id: int) -> Origins:
        """The origins of a snapshot, also of one that has expired, if a run made it."""
        metadata = self._table.metadata
        run, snapshot = self.runs.get(snapshot_id), metadata.snapshot_by_id(snapshot_id)
        files = self._files_of(run.run_id) if run else ()
        if snapshot is None:
            return Origins(run=run, files=files)
        replayed = (
            json.loads(_summary(snapshot)[SUMMARY_REPLAY])["rows"] if SUMMARY_REPLAY in _summary(snapshot) else None
        )
        claim = find_claim(metadata, snapshot)
        if claim is None:
            return Origins(run=run, files=files, replayed=replayed)
        return Origins(
            run=run,
            part=claim["part"],
            commit=claim["commit"],
            files=files,
            offsets=tuple(OffsetRange(name, claim["from"].get(name), end) for name, end in claim["to"].items()),
            inputs=tuple(find_inputs(metadata, snapshot, claim)),
            replayed=replayed,
        )

    @cached_property
    def runs(self) -> dict[int, Run]:
        """The runs of pipelines that made snapshots of the table, by snapshot."""
        columns = ("snapshot_id", "pipeline", "run_id", "started_at", "files")
        rows = self._read_companion(RUNS_SUFFIX, columns, "snapshot_id IS NOT NULL")
        return {
            row["snapshot_id"]: Run(row["pipeline"], row["run_id"], row["started_at"], row["files"]) for row in rows
        }

    def _files_of(self, run_id: str) -> tuple[LandingFile, ...]:
        if run_id not in self._files:
            from pyiceberg.expressions import EqualTo

            of_run = EqualTo("run_id", run_id)  # type: ignore[call-arg, arg-type]  # its annotations lack these two
            rows = self._read_companion(LEDGER_SUFFIX, ("path", "size", "run_id"), of_run)
            self._files[run_id] = tuple(sorted((LandingFile(row["path"], row["size"]) for row in rows), key=_path))
        return self._files[run_id]

    def _read_companion(
        self, suffix: str, columns: tuple[str, ...], filter: str | BooleanExpression
    ) -> list[dict[str, Any]]:
        """Some columns of a companion table; NULL where it has no such column, nothing if it is the user's own."""
        from pyiceberg.exceptions import NoSuchTableError

        *namespace, name = self._table.name()
        try:
            table = self._catalog.load_table((*namespace, f"{name}{suffix}"))
        except NoSuchTableError:
            return []
        known = [column for column in columns if column in table.schema().column_names]
        if not {"run_id", columns[0]} <= set(known):
            return []
        rows = scan_rows(table, known, filter=filter).to_arrow().to_pylist()
        return [{column: row.get(column) for column in columns} for row in rows]


def find_claim(metadata: TableMetadata, snapshot: Snapshot) -> Mapping[str, Any] | None:
    """What the sink's commit that made a snapshot consumed; None if no sink made it.

    Rows that a pipeline staged on a branch came with the commit that published them: the first one on top of them.
    """
    if (claim := _claim(snapshot)) is not None:
        return claim
    if SUMMARY_STAGED_BY not in _summary(snapshot):
        return None
    children = [child for child in metadata.snapshots if child.parent_snapshot_id == snapshot.snapshot_id]
    children.sort(key=lambda child: child.sequence_number or child.timestamp_ms)
    return next((claim for child in children if (claim := _claim(child)) is not None), None)


def find_inputs(metadata: TableMetadata, snapshot: Snapshot, claim: Mapping[str, Any]) -> Iterator[InputTable]:
    """The tables that a commit's rows were made from, each with the snapshot that the part's commit before had read."""
    inputs: Mapping[str, int | None] = claim.get("inputs") or {}
    if not inputs:
        return
    before: dict[str, int | None] = {}
    for older in ancestors(metadata, snapshot):
        earlier = (_claim(older) or {}) if older is not snapshot else {}
        if earlier.get("part") == claim["part"] and earlier.get("commit", 0) < claim["commit"]:
            before = earlier.get("inputs") or {}
            break
    for name, snapshot_id in sorted(inputs.items()):
        yield InputTable(name, snapshot_id, before.get(name))


def _claim(snapshot: Snapshot) -> Mapping[str, Any] | None:
    text = _summary(snapshot).get(SUMMARY_COMMIT)
    claim: Mapping[str, Any] | None = json.loads(text) if text else None
    return claim


def _summary(snapshot: Snapshot) -> Mapping[str, str]:
    return snapshot.summary.additional_properties if snapshot.summary else {}


def _path(file: LandingFile) -> str:
    return file.path
