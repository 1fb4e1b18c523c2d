"""A table of ids and names on a running catalog, for the tests of its history."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

import frazil.sinks
from frazil import Lake
from frazil.client import FrazilCatalog
from frazil.lake import LakeTable
from frazil.sinks import ArrowSink

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()))
ARROW = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])


def rows(*ids: int, name: str = "n") -> pa.Table:
    return pa.table({"id": list(ids), "name": [f"{name}{number}" for number in ids]}, schema=ARROW)


@dataclass
class Past:
    """A table with a past, and what the tests do to it."""

    catalog: FrazilCatalog
    name: str = field(default_factory=lambda: f"lake.t{uuid.uuid4().hex[:8]}")

    def __post_init__(self) -> None:
        self.lake = Lake(catalog=self.catalog)

    def create(self, name: str = "", **options: object) -> Table:
        return self.catalog.create_table(name or self.name, SCHEMA, **options)  # type: ignore[arg-type]

    @property
    def live(self) -> Table:
        return self.catalog.load_table(self.name)

    @property
    def table(self) -> LakeTable:
        return self.lake.table(self.name)

    def append(self, *ids: int, name: str = "n", branch: str = "main") -> int:
        """Appends rows; gives the snapshot."""
        self.live.append(rows(*ids, name=name), branch=branch)
        snapshot = self.live.snapshot_by_name(branch)
        assert snapshot is not None
        return snapshot.snapshot_id

    def sink(self, name: str = "s", *, ref: str = "main") -> ArrowSink:
        return frazil.sinks.open(self.name, name=name, catalog=self.catalog, branch=ref)

    def fill(self, sink: ArrowSink, *ends: int) -> list[int]:
        """Commits the numbers up to each end; gives the snapshots."""
        result = []
        for end in ends:
            sink.write(rows(*range(sink.offset or 0, end)), position=end)
            sink.commit()
            result.append(self.head())
        return result

    def head(self, ref: str = "main") -> int:
        snapshot = self.live.snapshot_by_name(ref)
        assert snapshot is not None
        return snapshot.snapshot_id

    def ids(self, at: object = "main") -> list[int]:
        return sorted(self.table.scan(at=at).to_arrow()["id"].to_pylist())  # type: ignore[arg-type]

    def expire(self, snapshots: Sequence[int]) -> None:
        self.live.maintenance.expire_snapshots().by_ids(list(snapshots)).commit()


def tick() -> None:
    """Lets the clock of snapshots go on."""
    time.sleep(0.003)
