"""Messages of Kafka as a source of tasks: decoded, held against the contract and written to files, in one pass in
Arrow.

Where the pipeline's function changes the frame, Spark stands in between: one task decodes (and quarantines bad
messages), another writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.pipelines.files import POSITION, read_positions
from frazil.pipelines.stream.decode import PLACE, Decoded, Decoder, message_text
from frazil.sinks.spark import Place, Placed, TaskPlan, TaskReport, TaskWork
from frazil.write.contract import Rejected, as_json


@dataclass(frozen=True)
class MessageRows:
    """The rows of messages. Without a decoder, rows come in the table's columns, with their position."""

    decoder: Decoder | None = None

    def read(self, batch: pa.RecordBatch, work: TaskWork) -> Placed:
        """The rows of messages; or rows, where they were decoded before."""
        if self.decoder is None:
            return read_positions(batch, spell_offset)
        decoded, place = self.decode(batch, work)
        return Placed(
            decoded.rows, lambda numbers: _places(place, numbers), lambda: place.column("offset").cast(pa.int64())
        )

    def decode(self, batch: pa.RecordBatch, work: TaskWork) -> tuple[Decoded, pa.RecordBatch]:
        """The rows of messages, and the position of each; bad ones are quarantined."""
        assert self.decoder is not None
        work.reach(*offset_ranges(batch))
        decoded, place = self.decoder.decode(batch), batch.select(PLACE)
        work.unknown.update(dict.fromkeys(decoded.unknown))
        if decoded.bad:
            numbers = [number for number, _ in decoded.bad]
            raws = [_raw(message) for message in batch.take(pa.array(numbers, pa.int64())).to_pylist()]
            rejected = [Rejected(number, reason, raw) for (number, reason), raw in zip(decoded.bad, raws, strict=True)]
            work.quarantine(rejected, _places(place, numbers))
        return decoded, place if decoded.numbers is None else place.take(decoded.numbers)


def decode_messages(
    plan: TaskPlan, batches: Iterable[pa.RecordBatch], *, task: int, on_end: Callable[[TaskReport], None]
) -> Iterator[pa.RecordBatch]:
    """The rows of the messages, each with its position. Those that cannot be read go to quarantine files, told at the
    end.
    """
    assert isinstance(plan.source, MessageRows)
    with plan.begin(task) as work:
        for batch in batches:
            decoded, place = plan.source.decode(batch, work)
            texts = [place.column(name).cast(pa.string()) for name in PLACE]
            position = pc.binary_join_element_wise(*texts, "/")
            yield pa.RecordBatch.from_arrays([*decoded.rows.columns, position], [*decoded.rows.schema.names, POSITION])
        on_end(work.finish())


def spell_offset(position: str) -> str:
    """Where a message stood, as JSON.

    >>> spell_offset("uplink/0/17")
    '{"topic":"uplink","partition":0,"offset":17}'
    """
    topic, partition, offset = position.rsplit("/", 2)
    return json.dumps({"topic": topic, "partition": int(partition), "offset": int(offset)}, separators=(",", ":"))


def _raw(message: Mapping[str, Any]) -> str:
    """A message that could not be read, as JSON; of a tombstone, the key is all there is."""
    text = {"message": message_text(message["value"])}
    if message["value"] is None and message.get("key") is not None:
        text["key"] = message_text(message["key"])
    return as_json(text)


def offset_ranges(batch: pa.RecordBatch) -> tuple[dict[str, int], dict[str, int]]:
    """The lowest offset of each topic's partition, and the one after the highest.

    >>> offset_ranges(pa.record_batch({"topic": ["t", "t"], "partition": [0, 0], "offset": [5, 9]}))
    ({'t/0': 5}, {'t/0': 10})
    """
    grouped = pa.table(batch.select(PLACE)).group_by(["topic", "partition"])
    rows = grouped.aggregate([("offset", "min"), ("offset", "max")]).to_pylist()
    first = {f"{row['topic']}/{row['partition']}": row["offset_min"] for row in rows}
    return first, {f"{row['topic']}/{row['partition']}": row["offset_max"] + 1 for row in rows}


def _places(place: pa.RecordBatch, numbers: list[int]) -> list[Place]:
    wanted = place.take(pa.array(numbers, pa.int64())).to_pylist()
    return [(json.dumps({name: row[name] for name in PLACE}, separators=(",", ":")), {}) for row in wanted]
