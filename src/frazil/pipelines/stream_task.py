"""What one task of a stream's batch does: messages are decoded, held against the contract and written to files, in one pass in Arrow.

Where the pipeline's function changes the frame, Spark stands in between: one task decodes (and sets bad messages aside), another writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.pipelines.decode import PLACE, Decoded, Decoder, message_text
from frazil.pipelines.load_task import LoadPlan, LoadReport, LoadWork
from frazil.pipelines.reading import POSITION
from frazil.sinks.contract import Rejected
from frazil.sinks.raw import as_json

Range = tuple[int, int]  # the first offset and the last


@dataclass(frozen=True)
class StreamReport:
    """What tasks have written; the offsets that they saw, by topic and partition; and fields that the table does not have."""

    load: LoadReport = field(default_factory=LoadReport)
    seen: Mapping[str, Range] = field(default_factory=dict)
    unknown: Sequence[str] = ()

    def __add__(self, other: StreamReport) -> StreamReport:
        unknown = tuple(dict.fromkeys([*self.unknown, *other.unknown]))
        return StreamReport(self.load + other.load, join_ranges(self.seen, other.seen), unknown)

    def to_json(self) -> str:
        """The report as one line of text; `from_json` gives it back."""
        return json.dumps({"load": self.load.to_json(), "seen": dict(self.seen), "unknown": list(self.unknown)}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> StreamReport:
        """The report that `to_json` described.

        >>> StreamReport.from_json(StreamReport(seen={"t/0": (3, 7)}).to_json()).seen
        {'t/0': (3, 7)}
        """
        value: dict[str, Any] = json.loads(text)
        seen = {source: (first, last) for source, (first, last) in value["seen"].items()}
        return cls(LoadReport.from_json(value["load"]), seen, tuple(value["unknown"]))


def join_ranges(one: Mapping[str, Range], other: Mapping[str, Range]) -> dict[str, Range]:
    """
    >>> join_ranges({"t/0": (3, 7)}, {"t/0": (8, 9), "t/1": (0, 1)})
    {'t/0': (3, 9), 't/1': (0, 1)}
    """
    joined = dict(one)
    for source, (first, last) in other.items():
        known = joined.get(source, (first, last))
        joined[source] = (min(first, known[0]), max(last, known[1]))
    return joined


@dataclass(frozen=True)
class StreamPlan(LoadPlan):
    """Everything that a task must know. Without a decoder, rows come in the table's columns, with their position."""

    decoder: Decoder | None = None

    def write(self, batches: Iterable[pa.RecordBatch], *, task: int) -> StreamReport:
        """Writes the rows to files and reports them; whatever goes wrong, it leaves no file behind."""
        work = StreamWork(self, task)
        try:
            for batch in batches:
                work.add(batch)
            return work.report()
        except BaseException:
            work.abandon()
            raise

    def decode(self, batches: Iterable[pa.RecordBatch], *, task: int, on_end: Callable[[StreamReport], None]) -> Iterator[pa.RecordBatch]:
        """The rows of the messages, each with its position. Those that cannot be read go to quarantine files, told at the end."""
        work = StreamWork(self, task)
        try:
            for batch in batches:
                decoded = work.decode(batch)
                place = batch.select(PLACE) if decoded.numbers is None else batch.select(PLACE).take(decoded.numbers)
                texts = [place.column(name).cast(pa.string()) for name in PLACE]
                position = pc.binary_join_element_wise(*texts, "/")
                yield pa.RecordBatch.from_arrays([*decoded.rows.columns, position], [*decoded.rows.schema.names, POSITION])
            on_end(work.report())
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

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes messages; or rows, where they were decoded before."""
        if self.plan.decoder is None:
            super().add(batch)
            return
        found = self.decode(batch)
        numbers = found.numbers

        def positions(wanted: list[int]) -> list[str]:
            return _positions(batch, wanted if numbers is None else numbers.take(pa.array(wanted, pa.int64())).to_pylist())

        self.take(found.rows, positions)

    def decode(self, batch: pa.RecordBatch) -> Decoded:
        """The rows of messages; bad ones are set aside."""
        assert self.plan.decoder is not None
        self.seen = join_ranges(self.seen, ranges(batch))
        found = self.plan.decoder.decode(batch)
        self.unknown.update(dict.fromkeys(found.unknown))
        if found.bad:
            numbers = [number for number, _ in found.bad]
            values = batch.column("value").take(pa.array(numbers, pa.int64())).to_pylist()
            raws = [as_json({"message": message_text(value)}) for value in values]
            rejected = [Rejected(number, reason, raw) for (number, reason), raw in zip(found.bad, raws, strict=True)]
            self.set_aside(rejected, [self.plan.spell(position) for position in _positions(batch, numbers)])
        return found

    def report(self) -> StreamReport:
        """The finished files."""
        return StreamReport(self.finish(), self.seen, tuple(self.unknown))


def ranges(batch: pa.RecordBatch) -> dict[str, Range]:
    """The lowest and the highest offset of each topic's partition.

    >>> rows = pa.record_batch({"topic": ["t", "t"], "partition": [0, 0], "offset": [5, 9]})
    >>> ranges(rows)
    {'t/0': (5, 9)}
    """
    grouped = pa.table(batch.select(PLACE)).group_by(["topic", "partition"]).aggregate([("offset", "min"), ("offset", "max")])
    return {f"{one['topic']}/{one['partition']}": (one["offset_min"], one["offset_max"]) for one in grouped.to_pylist()}


def _positions(batch: pa.RecordBatch, numbers: list[int]) -> list[str]:
    place = batch.select(PLACE).take(pa.array(numbers, pa.int64())).to_pylist()
    return [f"{one['topic']}/{one['partition']}/{one['offset']}" for one in place]
