"""A stream that changes its number of parts: what the parts of the old number have reached binds those of the
new one.
"""

from __future__ import annotations

import re
import uuid
from typing import Protocol

from frazil.write.commit.progress import PartProgress, Progress


class Parts(Protocol):
    """What is asked of a target: `iceberg.IcebergTarget` and `delta.DeltaTarget` have it."""

    def progress(self) -> Progress:
        """The progress of every part that writes to the table, as it is now."""

    def take_over(self, part: str, writer: str) -> PartProgress:
        """Fences every other writer of the part."""


def part_name(stream: str, number: int, count: int) -> str:
    """How a part is called in the table's progress: with the number of parts, for it decides which source partitions
    are whose.

    >>> part_name("uplink.lake", 0, 2)
    'uplink.lake/part-0-of-2'
    """
    return f"{stream}/part-{number}-of-{count}"


def take_over_others(target: Parts, part: str) -> dict[str, int]:
    """By source partition, the offset that the stream has reached with another number of parts; none of those writers
    goes on.

    They are fenced before the offsets are read: one that still runs could otherwise bring in what this part is about
    to.
    """
    others = other_counts(target.progress(), part)
    for name in others:
        target.take_over(name, uuid.uuid4().hex[:16])
    return carried_offsets(target.progress(), part) if others else {}


def carried_offsets(progress: Progress, part: str) -> dict[str, int]:
    """The highest offset of each source partition that other numbers of parts have reached, where that is more than
    this part has.

    >>> two, three = PartProgress(offsets={"e/0": 7, "e/1": 9}), PartProgress(offsets={"e/1": 12})
    >>> carried_offsets(Progress({"s/part-0-of-2": two, "s/part-1-of-3": three, "t/part-0-of-1": two}), "s/part-1-of-3")
    {'e/0': 7}
    """
    own = progress.part(part).offsets
    reached = highest_offsets(progress, other_counts(progress, part))
    return {source: offset for source, offset in reached.items() if offset > own.get(source, -1)}


def highest_offsets(progress: Progress, names: list[str]) -> dict[str, int]:
    """The highest offset of each source partition that any of these parts has reached.

    >>> highest_offsets(Progress({"a": PartProgress(offsets={"e/0": 7}), "b": PartProgress(offsets={"e/0": 9})}), ["a", "b"])
    {'e/0': 9}
    """  # noqa: E501
    reached: dict[str, int] = {}
    for name in names:
        for source, offset in progress.part(name).offsets.items():
            reached[source] = max(offset, reached.get(source, 0))
    return reached


def other_counts(progress: Progress, part: str) -> list[str]:
    """The parts of the same stream that belong to another number of parts."""
    stream, _, own = part.rpartition("/")
    counts = []
    for name in progress.parts:
        match = re.fullmatch(r"part-\d+-of-(\d+)", name.removeprefix(stream + "/"))
        if match and name.startswith(stream + "/") and match[1] != own.rpartition("-")[2]:
            counts.append(name)
    return counts
