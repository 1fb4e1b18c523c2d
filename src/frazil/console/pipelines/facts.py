"""What the metadata of a table says about those who fill it: pipelines and models by the progress that they commit, the
tables that they read, and how far they are behind. Pure; no project is needed, and no file but the metadata is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from statistics import median
from typing import Any

from frazil.console.summary import find_head, number
from frazil.errors import FrazilError
from frazil.protocol import PROPERTY_PROGRESS_PREFIX, SUMMARY_COMMIT

MAIN = "main"
RECENT_COMMITS = 60  # of a writer, that its speed is computed from
MOST_COLUMNS = 500
MOST_TOPICS = 5  # sources that are named
_PART = re.compile(r"/part-\d+(-of-\d+)?$")

Json = Mapping[str, Any]


@dataclass(frozen=True)
class ReadState:
    """The table that rows were made from, at a snapshot."""

    uuid: str
    snapshot_id: int | None


@dataclass(frozen=True)
class Writer:
    """A pipeline, model or sink that commits its progress to a table."""

    name: str
    inputs: Mapping[str, ReadState] = field(default_factory=dict)
    topics: tuple[str, ...] = ()  # what it reads by offsets
    commits: tuple[tuple[int, int], ...] = ()  # the last ones: time in ms, rows; the newest first


@dataclass(frozen=True)
class Facts:
    """A table as the graph shows it."""

    uuid: str
    rows: int | None
    committed_ms: int | None
    columns: tuple[str, ...]
    writers: tuple[Writer, ...]


def find_facts(metadata: Json) -> Facts:
    """What the metadata of a table says; progress that cannot be read names no writer."""
    head = find_head(metadata)
    schema = next(
        (each for each in metadata["schemas"] if each.get("schema-id", 0) == metadata["current-schema-id"]), None
    )
    summary = (head.get("summary") or {}) if head is not None else {}
    columns = [field["name"] for field in schema["fields"]] if schema is not None else []
    return Facts(
        metadata["table-uuid"],
        number(summary.get("total-records")) if head is not None else 0,
        head["timestamp-ms"] if head is not None else None,
        tuple(columns[:MOST_COLUMNS]),
        tuple(_writers(metadata)),
    )


def _writers(metadata: Json) -> Iterator[Writer]:
    from frazil.write.commit import Progress

    try:
        progress = Progress.parse(metadata["properties"].get(f"{PROPERTY_PROGRESS_PREFIX}{MAIN}"))
    except FrazilError:
        return
    if not progress.parts:
        return
    names = dict.fromkeys(writer_name(part) for part in progress.parts)
    commits = _commits(metadata, names)
    for name in names:
        parts = [part for key, part in progress.parts.items() if writer_name(key) == name]
        inputs = {
            table: ReadState(state.uuid, state.snapshot_id) for part in parts for table, state in part.inputs.items()
        }
        partitions = [each for part in parts if isinstance(part.offsets, Mapping) for each in part.offsets]
        topics = dict.fromkeys(filter(None, map(source_name, partitions)))
        yield Writer(name, inputs, tuple(islice(topics, MOST_TOPICS)), tuple(commits[name]))


def writer_name(part: str) -> str:
    """The pipeline of a part.

    >>> writer_name("uplink/part-0-of-2"), writer_name("daily/0")
    ('uplink', 'daily/0')
    """
    return _PART.sub("", part)


def source_name(partition: str) -> str:
    """What a partition belongs to: the topic, where the rest is its number.

    >>> source_name("events/3"), source_name("landing/a.csv")
    ('events', 'landing/a.csv')
    """
    topic, _, last = partition.rpartition("/")
    return topic if topic and last.isdecimal() else partition


def _commits(metadata: Json, names: Mapping[str, None]) -> dict[str, list[tuple[int, int]]]:
    """The last commits of each writer, the newest first."""
    commits: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    for snapshot in islice(_line(metadata), RECENT_COMMITS * len(names)):
        summary = snapshot.get("summary") or {}
        text = summary.get(SUMMARY_COMMIT)
        if text is None:
            continue
        try:
            name = writer_name(json.loads(text)["part"])
        except (ValueError, KeyError, TypeError):
            continue
        if len(commits.get(name, ())) < RECENT_COMMITS and name in commits:
            commits[name].append((snapshot["timestamp-ms"], number(summary.get("added-records")) or 0))
    return commits


def _line(metadata: Json) -> Iterator[Json]:
    """The snapshots from the current one back, each once whatever their parents say."""
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in metadata["snapshots"]}
    snapshot = by_id.pop(metadata.get("current-snapshot-id"), None)
    while snapshot is not None:
        yield snapshot
        snapshot = by_id.pop(snapshot.get("parent-snapshot-id"), None)


# --- how far behind --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Behind:
    """What a writer has not read of its inputs: why, and since when."""

    reasons: tuple[str, ...] = ()
    since_ms: int | None = None

    def as_json(self, now_ms: int) -> dict[str, Any]:
        """The state in the form of `frazil graph --state`."""
        lag_ms = max(0, now_ms - self.since_ms) if self.since_ms is not None else None
        status = "out of date" if self.reasons else "up to date"
        return {"status": status, "reason": "; ".join(self.reasons), "lag_ms": lag_ms}


def find_behind(writer: Writer, inputs: Mapping[str, Json]) -> Behind:
    """How far a writer is behind its inputs, whose metadata is given by name."""
    reasons, times = [], []
    for name, metadata in inputs.items():
        reason, since_ms = compare_input(name, writer.inputs[name], metadata)
        if reason is not None:
            reasons.append(reason)
        if since_ms is not None:
            times.append(since_ms)
    return Behind(tuple(reasons), min(times, default=None))


def compare_input(name: str, read: ReadState, metadata: Json) -> tuple[str | None, int | None]:
    """Why a table has rows that were not read, and since when; None if there are none.

    >>> table = {"table-uuid": "u", "current-snapshot-id": None, "snapshots": []}
    >>> compare_input("t", ReadState("u", None), table), compare_input("t", ReadState("v", 1), table)[0]
    ((None, None), 't was dropped and made again')
    """
    head = metadata.get("current-snapshot-id")
    head = None if head == -1 else head
    if read.uuid != metadata["table-uuid"]:
        return f"{name} was dropped and made again", None
    if read.snapshot_id == head:
        return None, None
    unread: list[Json] = []
    for snapshot in _line(metadata):
        if snapshot["snapshot-id"] == read.snapshot_id:
            break
        unread.append(snapshot)
    else:
        if read.snapshot_id is not None:
            return f"{name}: snapshot {read.snapshot_id}, which was read last, is not in its history", None
    changing = [snapshot for snapshot in unread if _changes_rows(snapshot.get("summary") or {})]
    if not changing:
        return None, None
    commits = "1 commit" if len(changing) == 1 else f"{len(changing):,} commits"
    return f"{name}: {commits} not read yet", changing[-1]["timestamp-ms"]


def _changes_rows(summary: Json) -> bool:
    """Whether a commit has other rows than its parent: compaction has not, nor has one that only notes progress.

    >>> _changes_rows({"operation": "replace"}), _changes_rows({"operation": "append", "added-records": "5"})
    (False, True)
    >>> _changes_rows({"operation": "append", SUMMARY_COMMIT: "{}"}), _changes_rows({"operation": "append"})
    (False, True)
    """
    if summary.get("operation") != "append":
        return summary.get("operation") != "replace"
    return SUMMARY_COMMIT not in summary or number(summary.get("added-records")) not in (None, 0)


# --- how fast --------------------------------------------------------------------------------------------------------


def speed(commits: Sequence[tuple[int, int]], now_ms: int) -> dict[str, Any] | None:
    """Rows per second and the time from commit to commit of a writer that commits one micro-batch after the other; None
    for fewer than three commits.

    >>> speed([(30_000, 500), (20_000, 500), (10_000, 500)], 31_000)
    {'rows_per_second': 50.0, 'interval_ms': 10000, 'is_live': True, 'commits': [(30000, 500), (20000, 500), (10000, 500)]}
    """  # noqa: E501
    if len(commits) < 3:
        return None
    intervals = [later[0] - earlier[0] for later, earlier in pairwise(commits)]
    interval_ms, span_ms = int(median(intervals)), commits[0][0] - commits[-1][0]
    rows = sum(rows for _, rows in commits[:-1])
    return {
        "rows_per_second": round(rows * 1000 / span_ms, 1) if span_ms > 0 else None,
        "interval_ms": interval_ms,
        "is_live": now_ms - commits[0][0] <= max(60_000, 5 * interval_ms),
        "commits": list(commits),
    }
