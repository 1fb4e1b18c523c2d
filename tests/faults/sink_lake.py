"""The tables that the sink's fault campaigns write to: read whole, expired, rolled back, disturbed, audited."""

from __future__ import annotations

import contextlib
import json
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from deltalake import DeltaTable

from frazil import Lake as FrazilLake
from frazil.client import FrazilCatalog
from frazil.errors import CommitConflict, CommitUnknown
from frazil.history.rollback import perform_rollback
from frazil.protocol import PROPERTY_REBASE_APPENDS
from frazil.sinks.audit import audit, audit_delta
from frazil.sinks.delta.rollback import roll_back_delta
from frazil.sinks.delta.target import create_delta_table, open_log
from frazil.write.commit.progress import Progress, progress_at, read_progress
from frazil.write.files.partitioning import partition_spec
from tests.faults.sink_writer import SCHEMA, Job, catalog_of

LAST_FEW = 8
# Appends are rebased where they may be, those of sinks included: no fault may bring a row in twice.
REBASES = {PROPERTY_REBASE_APPENDS: "true"}


@dataclass(frozen=True)
class Undone:
    """What a rollback has led to: the ids in the table now, and, if the progress went back, where it stands by source
    partition.
    """

    ids: set[int]
    position: Mapping[str, int] | None


class WrittenLake(ABC):
    """A table and its quarantine, that writers are let loose on."""

    job: Job

    def ids(self) -> tuple[list[int], list[int]]:
        """What is in the table and in the quarantine."""
        return sorted(self.table_ids()), sorted(json.loads(raw)["id"] for raw in self._column("raw", quarantined=True))

    def table_ids(self) -> list[int]:
        return self._column("id")

    @abstractmethod
    def _column(self, name: str, *, quarantined: bool = False) -> list[int]: ...

    @abstractmethod
    def expire(self) -> None:
        """All history goes: markers in snapshots or in old log entries go with it."""

    @abstractmethod
    def disturb(self) -> None:
        """A stranger commits to the table: nothing, but it moves."""

    @abstractmethod
    def roll_back(self, chance: random.Random, *, with_progress: bool) -> Undone | None:
        """One of the last few states comes back; None if there was none to choose."""

    @abstractmethod
    def problems(self) -> tuple[str, ...]:
        """What the audit has to say."""


@dataclass
class IcebergLake(WrittenLake):
    job: Job

    def __post_init__(self) -> None:
        self.catalog: FrazilCatalog = catalog_of(self.job)
        self.name = tuple(self.job.table.split("."))
        self.quarantine = (*self.name[:-1], f"{self.name[-1]}__quarantine")

    def create(self, partition_by: list[str]) -> None:
        self.catalog.create_namespace_if_not_exists(self.name[:-1])
        spec = partition_spec(SCHEMA, partition_by)
        self.catalog.create_table(self.name, SCHEMA, partition_spec=spec, properties=REBASES)

    def _column(self, name: str, *, quarantined: bool = False) -> list[int]:
        table = self.quarantine if quarantined else self.name
        if quarantined and not self.catalog.table_exists(table):
            return []
        rows: list[int] = self.catalog.load_table(table).scan(selected_fields=(name,)).to_arrow()[name].to_pylist()
        return rows

    def expire(self) -> None:
        for name in (self.name, self.quarantine):
            if not self.catalog.table_exists(name):
                continue
            table = self.catalog.load_table(name)
            named = {ref.snapshot_id for ref in table.metadata.refs.values()}  # main, and branches that kills have left
            old = [
                snapshot.snapshot_id for snapshot in table.snapshots() if named and snapshot.snapshot_id not in named
            ]
            if old:
                table.maintenance.expire_snapshots().by_ids(old).commit()

    def disturb(self) -> None:
        table = self.catalog.load_table(self.name)
        with contextlib.suppress(CommitConflict, CommitUnknown):
            table.append(table.schema().as_arrow().empty_table())

    def roll_back(self, chance: random.Random, *, with_progress: bool) -> Undone | None:
        table = self.catalog.load_table(self.name)
        now, current = read_progress(table.metadata), table.current_snapshot()
        kept = sorted(table.snapshots(), key=lambda item: item.sequence_number or 0)
        known = [
            (snapshot, progress_at(table.metadata, snapshot))
            for snapshot in kept[-LAST_FEW:]
            if current and snapshot.snapshot_id != current.snapshot_id
        ]
        choices = [
            (item, then) for item, then in known if then is not None and (with_progress or not _is_ahead(then, now))
        ]
        if not choices:
            return None
        old, then = chance.choice(choices)
        plan = FrazilLake(catalog=self.catalog).table(self.job.table).plan_rollback(old.snapshot_id)
        if with_progress and not plan.progress_known:  # the quarantine's has expired
            return None
        perform_rollback(self.catalog, plan, with_progress=with_progress)
        return Undone(set(self.table_ids()), _offsets(then) if with_progress else None)

    def problems(self) -> tuple[str, ...]:
        return audit(self.catalog.load_table(self.name).metadata).problems


@dataclass
class DeltaLake(WrittenLake):
    job: Job

    @property
    def _options(self) -> dict[str, str] | None:
        return dict(self.job.connection) or None

    def _table(self, *, quarantined: bool = False) -> DeltaTable:
        return DeltaTable(self.job.place + ("__quarantine" if quarantined else ""), storage_options=self._options)

    def create(self, partition_by: list[str]) -> None:
        create_delta_table(self.job.place, SCHEMA, partition_by=partition_by, storage_options=self._options)

    def _column(self, name: str, *, quarantined: bool = False) -> list[int]:
        if quarantined and not DeltaTable.is_deltatable(f"{self.job.place}__quarantine", storage_options=self._options):
            return []
        pyarrow_table: pa.Table = self._table(quarantined=quarantined).to_pyarrow_table(columns=[name])
        values: list[int] = pyarrow_table[name].to_pylist()
        return values

    def expire(self) -> None:
        self._keep_log("0 seconds")
        table = self._table()
        table.create_checkpoint()
        table.cleanup_metadata()
        self._keep_log("30 days")  # Delta's own choice; else every checkpoint would take the log away under a reader

    def _keep_log(self, time: str) -> None:
        self._table().alter.set_table_properties(
            {"delta.logRetentionDuration": f"interval {time}"}, raise_if_not_exists=False
        )

    def disturb(self) -> None:
        with contextlib.suppress(Exception):  # a writer was faster; delta-rs has several words for it
            table = self._table()
            table.alter.set_table_properties({"frazil.stranger": str(table.version())}, raise_if_not_exists=False)

    def roll_back(self, chance: random.Random, *, with_progress: bool) -> Undone | None:
        log = open_log(self.job.place, self.job.connection)
        table = log.load()
        now, choices = log.progress_of_all(table), []
        for version in range(max(table.version() - LAST_FEW, 1), table.version()):
            with contextlib.suppress(Exception):  # expired, or its progress is
                then = log.progress_of_all(DeltaTable(self.job.place, version=version, storage_options=self._options))
                choices += [(version, then)] if with_progress or not _is_ahead(then, now) else []
        if not choices:
            return None
        version, then = chance.choice(choices)
        roll_back_delta(self.job.place, version, with_progress=with_progress, storage_options=self._options)
        return Undone(set(self.table_ids()), _offsets(then) if with_progress else None)

    def problems(self) -> tuple[str, ...]:
        return audit_delta(self.job.place, self.job.connection).problems


def make_lake(job: Job, partition_by: list[str]) -> WrittenLake:
    """The table of a job, made now."""
    iceberg_lake = IcebergLake(job) if job.kind == "iceberg" else DeltaLake(job)
    iceberg_lake.create(partition_by)
    return iceberg_lake


def with_place(job: Job, place: str) -> Job:
    """The job with another way to the catalog or the store, such as through a proxy."""
    if job.kind == "iceberg":
        return replace(job, place=place)
    return replace(job, connection={**job.connection, "AWS_ENDPOINT_URL": place})


def _is_ahead(then: Progress, now: Progress) -> bool:
    """Whether a state has rows that the progress of today does not cover: they would come again."""
    reached = _offsets(now)
    return any(offset > reached.get(source, -1) for source, offset in _offsets(then).items())


def _offsets(progress: Progress) -> dict[str, int]:
    return {source: offset for part in progress.parts.values() for source, offset in part.offsets.items()}
