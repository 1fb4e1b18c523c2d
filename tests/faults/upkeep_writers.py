"""The programs that meet at one table: a sink that appends, a writer that replaces partitions, and upkeep. Each is
killed and goes on.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import IntegerType, LongType, NestedField

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.sinks.iceberg import IcebergTarget
from frazil.upkeep.policy import STEPS
from frazil.upkeep.steps import Keeper
from frazil.write.commit.progress import Claim, progress_at
from frazil.write.commit.publish import RetryPolicy
from frazil.write.commit.replace import Replace
from frazil.write.files.buffer import Buffer, BufferLimits

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", IntegerType()))
ARROW = pa.schema([("id", pa.int64()), ("part", pa.int32())])
APPENDED, REPLACED = 3, 2  # partitions 0, 1, 2 grow; 100 and 101 are replaced
ROWS, FIRST = 40, 1_000_000
RETRY_TIMEOUT = RetryPolicy(give_up_seconds=240, longest_pause_seconds=0.5)


@dataclass(frozen=True)
class Meeting:
    """Where the table is, and the file whose presence ends all programs."""

    properties: Mapping[str, str]
    name: str
    end: Path

    @property
    def identifier(self) -> tuple[str, ...]:
        return tuple(self.name.split("."))

    def is_over(self) -> bool:
        return self.end.exists()

    def catalog(self) -> FrazilCatalog:
        return FrazilCatalog("lake", **self.properties)


def appended(end: int) -> pa.Table:
    ids = list(range(end - ROWS, end))
    return pa.table([pa.array(ids, pa.int64()), pa.array([item % APPENDED for item in ids], pa.int32())], schema=ARROW)


def replaced(turn: int) -> pa.Table:
    """What the replaced partitions hold after a turn."""
    ids = [FIRST + turn * 100 + number for number in range(20)] if turn else []
    return pa.table(
        [pa.array(ids, pa.int64()), pa.array([100 + item % REPLACED for item in ids], pa.int32())], schema=ARROW
    )


def expected_ids(metadata: TableMetadata, snapshot: Snapshot) -> list[int] | None:
    """The ids that a snapshot must hold, by the progress at that snapshot; None where no kept snapshot tells."""
    progress = progress_at(metadata, snapshot)
    if progress is None:
        return None
    end, turn = (next(iter(progress.part(f"{name}/part-0").offsets.values()), 0) for name in ("append", "replace"))
    return sorted([*range(end), *replaced(turn)["id"].to_pylist()])


def append_rows(meeting: Meeting) -> None:
    """A sink: goes on where the table stands, commits a few times a second."""
    with frazil.sinks.open(meeting.name, name="append", catalog=meeting.catalog()) as sink:
        while not meeting.is_over():
            end = (sink.offset or 0) + ROWS
            sink.write(appended(end), position=end)
            sink.commit()
            time.sleep(0.05)


def replace_rows(meeting: Meeting) -> None:
    """A writer that replaces two partitions at each turn."""
    target = IcebergTarget(meeting.catalog(), meeting.identifier, retry=RETRY_TIMEOUT)
    part, writer = "replace/part-0", str(uuid.uuid4())
    progress = target.take_over(part, writer)
    while not meeting.is_over():
        turn = progress.offsets.get("turn", 0) + 1
        start = {"turn": turn - 1} if "turn" in progress.offsets else {}
        buffer = Buffer(target.layout, limits=BufferLimits(threads=1))
        buffer.add(replaced(turn).cast(target.layout.arrow))
        files = buffer.flush()
        claim = Claim(part, writer, progress.generation, progress.commits + 1, start, {"turn": turn})
        progress = target.publish(files, claim, change=Replace(meeting.identifier, files)).progress
        time.sleep(0.2)


def look_after(meeting: Meeting) -> None:
    """Upkeep, all steps again and again; its orphan step finds none, for every file is younger than an hour."""
    keeper = Keeper(meeting.catalog(), meeting.identifier, retry=RETRY_TIMEOUT)
    chance = random.Random()
    while not meeting.is_over():
        for step in STEPS:
            plan = keeper.plan(step)
            assert step != "orphans" or plan.detail is None
            keeper.perform(plan)
        time.sleep(chance.uniform(0, 0.5))
