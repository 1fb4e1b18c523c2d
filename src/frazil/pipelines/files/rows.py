"""Rows that carry their position in a column, as a source of tasks: those of landing files, by slice and row."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.pipelines.files.reading import POSITION, unpack_position
from frazil.pipelines.files.slices import Slice
from frazil.sinks.spark import Place, Placed, TaskWork


@dataclass(frozen=True)
class FileRows:
    """The rows of landing files; the paths of the slices are those of the ledger."""

    slices: tuple[Slice, ...]  # by their numbers

    def read(self, batch: pa.RecordBatch, work: TaskWork) -> Placed:
        """The rows of a batch, without their position."""
        return read_positions(batch, self.spell)

    def spell(self, position: int) -> str:
        """Where a row stood, as JSON; from where the file was cut into pieces, rows are counted from there."""
        number, row = unpack_position(position)
        piece = self.slices[number]
        where = {"file": piece.path, **({"from_byte": piece.start} if piece.start else {}), "row": row}
        return json.dumps(where, ensure_ascii=False, separators=(",", ":"))


def read_positions(batch: pa.RecordBatch, spell: Callable[[Any], str]) -> Placed:
    """The rows of a batch whose column `POSITION`, if the pipeline's function has kept it, says where each stood."""
    if (at := batch.schema.get_field_index(POSITION)) < 0:
        return Placed(batch, lambda numbers: [("{}", {})] * len(numbers))
    positions = batch.column(at)

    def places(numbers: list[int]) -> list[Place]:
        values = positions.take(pa.array(numbers, pa.int64())).to_pylist()
        return [("{}" if position is None else spell(position), {}) for position in values]

    return Placed(batch.remove_column(at), places, lambda: _arrival(positions))


def _arrival(positions: pa.Array) -> pa.Array:
    """What tells of two rows which came later: the place in the file, or the offset that a message's place ends with.

    >>> _arrival(pa.array(["uplink/0/17", "uplink/0/18"])).to_pylist()
    [17, 18]
    """
    if pa.types.is_integer(positions.type):
        return positions.cast(pa.int64())
    return pc.struct_field(pc.extract_regex(positions, r"(?P<offset>\d+)$"), "offset").cast(pa.int64())
