"""The progress of a sink, kept in the table itself. Pure: it reads and decides, and does nothing.

For every part of a sink the table holds: who writes it (a generation that counts take-overs, and a token that is that
writer's own), how many commits it made, and the offset reached in each source partition. It is one table property for
each ref, changed only in a commit that adds a snapshot to that ref and is guarded by the snapshot that the writer read;
so what one reads here is true of the rows.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from frazil.errors import ProgressMismatch, WriterFenced
from frazil.protocol import (
    CLAIM_REBASES,
    PROPERTY_PROGRESS_PREFIX,
    SUMMARY_PROGRESS,
    SUMMARY_REF,
    SUMMARY_ROLLBACK,
    SUMMARY_STAGED_BY,
)

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

MAIN = "main"
_VERSION = 1


@dataclass(frozen=True)
class InputState:
    """What rows were made from: a table, by its UUID, at a snapshot; None: it had none yet."""

    uuid: str
    snapshot_id: int | None


@dataclass(frozen=True)
class Mark:
    """The highest value that was read of a column, as text; `kind` is Spark's name of its type, and `rows` had it.

    >>> str(Mark("updated_at", "timestamp", "1500000"))
    '1970-01-01 00:00:01.500000+00:00'
    """

    column: str
    kind: str
    value: str
    rows: int = 0

    def __str__(self) -> str:
        if self.kind != "timestamp":
            return self.value
        return str(dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=int(self.value)))


@dataclass(frozen=True)
class PartProgress:
    """How far one part of a sink has come; `offsets` are the next ones to read, by source partition. `inputs` are the
    tables that the rows were made from, by name, `definition` is the fingerprint of the query that made them, and
    `marks` say how far other inputs were read.
    """

    generation: int = 0
    writer: str = ""
    commits: int = 0
    offsets: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, InputState] = field(default_factory=dict)
    definition: str = ""
    marks: Mapping[str, Mark] = field(default_factory=dict)

    @classmethod
    def parse(cls, entry: Sequence[Any]) -> PartProgress:
        """The progress of a part as `dump` gives it.

        >>> PartProgress.parse([1, "w", 2, {}, {"silver.orders": ["8f1e", 7]}]).inputs
        {'silver.orders': InputState(uuid='8f1e', snapshot_id=7)}
        """
        generation, writer, commits, offsets, *more = entry
        stored = more[0] if more else {}
        facts = more[1] if len(more) > 1 else {}
        inputs = {name: InputState(*state) for name, state in stored.items()}
        marks = {name: Mark(*mark) for name, mark in facts.get("marks", {}).items()}
        return cls(generation, writer, commits, offsets, inputs, facts.get("definition", ""), marks)

    def dump(self) -> list[Any]:
        """As JSON; `inputs`, `definition` and `marks` only if there are any.

        >>> PartProgress(1, "w", 2, definition="5f0c", marks={"rows": Mark("id", "bigint", "7", 1)}).dump()
        [1, 'w', 2, {}, {}, {'definition': '5f0c', 'marks': {'rows': ['id', 'bigint', '7', 1]}}]
        """
        inputs = {name: [state.uuid, state.snapshot_id] for name, state in sorted(self.inputs.items())}
        marks = {name: list(astuple(mark)) for name, mark in sorted(self.marks.items())}
        facts = {name: value for name, value in (("definition", self.definition), ("marks", marks)) if value}
        entry = [self.generation, self.writer, self.commits, dict(self.offsets)]
        if facts:
            return [*entry, inputs, facts]
        return [*entry, inputs] if inputs else entry


@dataclass(frozen=True)
class Progress:
    """The progress of every part of every sink that writes to a ref, by `sink/part`."""

    parts: Mapping[str, PartProgress] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str | None) -> Progress:
        """The progress that `dump` wrote; none, if there is no text.

        >>> Progress.parse('{"v":1,"parts":{"uplink/part-0":[2,"a1",7,{"events/0":120}]}}').part("uplink/part-0").offsets["events/0"]
        120
        """  # noqa: E501
        if text is None:
            return cls()
        try:
            value = json.loads(text)
            if value["v"] != _VERSION:
                raise ProgressMismatch(
                    f"the table's progress has version {value['v']}, not {_VERSION}",
                    hint="upgrade Frazil",
                )
            return cls({name: PartProgress.parse(entry) for name, entry in value["parts"].items()})
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise ProgressMismatch(
                f"the table's progress cannot be read: {text[:80]}",
                hint="take it from the summary of the last snapshot",
            ) from exc

    def dump(self) -> str:
        """One line of text, as short as JSON allows.

        >>> Progress({"s/0": PartProgress(1, "w", 2, {"p": 3})}).dump()
        '{"v":1,"parts":{"s/0":[1,"w",2,{"p":3}]}}'
        """
        parts = {name: part.dump() for name, part in sorted(self.parts.items())}
        return json.dumps({"v": _VERSION, "parts": parts}, separators=(",", ":"))

    def part(self, name: str) -> PartProgress:
        return self.parts.get(name, PartProgress())

    def with_part(self, name: str, part: PartProgress) -> Progress:
        return Progress({**self.parts, name: part})


@dataclass(frozen=True)
class Claim:
    """What a writer says of the rows that it wants to commit: whose they are, and from where to where they reach in the
    source.

    `end` names every source partition that moved; `start` says where it stood for those that had moved before. A
    partition in `done` is finished for good (a file that was read to its end) and needs no entry any more. With
    `takes_over`, the commit is the writer's takeover, too: it is refused unless the part's progress still is what the
    writer planned from. `inputs` are the tables that the rows were made from, `definition` is the fingerprint of the
    query that made them, and `marks` say how far other inputs were read; None leaves what is known.
    """

    part: str
    writer: str
    generation: int
    commit: int
    start: Mapping[str, int]
    end: Mapping[str, int]
    done: frozenset[str] = frozenset()
    takes_over: PartProgress | None = None
    inputs: Mapping[str, InputState] | None = None
    definition: str | None = None
    marks: Mapping[str, Mark] | None = None

    @property
    def needs_part_alone(self) -> bool:
        """Whether the commit holds whatever other parts have committed since the writer looked."""
        return self.takes_over is None and self.inputs is None and self.definition is None and self.marks is None

    def summary(self, *, rebases: bool = False) -> str:
        """What the snapshot's summary says of this commit, for the audit; and whether the catalog may rebase it."""
        value = {
            "part": self.part,
            "generation": self.generation,
            "commit": self.commit,
            "from": dict(self.start),
            "to": dict(self.end),
            **({"done": sorted(self.done)} if self.done else {}),
            **({"takeover": True} if self.takes_over is not None else {}),
            **({"inputs": {name: state.snapshot_id for name, state in self.inputs.items()}} if self.inputs else {}),
            **({"marks": {name: mark.value for name, mark in self.marks.items()}} if self.marks else {}),
            **({CLAIM_REBASES: True} if rebases else {}),
        }
        return json.dumps(value, separators=(",", ":"))


@dataclass(frozen=True)
class PlannedTakeover:
    """A takeover that the writer's first commit carries: the progress that it plans from, and its own once it owns the
    part.

    `before` is None where the writer owns the part already.
    """

    before: PartProgress | None
    own: PartProgress


def property_key(ref: str = MAIN) -> str:
    """The table property that holds the progress of a ref."""
    return f"{PROPERTY_PROGRESS_PREFIX}{ref}"


def read_progress(metadata: TableMetadata, ref: str = MAIN) -> Progress:
    """The progress that belongs to a ref of the table.

    The property of a branch outlives it where another tool drops the branch, and speaks of other rows where it makes
    one of that name again. So the snapshots that lead to a branch have the last word.
    """
    known = Progress.parse(metadata.properties.get(property_key(ref)))
    return known if ref == MAIN or not known.parts else _progress_on_branch(metadata, ref, known)


def _progress_on_branch(metadata: TableMetadata, ref: str, known: Progress) -> Progress:
    snapshot, is_of_main = metadata.snapshot_by_name(ref), False
    if snapshot is None:
        return Progress()  # the branch is gone, and its rows with it
    while True:
        summary = _summary(snapshot)
        text, of_ref = summary.get(SUMMARY_PROGRESS), summary.get(SUMMARY_REF, MAIN)
        if text and of_ref == ref:
            return Progress.parse(text)
        is_of_main = is_of_main or (text is not None and of_ref == MAIN)
        parent_id = snapshot.parent_snapshot_id
        parent = metadata.snapshot_by_id(parent_id) if parent_id is not None else None
        if parent is None:
            # The end of the line, or older snapshots are expired: those of a branch go before those of main that it
            # grew out of.
            return Progress() if parent_id is None or is_of_main else known
        snapshot = parent


def progress_at(metadata: TableMetadata, snapshot: Snapshot | None, ref: str = MAIN) -> Progress | None:
    """The progress of a ref as of a snapshot on its line, by the nearest record of it; None when that was expired.

    On the line of main, records of another ref came with its publication: they speak for the parts that wrote there.
    What was staged has the progress that was published with it.
    """
    published: dict[str, PartProgress] = {}
    snapshot = _publisher(metadata, snapshot) if snapshot else None
    while snapshot is not None:
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        text, of_ref = summary.get(SUMMARY_PROGRESS), summary.get(SUMMARY_REF, MAIN)
        if text and of_ref == ref:
            return Progress({**Progress.parse(text).parts, **published})
        if text and ref == MAIN:
            published = {**Progress.parse(text).parts, **published}
        if snapshot.parent_snapshot_id is None:
            return Progress(published)
        snapshot = metadata.snapshot_by_id(snapshot.parent_snapshot_id)
    return None


def _publisher(metadata: TableMetadata, snapshot: Snapshot) -> Snapshot:
    """The snapshot on top of a staged one that published its rows and tells the progress; else the snapshot itself."""
    if SUMMARY_STAGED_BY not in _summary(snapshot):
        return snapshot
    children = [each for each in metadata.snapshots if each.parent_snapshot_id == snapshot.snapshot_id]
    telling = [
        each for each in children if SUMMARY_PROGRESS in _summary(each) and SUMMARY_ROLLBACK not in _summary(each)
    ]
    return telling[0] if telling else snapshot


def _summary(snapshot: Snapshot) -> Mapping[str, str | None]:
    return snapshot.summary.additional_properties if snapshot.summary else {}


def take_over(progress: Progress, part: str, writer: str) -> Progress:
    """The progress once `writer` owns the part: every older writer of it is fenced.

    >>> take_over(Progress(), "s/0", "w1").part("s/0")
    PartProgress(generation=1, writer='w1', commits=0, offsets={}, inputs={}, definition='', marks={})
    """
    current = progress.part(part)
    return progress.with_part(part, replace(current, generation=current.generation + 1, writer=writer))


def plan_takeover(current: PartProgress, writer: str) -> PlannedTakeover:
    """What `writer` has to know to take over with its first commit. Nothing is fenced until then.

    >>> plan_takeover(PartProgress(3, "old", 7), "new").own
    PartProgress(generation=4, writer='new', commits=7, offsets={}, inputs={}, definition='', marks={})
    """
    if current.writer == writer:
        return PlannedTakeover(None, current)
    return PlannedTakeover(current, replace(current, generation=current.generation + 1, writer=writer))


def apply_claim(progress: Progress, claim: Claim, *, table: str) -> Progress | None:
    """The progress once the claimed rows are in; None when they are in already. Refuses a writer that was fenced.

    A commit has a number: the table holds that of the last one. So "is mine in?" has one answer after a lost reply,
    whatever the offsets look like, and the offsets must then agree.
    """
    if claim.takes_over is not None and progress.part(claim.part) == claim.takes_over:
        progress = take_over(progress, claim.part, claim.writer)
    current = progress.part(claim.part)
    if (current.writer, current.generation) != (claim.writer, claim.generation):
        outrun = claim.takes_over is not None
        raise WriterFenced(table, claim.part, ours=claim.generation, current=current.generation, outrun=outrun)
    if current.commits == claim.commit:
        return None
    if current.commits != claim.commit - 1:
        raise ProgressMismatch(
            f"{table}: part '{claim.part}' has made {current.commits} commits, but this one would be number "
            f"{claim.commit}",
            hint="start the writer again: it goes on where the table stands",
            table=table,
            part=claim.part,
            expected=current.commits + 1,
            got=claim.commit,
            problem="commit-number",
        )
    _check_offsets(current, claim, table=table)
    offsets = {name: offset for name, offset in {**current.offsets, **claim.end}.items() if name not in claim.done}
    after = replace(
        current,
        commits=claim.commit,
        offsets=offsets,
        inputs=current.inputs if claim.inputs is None else claim.inputs,
        definition=current.definition if claim.definition is None else claim.definition,
        marks=current.marks if claim.marks is None else claim.marks,
    )
    return progress.with_part(claim.part, after)


def _check_offsets(current: PartProgress, claim: Claim, *, table: str) -> None:
    for name, end in claim.end.items():
        reached, start = current.offsets.get(name), claim.start.get(name)
        if reached != start or (start is not None and end < start):
            raise ProgressMismatch(
                f"{table}: part '{claim.part}' has reached {_spell(reached)} in source partition '{name}', "
                f"but rows from {_spell(start)} to {end} were offered",
                hint="start the writer again: it goes on where the table stands",
                table=table,
                part=claim.part,
                source=name,
                expected=reached,
                got=(start, end),
            )


def merge(theirs: Progress, ours: Iterable[str], from_other: Progress) -> Progress:
    """The progress of a ref after another was moved onto it: the other's word counts for the parts named in `ours`."""
    return Progress({**theirs.parts, **{name: from_other.part(name) for name in ours}})


def _spell(offset: int | None) -> str:
    return "its beginning" if offset is None else str(offset)
