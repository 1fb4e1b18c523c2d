"""What one task of a stream's batch does: messages are decoded, held against the contract and written to files, in one
pass in Arrow.

Where the pipeline's function changes the frame, Spark stands in between: one task decodes (and sets bad messages
aside), another writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.pipelines import LoadPlan, LoadReport, LoadWork, Placed, Range, join_ranges
from frazil.pipelines.files import POSITION
from frazil.pipelines.stream.decode import PLACE, Decoded, Decoder, message_text
from frazil.write.contract import Rejected, as_json


@dataclass(frozen=True)
class StreamPlan(LoadPlan):
    """Everything that a task must know. Without a decoder, rows come in the table's columns, with their position."""

    decoder: Decoder | None = None

    def begin(self, task: int) -> StreamWork:
        """The work of one task."""
        return StreamWork(self, task)

    def decode(
        self, batches: Iterable[pa.RecordBatch], *, task: int, on_end: Callable[[LoadReport], None]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the messages, each with its position. Those that cannot be read go to quarantine files, told at
        the end.
        """
        work = self.begin(task)
        try:
            for batch in batches:
                decoded, place = work.decode(batch)
                texts = [place.column(name).cast(pa.string()) for name in PLACE]
                position = pc.binary_join_element_wise(*texts, "/")
                yield pa.RecordBatch.from_arrays(
                    [*decoded.rows.columns, position], [*decoded.rows.schema.names, POSITION]
                )
            on_end(work.finish())
        except BaseException:
            work.abandon()
            raise

    def spell(self, position: Any) -> str:
        """Where a message stood, as JSON.

        >>> StreamPlan.spell(None, "uplink/0/17")
        '{"topic":"uplink","partition":0,"offset":17}'
        """
        if not position:
            return "{}"  # the pipeline's function dropped the column
        topic, partition, offset = position.rsplit("/", 2)
        return json.dumps({"topic": topic, "partition": int(partition), "offset": int(offset)}, separators=(",", ":"))

    def __repr__(self) -> str:
        return f"StreamPlan({self.layout.name}, {self.part})"  # the layout holds keys


class StreamWork(LoadWork):
    """One task under way."""

    plan: StreamPlan

    def __init__(self, plan: StreamPlan, task: int) -> None:
        super().__init__(plan, task)
        self.seen: dict[str, Range] = {}
        self.unknown: dict[str, None] = {}

    def read(self, batch: pa.RecordBatch) -> Placed:
        """The rows of messages; or rows, where they were decoded before."""
        if self.plan.decoder is None:
            return super().read(batch)
        found, place = self.decode(batch)
        return Placed(
            found.rows, lambda wanted: _positions(place, wanted), lambda: place.column("offset").cast(pa.int64())
        )

    def decode(self, batch: pa.RecordBatch) -> tuple[Decoded, pa.RecordBatch]:
        """The rows of messages, and the place of each; bad ones are set aside."""
        assert self.plan.decoder is not None
        self.seen = join_ranges(self.seen, ranges(batch))
        found, place = self.plan.decoder.decode(batch), batch.select(PLACE)
        self.unknown.update(dict.fromkeys(found.unknown))
        if found.bad:
            numbers = [number for number, _ in found.bad]
            raws = [_raw(one) for one in batch.take(pa.array(numbers, pa.int64())).to_pylist()]
            rejected = [Rejected(number, reason, raw) for (number, reason), raw in zip(found.bad, raws, strict=True)]
            self.set_aside(rejected, [self.plan.spell(position) for position in _positions(place, numbers)])
        return found, place if found.numbers is None else place.take(found.numbers)

    def finish(self) -> LoadReport:
        """The finished files, and what was seen of the messages."""
        return replace(super().finish(), seen=self.seen, unknown=tuple(self.unknown))


def _raw(message: Mapping[str, Any]) -> str:
    """A message that could not be read, as JSON; of a tombstone, the key is all there is."""
    found = {"message": message_text(message["value"])}
    if message["value"] is None and message.get("key") is not None:
        found["key"] = message_text(message["key"])
    return as_json(found)


def ranges(batch: pa.RecordBatch) -> dict[str, Range]:
    """The lowest and the highest offset of each topic's partition.

    >>> rows = pa.record_batch({"topic": ["t", "t"], "partition": [0, 0], "offset": [5, 9]})
    >>> ranges(rows)
    {'t/0': (5, 9)}
    """
    grouped = (
        pa.table(batch.select(PLACE)).group_by(["topic", "partition"]).aggregate([("offset", "min"), ("offset", "max")])
    )
    return {f"{one['topic']}/{one['partition']}": (one["offset_min"], one["offset_max"]) for one in grouped.to_pylist()}


def _positions(place: pa.RecordBatch, numbers: list[int]) -> list[str]:
    wanted = place.take(pa.array(numbers, pa.int64())).to_pylist()
    return [f"{one['topic']}/{one['partition']}/{one['offset']}" for one in wanted]
