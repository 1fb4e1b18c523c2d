"""Position delete files: those that concern no live file go, and many small ones of a partition become one.

A position delete names a data file and a row in it, and names of files are never used twice. So a merged delete file may be younger than
those it stands for: it deletes the same rows. Rows of it that name files which are gone are left out. Deletes by equality, and deletion
vectors, are left as they are.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestFile
from pyiceberg.typedef import Identifier, Record

from frazil.scan.deletes import POSITIONS
from frazil.scan.plan import DELETES
from frazil.sinks.disk import writing
from frazil.sinks.entries import as_added, write_entries
from frazil.sinks.publish import CommitCatalog, Patience
from frazil.upkeep.entries import drop_files, group_by_spec
from frazil.upkeep.policy import Policy
from frazil.upkeep.replacing import Counts, Replacement
from frazil.upkeep.survey import Survey, delete_fact

if TYPE_CHECKING:
    from pyiceberg.table import Table

STEP = "deletes"
PATH_ID, POS_ID = 2147483546, 2147483545
MERGED_BYTES = 32 << 20  # of delete files on disk that are read together
SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POS_ID)}),
    ]
)


@dataclass(frozen=True)
class PositionFile:
    """A position delete file of the current snapshot; `about` names the live data files that it may concern."""

    path: str
    bytes: int
    rows: int
    spec_id: int = 0
    partition: tuple[object, ...] = ()
    about: frozenset[str] = frozenset()


@dataclass(frozen=True)
class DeletePlan:
    """Delete files that concern nothing, and those that would be merged, partition by partition."""

    table: str
    dangling: tuple[PositionFile, ...] = ()
    merges: tuple[tuple[PositionFile, ...], ...] = ()

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


@dataclass(frozen=True)
class WrittenDeletes:
    """A merged delete file that is written and not committed yet."""

    path: str
    rows: int
    bytes: int
    spec_id: int
    paths: tuple[str, str]  # the first and the last data file that it names
    positions: tuple[int, int]

    def to_data_file(self, partition: Record) -> DataFile:
        """The file as a manifest describes it. Its bounds are whole paths: cut ones would not tell that it is about one file alone."""
        made = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES,
            file_path=self.path,
            file_format=FileFormat.PARQUET,
            partition=partition,
            record_count=self.rows,
            file_size_in_bytes=self.bytes,
            value_counts={PATH_ID: self.rows, POS_ID: self.rows},
            null_value_counts={PATH_ID: 0, POS_ID: 0},
            lower_bounds={PATH_ID: self.paths[0].encode(), POS_ID: _long(self.positions[0])},
            upper_bounds={PATH_ID: self.paths[1].encode(), POS_ID: _long(self.positions[1])},
        )
        made.spec_id = self.spec_id
        return made


@dataclass(frozen=True, eq=False)
class DeleteSwap:
    """Delete files that go, and the one that takes their place, if any rows are left."""

    removed: frozenset[str]
    added: WrittenDeletes | None = None

    @property
    def watched(self) -> frozenset[str]:
        return frozenset()

    def holds(self, survey: Survey) -> bool:
        """Whether they are all live. That data files came or went since changes nothing: a delete names its file."""
        return self.removed <= survey.live_deletes


def choose_deletes(table: str, files: Sequence[PositionFile], *, target_bytes: int, least: int) -> DeletePlan:
    """What is worth it: everything that dangles, and small files where enough of them meet in a partition.

    >>> files = [PositionFile("a", 10, 1), *(PositionFile(f"d{n}", 10, 1, about=frozenset(["f"])) for n in range(5))]
    >>> plan = choose_deletes("t", files, target_bytes=1000, least=5)
    >>> len(plan.dangling), [len(some) for some in plan.merges]
    (1, [5])
    """
    dangling = tuple(one for one in files if not one.about)
    places: dict[tuple[int, tuple[object, ...]], list[PositionFile]] = defaultdict(list)
    for one in files:
        if one.about and one.bytes < 0.75 * target_bytes:
            places[one.spec_id, one.partition].append(one)
    bins = [some for found in places.values() for some in _bins(sorted(found, key=lambda one: one.path))]
    return DeletePlan(table, dangling, tuple(tuple(some) for some in bins if len(some) >= least))


def _bins(files: Sequence[PositionFile]) -> Iterator[list[PositionFile]]:
    some: list[PositionFile] = []
    for file in files:
        if some and sum(one.bytes for one in some) + file.bytes > MERGED_BYTES:
            yield some
            some = []
        some.append(file)
    yield some


def plan_deletes(table: Table, policy: Policy) -> DeletePlan:
    """What is worth it in the table as it was loaded."""
    seen, name = Survey(table), ".".join(table.name())
    if not seen.has_deletes:
        return DeletePlan(name)
    about: dict[str, set[str]] = defaultdict(set)
    for file in seen.files():
        for delete in file.deletes:
            about[delete.path].add(file.path)
    found = [
        PositionFile(
            one.path, delete_fact(one, "bytes"), delete_fact(one, "records"), one.spec_id, one.partition, frozenset(about[one.path])
        )
        for one in seen.delete_files()
        if one.content == POSITIONS and not one.is_vector and one.manifest.columns["format"][one.row].as_py().upper() == "PARQUET"
    ]
    return choose_deletes(name, found, target_bytes=policy.delete_file_bytes, least=policy.min_input_files)


@dataclass
class DeleteRewrite:
    """The work on one table."""

    catalog: CommitCatalog
    identifier: Identifier
    patience: Patience = field(default_factory=Patience)

    def run(self, table: Table, plan: DeletePlan) -> DeleteResult:
        """Carries the plan out; delete files that another rewrite was faster with are left out."""
        if not plan.before:
            return DeleteResult()
        swaps = [DeleteSwap(frozenset([one.path])) for one in plan.dangling]
        merged = [(some, _merge(table, some)) for some in plan.merges]
        swaps += [DeleteSwap(frozenset(one.path for one in some), made) for some, made in merged]
        self.patience.on_step("files written")
        outcome = Replacement(self.catalog, self.identifier, STEP, Exchange(), self.patience).commit(swaps)
        for swap in outcome.deletable:
            if swap.added is not None:
                table.io.delete(swap.added.path)
        single = [swap for swap in outcome.committed if swap.added is None]
        joined = [swap for swap in outcome.committed if swap.added is not None]
        return DeleteResult(
            dangling=sum(len(swap.removed) for swap in single),
            merged=sum(len(swap.removed) for swap in joined),
            written=len(joined),
            snapshot_id=outcome.snapshot_id,
            overtaken=sum(len(swap.removed) for swap in outcome.left_out),
        )


def _merge(table: Table, files: Sequence[PositionFile]) -> WrittenDeletes | None:
    rows = _read(table, files)
    return _write(table, rows, files[0]) if rows.num_rows else None


def _read(table: Table, files: Sequence[PositionFile]) -> pa.Table:
    """The rows of the delete files that name a live file, each once, in the order that the specification asks for."""
    live = pa.array(sorted(frozenset().union(*(file.about for file in files))), pa.string())
    found: list[pa.Table] = []
    for file in files:
        with table.io.new_input(file.path).open() as stream:
            rows = pq.read_table(stream, columns=["file_path", "pos"]).cast(pa.schema([("file_path", pa.string()), ("pos", pa.int64())]))
        found.append(rows.filter(pc.is_in(rows.column("file_path"), value_set=live)))
    once = pa.concat_tables(found).group_by(["file_path", "pos"], use_threads=False).aggregate([])
    return once.sort_by([("file_path", "ascending"), ("pos", "ascending")]).cast(SCHEMA)


def _write(table: Table, rows: pa.Table, like: PositionFile) -> WrittenDeletes:
    folder = like.path.rsplit("/", 1)[0]  # where the ones before it lie: in the partition's folder
    path = f"{folder}/{uuid.uuid4()}-deletes.parquet"
    with writing(path), table.io.new_output(path).create() as stream:
        pq.write_table(rows, stream, compression="zstd", store_schema=False)
        size = stream.tell()
    paths, ends = rows.column("file_path"), pc.min_max(rows.column("pos")).as_py()
    return WrittenDeletes(path, rows.num_rows, size, like.spec_id, (paths[0].as_py(), paths[-1].as_py()), (ends["min"], ends["max"]))


def _long(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


@dataclass
class Exchange:
    """The manifests of the new snapshot. They are written once for all attempts, unless a writer has changed those that are concerned."""

    _written: dict[tuple[int, frozenset[str]], tuple[list[ManifestFile], Counts]] = field(default_factory=dict)

    def __call__(self, survey: Survey, swaps: Sequence[DeleteSwap], snapshot_id: int) -> tuple[list[ManifestFile], Counts]:
        """The head's manifests, with delete files marked as deleted, and one for those that take their place."""
        assert survey.head is not None
        listed = {one.manifest_path: one for one in survey.head.manifests(survey.table.io)}
        touched = frozenset(survey.manifests_with({path for swap in swaps for path in swap.removed}, DELETES))
        if (snapshot_id, touched) not in self._written:
            self._written[snapshot_id, touched] = _rewrite(survey.table, [listed[path] for path in sorted(touched)], swaps, snapshot_id)
        made, counts = self._written[snapshot_id, touched]
        return [*(one for path, one in listed.items() if path not in touched), *made], counts


def _rewrite(
    table: Table, manifests: Sequence[ManifestFile], swaps: Sequence[DeleteSwap], snapshot_id: int
) -> tuple[list[ManifestFile], Counts]:
    removed = {path: swap for swap in swaps for path in swap.removed}
    made, dropped = drop_files(table, manifests, lambda file: file.file_path in removed, snapshot_id=snapshot_id)
    partitions = {id(removed[file.file_path]): file.partition for file in dropped}
    added = [swap.added.to_data_file(partitions[id(swap)]) for swap in swaps if swap.added is not None]
    for spec_id, files in group_by_spec(added).items():
        entries = [as_added(file, snapshot_id) for file in files]
        made.append(write_entries(table, entries, spec_id=spec_id, content=ManifestContent.DELETES, snapshot_id=snapshot_id))
    return made, _count(added, dropped)


def _count(added: Sequence[DataFile], dropped: Sequence[DataFile]) -> Counts:
    return Counts(
        {
            "added-delete-files": len(added),
            "added-position-delete-files": len(added),
            "added-position-deletes": sum(file.record_count for file in added),
            "added-files-size": sum(file.file_size_in_bytes for file in added),
            "removed-delete-files": len(dropped),
            "removed-position-delete-files": len(dropped),
            "removed-position-deletes": sum(file.record_count for file in dropped),
            "removed-files-size": sum(file.file_size_in_bytes for file in dropped),
        }
    )
