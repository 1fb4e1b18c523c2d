"""Delete files: those that concern no live file go, whatever their kind, and many small ones with positions become one
in a partition.

A position delete names a data file and a row in it, and names of files are never used twice. So a merged delete file
may be younger than those it stands for: it deletes the same rows. Rows of it that name files which are gone are left
out. Deletes by equality are younger than what they delete, and cannot be merged; format 3 has deletion vectors, of
which a data file has one at most.

What concerns nothing when it is planned may concern something later: a rollback brings data files back, and a
compaction may add files that are said to be old. So it is looked at again before the commit.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.typedef import Identifier

from frazil.scan.planning import POSITIONS, DeleteFile
from frazil.upkeep.groups import DeleteKey
from frazil.upkeep.policy import DELETES, Policy
from frazil.upkeep.replacing import FileExchange, Replacement
from frazil.upkeep.rewriting import layout_of
from frazil.upkeep.survey import Survey, delete_fact, key_of
from frazil.write.commit import (
    POSITION_SCHEMA,
    CommitCatalog,
    PositionFile,
    RetryPolicy,
    portions,
    write_position_file,
)
from frazil.write.files import delete_quietly

if TYPE_CHECKING:
    from pyiceberg.table import Table

STEP = DELETES
MERGED_BYTES = 32 << 20  # of delete files on disk that are read together


@dataclass(frozen=True)
class KnownDelete:
    """A delete file of the current snapshot, or a deletion vector; `about` names the live data files that it may
    concern.
    """

    path: str
    bytes: int
    rows: int
    spec_id: int = 0
    partition: tuple[object, ...] = ()
    about: frozenset[str] = frozenset()
    offset: int | None = None  # of a deletion vector
    can_merge: bool = True

    @property
    def key(self) -> DeleteKey:
        return self.path, self.offset


@dataclass(frozen=True)
class DeletePlan:
    """Delete files that concern nothing, and those that would be merged, partition by partition."""

    table: str
    dangling: tuple[KnownDelete, ...] = ()
    merges: tuple[tuple[KnownDelete, ...], ...] = ()

    @property
    def before(self) -> int:
        return len(self.dangling) + sum(len(some) for some in self.merges)

    @property
    def after(self) -> int:
        return len(self.merges)


@dataclass(frozen=True)
class DeleteResult:
    """What became of them."""

    dangling: int = 0
    merged: int = 0
    written: int = 0
    snapshot_id: int | None = None
    overtaken: int = 0


@dataclass(frozen=True, eq=False)
class DeleteSwap:
    """Delete files that go, and the one that takes their place, if any rows are left."""

    removed_deletes: frozenset[DeleteKey]
    about: frozenset[str] = frozenset()  # the data files for which the new one stands
    merged: PositionFile | None = None

    @property
    def watched(self) -> frozenset[str]:
        return frozenset()

    @property
    def removed_files(self) -> frozenset[str]:
        return frozenset()

    def sequence(self, survey: Survey) -> int | None:
        return None

    def added(self, dropped: Mapping[DeleteKey, DataFile]) -> list[DataFile]:
        """The merged file, if there is one, in the partition of those that it stands for."""
        like = dropped[min(self.removed_deletes)]
        return [self.merged.to_data_file(like.partition)] if self.merged is not None else []

    def holds(self, survey: Survey) -> bool:
        """Whether they are all live, and concern no data file that they did not concern before."""
        now = survey.concerned
        return self.removed_deletes <= now.keys() and all(now[key] <= self.about for key in self.removed_deletes)


def choose_deletes(table: str, files: Sequence[KnownDelete], *, target_bytes: int, least: int) -> DeletePlan:
    """What is worth it: everything that dangles, and small files where enough of them meet in a partition.

    >>> files = [KnownDelete("a", 10, 1), *(KnownDelete(f"d{n}", 10, 1, about=frozenset(["f"])) for n in range(5))]
    >>> plan = choose_deletes("t", files, target_bytes=1000, least=5)
    >>> len(plan.dangling), [len(some) for some in plan.merges]
    (1, [5])
    """
    dangling = tuple(file for file in files if not file.about)
    places: dict[tuple[object, ...], list[KnownDelete]] = defaultdict(list)
    for file in files:
        if file.about and file.can_merge and file.bytes < 0.75 * target_bytes:
            # In partitions of floating point, a delete file is about one data file (see `DeletedRows.needs_path`).
            has_floats = any(isinstance(value, float) or value == "NaN" for value in file.partition)
            alone = file.about if has_floats else None
            places[file.spec_id, file.partition, alone].append(file)
    bins = [
        some
        for place in places.values()
        for some in portions(sorted(place, key=lambda delete: delete.path), lambda delete: delete.bytes, MERGED_BYTES)
    ]
    return DeletePlan(table, dangling, tuple(tuple(some) for some in bins if len(some) >= least))


def plan_deletes(table: Table, policy: Policy) -> DeletePlan:
    """What is worth it in the table as it was loaded."""
    seen, name = Survey(table), ".".join(table.name())
    if not seen.has_deletes:
        return DeletePlan(name)
    deletes = [
        KnownDelete(
            file.path,
            delete_fact(file, "bytes"),
            delete_fact(file, "records"),
            file.spec_id,
            file.partition,
            frozenset(seen.concerned[key_of(file)]),
            key_of(file)[1],
            can_merge=_can_merge(file) and not seen.keeps_row_ids,
        )
        for file in seen.delete_files()
    ]
    return choose_deletes(name, deletes, target_bytes=policy.delete_file_bytes, least=policy.min_input_files)


def _can_merge(delete: DeleteFile) -> bool:
    return delete.content == POSITIONS and not delete.is_vector and delete.fact("format").upper() == "PARQUET"


@dataclass
class DeleteRewrite:
    """The work on one table."""

    catalog: CommitCatalog
    identifier: Identifier
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    def run(self, table: Table, plan: DeletePlan) -> DeleteResult:
        """Carries the plan out; delete files that another rewrite was faster with are left out."""
        if not plan.before:
            return DeleteResult()
        swaps = [DeleteSwap(frozenset([file.key])) for file in plan.dangling]
        merged = [(some, _merge(table, some)) for some in plan.merges]
        swaps += [DeleteSwap(frozenset(file.key for file in some), _about(some), file) for some, file in merged]
        self.retry.on_step("files written")
        exchange = FileExchange[DeleteSwap](ManifestContent.DELETES)
        outcome = Replacement(self.catalog, self.identifier, STEP, exchange, self.retry).commit(swaps)
        for swap in outcome.deletable:
            if swap.merged is not None:
                delete_quietly(layout_of(table), swap.merged.path)
        single = [swap for swap in outcome.committed if swap.merged is None]
        joined = [swap for swap in outcome.committed if swap.merged is not None]
        return DeleteResult(
            dangling=sum(len(swap.removed_deletes) for swap in single),
            merged=sum(len(swap.removed_deletes) for swap in joined),
            written=len(joined),
            snapshot_id=outcome.snapshot_id,
            overtaken=sum(len(swap.removed_deletes) for swap in outcome.left_out),
        )


def _merge(table: Table, files: Sequence[KnownDelete]) -> PositionFile | None:
    rows = _read(table, files)
    return _write(table, rows, files[0]) if rows.num_rows else None


def _about(files: Sequence[KnownDelete]) -> frozenset[str]:
    return frozenset().union(*(file.about for file in files))


def _read(table: Table, files: Sequence[KnownDelete]) -> pa.Table:
    """The rows of the delete files that name a live file, each once, in the order that the specification asks for."""
    live = pa.array(sorted(_about(files)), pa.string())
    positions: list[pa.Table] = []
    for file in files:
        with table.io.new_input(file.path).open() as stream:
            rows = pq.read_table(stream, columns=["file_path", "pos"]).cast(
                pa.schema([("file_path", pa.string()), ("pos", pa.int64())])
            )
        positions.append(rows.filter(pc.is_in(rows.column("file_path"), value_set=live)))
    once = pa.concat_tables(positions).group_by(["file_path", "pos"], use_threads=False).aggregate([])
    return once.sort_by([("file_path", "ascending"), ("pos", "ascending")]).cast(POSITION_SCHEMA)


def _write(table: Table, rows: pa.Table, like: KnownDelete) -> PositionFile:
    folder = like.path.rsplit("/", 1)[0]  # where the ones before it lie: in the partition's folder
    return write_position_file(table.io, f"{folder}/{uuid.uuid4()}-deletes.parquet", rows, spec_id=like.spec_id)
