"""Queries that keep state: which operators do, and when their checkpoint is not the one that belongs to the table.

The state (rows seen, sums so far) is in Spark's checkpoint and nowhere else. With another checkpoint the query would
start with empty state, and what it then writes does not follow what the table has: duplicates come through, counters
start at zero.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frazil.errors import ProgressMismatch
from frazil.sinks.spark import CHECKPOINT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Names of Spark's logical operators that remember rows from one batch to the next.
_REMEMBERING = {
    "Aggregate": "an aggregation",
    "Distinct": "distinct",
    "Deduplicate": "dropDuplicates",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "FlatMapGroupsWithState": "state of groups",
    "FlatMapGroupsInPandasWithState": "state of groups",
    "TransformWithState": "state of groups",
    "TransformWithStateInPySpark": "state of groups",
    "GlobalLimit": "limit",
}


def stateful_operators(frame: DataFrame) -> list[str]:
    """What of a streaming frame remembers rows from one batch to the next; empty, if nothing does."""
    return sorted(set(_walk(frame._jdf.queryExecution().analyzed())))


def _walk(node: Any) -> Iterator[str]:
    children = [node.children().apply(number) for number in range(node.children().size())]
    name = node.nodeName()
    if name in _REMEMBERING and node.isStreaming():
        yield _REMEMBERING[name]
    if name == "Join" and all(child.isStreaming() for child in children):
        yield "a join of two streams"
    for child in children:
        yield from _walk(child)


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint's folder says: the query's id, and the number of batches that are done; None and 0 if it is
    empty or gone.
    """

    folder: Path
    query: str | None = None
    batches: int = 0

    @classmethod
    def read(cls, folder: Path) -> Checkpoint:
        try:
            query = json.loads((folder / "metadata").read_text())["id"]
        except (OSError, ValueError, KeyError):
            return cls(folder)
        done = [int(path.name) for path in (folder / "commits").glob("[0-9]*")]
        return cls(folder, query, max(done) + 1 if done else 0)


def check_stateless(progress: Mapping[str, int], *, pipeline: str, table: str) -> None:
    """Refuses a query without state where one with state has filled the table."""
    if _own(progress):
        raise ProgressMismatch(
            f"pipeline '{pipeline}': {table} has batches of a query that kept state, and this one keeps none",
            hint="it is unknown which messages are committed: give the pipeline another name to read all of them again",
            pipeline=pipeline,
            table=table,
            problem="stateful-before",
        )


def check_stateful(
    progress: Mapping[str, int], checkpoint: Checkpoint, operators: list[str], *, pipeline: str, table: str
) -> None:
    """Refuses a query with state whose checkpoint is not the one that the table's rows came from.

    >>> check_stateful({"checkpoint/q1": 3}, Checkpoint(Path("c"), "q1", 3), ["dropDuplicates"], pipeline="p", table="t")
    """  # noqa: E501
    keeps = f"pipeline '{pipeline}' keeps state ({', '.join(operators)}) in its checkpoint"
    anew = (
        f"bring the checkpoint back to {checkpoint.folder}; or start over: empty {table}, or give the pipeline "
        f"another name"
    )
    if others := [name for name in progress if not name.startswith(CHECKPOINT)]:
        raise ProgressMismatch(
            f"{keeps}, and {table} has rows of a query without state, up to {others[0]}: {progress[others[0]]}",
            hint="give the pipeline another name: it then reads all messages again",
            table=table,
            problem="stateless-before",
        )
    known = _own(progress)
    if checkpoint.query is not None and known.get(checkpoint.query, 0) < checkpoint.batches:
        raise ProgressMismatch(
            f"{keeps}, and {checkpoint.folder} is at batch {checkpoint.batches}, but {table} only at "
            f"{known.get(checkpoint.query, 0)}",
            hint=f"was the table rolled back? remove {checkpoint.folder} and empty the table to start over",
            table=table,
            problem="checkpoint-ahead",
        )
    if known and checkpoint.query not in known:
        query, batches = next(iter(known.items()))
        held = f"that of query {checkpoint.query}" if checkpoint.query else "none"
        raise ProgressMismatch(
            f"{keeps}; {table} has {batches} batches of the checkpoint of query {query}, and {checkpoint.folder} "
            f"holds {held}: "
            "with empty state, rows would be repeated and counters start at zero",
            hint=anew,
            table=table,
            problem="state-missing",
        )


def _own(progress: Mapping[str, int]) -> dict[str, int]:
    return {name.removeprefix(CHECKPOINT): batches for name, batches in progress.items() if name.startswith(CHECKPOINT)}
