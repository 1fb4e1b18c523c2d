"""The rows of a Spark frame as a source of tasks: with columns that say where each row came from, or without."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import ProgressMismatch
from frazil.sinks.spark.task import Counts, Place, Placed, TaskWork
from frazil.write.commit import exact_position


@dataclass(frozen=True)
class OffsetColumns:
    """The columns of a frame that say where each row came from: the source partition, and the row's offset in it.

    Several columns of the former are joined with `/`: ("topic", "partition") gives `uplink/0`. They are dropped unless
    they are the table's, too (`keep`).
    """

    source: str | Sequence[str]
    offset: str
    keep: bool = False

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,) if isinstance(self.source, str) else tuple(self.source)

    @property
    def dropped(self) -> tuple[str, ...]:
        return () if self.keep else (*self.sources, self.offset)


KAFKA = OffsetColumns(("topic", "partition"), "offset")  # as Spark's Kafka source names them


@dataclass(frozen=True)
class FrameRows:
    """The rows of a frame; those before the `reached` offsets are in the table, and left out. `end` is where the source
    stands after a frame without offset columns, if the caller knows.
    """

    offsets: OffsetColumns | None = None
    reached: Mapping[str, int] = field(default_factory=dict)
    end: Mapping[str, int] = field(default_factory=dict)

    def read(self, batch: pa.RecordBatch, work: TaskWork) -> Placed:
        """The rows that are not in the table, without the columns that say where they came from."""
        if self.offsets is None:
            work.reach({}, self.end)
            before = work.taken
            return Placed(batch, lambda numbers: [self._place(work.task, before + number) for number in numbers])
        offsets = _Offsets.of(batch, self.offsets, table=work.plan.layout.name)
        kept = offsets.not_before(self.reached)
        if kept is not None:
            work.counts += Counts(repeated=batch.num_rows - (pc.sum(kept).as_py() or 0))
            batch, offsets = batch.filter(kept), offsets.filter(kept)
        work.reach(*offsets.ranges())
        dropped = list(self.offsets.dropped)
        return Placed(batch.drop_columns(dropped) if dropped else batch, offsets.places)

    def _place(self, task: int, row: int) -> Place:
        where = {"task": task, "row": row, **({"end": dict(self.end)} if self.end else {})}
        return json.dumps(where, separators=(",", ":")), self.end


@dataclass(frozen=True)
class _Offsets:
    """The source partition, as a number into `names`, and the offset of each row."""

    names: list[str]
    sources: pa.Array
    offsets: pa.Array

    @classmethod
    def of(cls, batch: pa.RecordBatch, columns: OffsetColumns, *, table: str) -> _Offsets:
        for name in (*columns.sources, columns.offset):
            if batch.column(name).null_count:
                raise ProgressMismatch(
                    f"{table}: column '{name}' is NULL in a row, so where the row came from is not known",
                    table=table,
                    column=name,
                )
        texts = [pc.cast(batch.column(name), pa.string()) for name in columns.sources]
        joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, "/")
        encoded = joined.dictionary_encode()
        return cls(encoded.dictionary.to_pylist(), encoded.indices, pc.cast(batch.column(columns.offset), pa.int64()))

    def not_before(self, reached: Mapping[str, int]) -> pa.Array | None:
        """True for the rows that the table does not have; None if it has none of them."""
        if not any(name in reached for name in self.names):
            return None
        floors = pa.array([reached.get(name) for name in self.names], pa.int64()).take(self.sources)
        kept = pc.fill_null(pc.greater_equal(self.offsets, floors), True)
        return None if pc.all(kept).as_py() else kept

    def filter(self, kept: pa.Array) -> _Offsets:
        return _Offsets(self.names, self.sources.filter(kept), self.offsets.filter(kept))

    def ranges(self) -> tuple[dict[str, int], dict[str, int]]:
        """The lowest offset of each source partition, and the one after the highest."""
        grouped = pa.table({"source": self.sources, "offset": self.offsets}).group_by("source")
        ranges = grouped.aggregate([("offset", "min"), ("offset", "max")]).to_pylist()
        first = {self.names[row["source"]]: row["offset_min"] for row in ranges}
        return first, {self.names[row["source"]]: row["offset_max"] + 1 for row in ranges}

    def places(self, numbers: Sequence[int]) -> list[Place]:
        """Where these rows stood."""
        pairs = [(self.names[self.sources[number].as_py()], self.offsets[number].as_py()) for number in numbers]
        return [(exact_position(source, offset), {source: offset + 1}) for source, offset in pairs]
