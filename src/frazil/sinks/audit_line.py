"""Proof from the table: the ranges that were consumed abut and never overlap, over the commits that are kept.

Every commit of a sink says what it consumed, and what the progress was after it: Iceberg in the snapshot's summary,
Delta in the log. The audit walks a ref from its oldest kept commit to its newest and checks each step against the one
before; below the oldest lies the base, which is reported. Gaps that the source has itself (Kafka's compaction and
transactions leave some) are inside a range and not reported.

What counts is the line of snapshots that leads to the ref: rows of a branch that was published are part of it, rows
that were rolled back are not. Where the commits come from is in `audit_steps`; here nothing is read, and everything
decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from frazil.units import count
from frazil.write.commit import MAIN, PartProgress, Progress

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Step:
    """A commit of the line: a snapshot of Iceberg, or a version of Delta."""

    id: int
    progress: Progress | None = None  # as it says it was after it; None if it is no sink's
    claim: Mapping[str, Any] | None = None  # what it consumed
    ref: str = MAIN
    back_to: str | None = None  # the commit that this one returned to
    replayed: int | None = None  # rows that came out of quarantine
    staged: bool = False  # a pipeline's rows that waited on a branch: the commit after it says what they are
    operation: str = "append"
    added: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class PartReport:
    """What is proved of a part: the number of commits, the offsets from base to end, and the number of finished source
    partitions.
    """

    part: str
    commits: int
    base: Mapping[str, int]
    reached: Mapping[str, int]
    finished: int = 0


@dataclass(frozen=True)
class AuditReport:
    """What the audit has found; it is clean when there are no problems. `notes` are things that a reader may want to
    know.

    `commits` are those of sinks, take-overs and replays among them; `others` those of other programs and of
    maintenance. `from_first` says whether the line is kept from the table's first commit on; else the base is what the
    oldest kept commit found.
    """

    commits: int = 0
    others: int = 0
    from_first: bool = True
    parts: tuple[PartReport, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """The commits that lead to a ref, oldest first; the progress that holds there now; and what else is kept."""

    steps: Sequence[Step]
    now: Progress
    ref: str = MAIN
    from_first: bool = True
    tells_all: bool = True  # each commit's record names every part; Delta's name one
    # whether some kept commit, also off the line, has left this
    is_recorded: Callable[[Progress], bool] = field(default=lambda _: False)


def check_line(line: Line) -> AuditReport:
    """What can be said of a line of commits."""
    walk = _Walk(line)
    for step in line.steps:
        walk.take(step)
    return walk.finish()


class _Walk:
    """Goes along the line. `state` is what the line's own commits come to, part by part; `said` what the last record on
    each ref was.
    """

    def __init__(self, line: Line) -> None:
        self.line = line
        self.state: dict[str, PartProgress] = {}
        self.base: dict[str, dict[str, int]] = {}
        self.commits: dict[str, int] = {}
        self.finished: dict[tuple[str, str], int] = {}
        self.said: dict[str, Progress] = {}
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.ours = self.others = 0

    def take(self, step: Step) -> None:
        if step.replayed is not None:
            self.notes.append(f"{step.id}: {count(step.replayed, 'row')} came out of quarantine")
            self.ours += step.progress is None  # else it is counted below
        elif step.staged:
            self.ours += 1
        elif step.progress is None and step.back_to is None:
            self._foreign(step)
        if step.back_to is not None:
            self._back(step)
        elif step.progress is not None:
            self._sink_step(step, step.progress)

    def _foreign(self, step: Step) -> None:
        self.others += 1
        if step.deleted and step.operation != "replace":
            self.notes.append(
                f"{step.id}: {count(step.deleted, 'row')} removed and {step.added:,} added outside the sinks "
                f"({step.operation})"
            )
        elif step.deleted != step.added and step.operation == "replace":
            self.notes.append(f"{step.id}: a rewrite took {step.deleted:,} rows and left {step.added:,}")
        elif step.added and step.operation != "replace":
            self.notes.append(f"{step.id}: {count(step.added, 'row')} added outside the sinks")

    def _sink_step(self, step: Step, after: Progress) -> None:
        self.ours += 1
        if not self.line.from_first:
            self._begin(self._first_seen(after), step.claim)
        before = Progress(
            {name: part for name, part in self.state.items() if name in after.parts or self._belongs(name, step.ref)}
        )
        known = self._published(before, after, step)
        self.problems += [f"{step.id}: {text}" for text in compare_steps(known, after, step.claim)]
        if step.claim is not None:
            self._count(step, step.claim)
            if step.added and is_standing(step.claim):
                self.problems.append(
                    f"{step.id}: part '{step.claim['part']}': {count(step.added, 'row')} came in at a position "
                    f"reached before"
                )
        self.state.update(after.parts)
        self.said[step.ref] = after

    def _first_seen(self, after: Progress) -> Mapping[str, PartProgress]:
        """The parts that older, expired commits may have recorded: all at the first record, or at the first
        that names a part.
        """
        if not self.said:
            return after.parts
        return (
            {} if self.line.tells_all else {name: part for name, part in after.parts.items() if name not in self.state}
        )

    def _begin(self, parts: Mapping[str, PartProgress], claim: Mapping[str, Any] | None) -> None:
        """What the oldest kept commit has found: the base of the proof."""
        for name, part in parts.items():
            begun = before_claim(part, claim) if claim is not None and claim["part"] == name else part
            self.state[name], self.base[name] = begun, dict(begun.offsets)

    def _belongs(self, part: str, ref: str) -> bool:
        """Whether a record on the ref must name the part: it did the last time."""
        return part in self.said.get(ref, Progress()).parts or (
            ref not in self.said and not self.said and part in self.state
        )

    def _published(self, before: Progress, after: Progress, step: Step) -> Progress:
        """Parts that moved on another ref of this line, and whose word counts here from now on, have moved rightly."""
        for name, part in after.parts.items():
            said = [progress.part(name) for ref, progress in self.said.items() if ref != step.ref]
            if part in said and before.part(name) != part:
                before = before.with_part(name, part)
        return before

    def _count(self, step: Step, claim: Mapping[str, Any]) -> None:
        name = claim["part"]
        self.commits[name] = self.commits.get(name, 0) + 1
        for source in claim["to"]:
            if source not in claim["from"] and (name, source) in self.finished:
                end = self.finished[name, source]
                self.problems.append(
                    f"{step.id}: part '{name}', source partition '{source}': finished at {end} before, begins again"
                )
        for source in claim.get("done", ()):
            self.finished[name, source] = claim["to"].get(
                source, self.state.get(name, PartProgress()).offsets.get(source, 0)
            )

    def _back(self, step: Step) -> None:
        """A rollback: the line goes on from an older commit, with that one's progress or with that of the moment."""
        self.others += 1
        after, is_first = step.progress, not self.said and not self.line.from_first
        if after is None or is_first:
            self.notes.append(f"{step.id}: back to {step.back_to}")
            self._begin(after.parts if after else {}, None)
            self.said.update({step.ref: after} if after else {})
            return
        moved = {
            name: part
            for name, part in after.parts.items()
            if _place(part) != _place(self.state.get(name, PartProgress()))
        }
        if not moved:
            self.notes.append(f"{step.id}: back to {step.back_to}, with the progress: what was undone comes again")
        else:
            unproved = "" if self.line.is_recorded(after) else "; whether the progress was that, no kept commit tells"
            undone = "; ".join(f"{name} at {_spell(part.offsets)}" for name, part in sorted(moved.items()))
            self.notes.append(
                f"{step.id}: back to {step.back_to}, without the progress: what was undone stays out "
                f"({undone}){unproved}"
            )
        self.state.update(after.parts)
        self.said[step.ref] = after

    def finish(self) -> AuditReport:
        now, last = self.line.now, self.said.get(self.line.ref, Progress())
        if now.parts and not self.said and self.line.from_first:
            self.problems.append("no commit says anything of progress: what the table says of it stands alone")
        elif now.parts and not self.said:
            self.notes.append(
                "no kept commit is a sink's: what the table says of progress is the base, and all there is"
            )
            self.base = {name: dict(part.offsets) for name, part in now.parts.items()}
        else:
            self._compare_with_now(now, last)
        for name in sorted({*self.state} - {*now.parts, *last.parts}) if self.line.ref == MAIN else ():
            self.notes.append(
                f"part '{name}' wrote to a branch that main has taken in without its progress: on main, it would "
                f"start over"
            )
        finished = [name for name, _ in self.finished]
        names = sorted({*now.parts, *last.parts})
        reports = [
            PartReport(
                name,
                self.commits.get(name, 0),
                self.base.get(name, {}),
                dict(now.part(name).offsets),
                finished.count(name),
            )
            for name in names
        ]
        return AuditReport(
            self.ours, self.others, self.line.from_first, tuple(reports), tuple(self.notes), tuple(self.problems)
        )

    def _compare_with_now(self, now: Progress, last: Progress) -> None:
        for name in sorted({*now.parts, *last.parts}):
            said = {ref: progress.part(name) for ref, progress in self.said.items() if name in progress.parts}
            if not said and not self.line.from_first and not self.line.tells_all:
                self.base[name] = dict(now.part(name).offsets)  # none of its commits is kept
            elif now.part(name) not in said.values():
                left = said.get(self.line.ref) or next(iter(said.values()), PartProgress())
                problem = (
                    f"the progress of '{self.line.ref}' is {_full(now.part(name))}, but its last commit has left "
                    f"{_full(left)}"
                )
                self.problems.append(
                    f"part '{name}': {problem}; was it edited, or the table rolled back by another tool?"
                )


def compare_steps(before: Progress, after: Progress, claim: Mapping[str, Any] | None) -> Iterator[str]:
    """What is wrong between two steps that follow each other."""
    for name in sorted({*before.parts, *after.parts}):
        old, new = before.part(name), after.part(name)
        if claim is not None and claim["part"] == name:
            yield from _compare_claim(name, old, new, claim)
        elif _place(old) != _place(new):
            yield f"part '{name}' moved from {_spell(old.offsets)} to {_spell(new.offsets)} without a commit of its own"
        elif new.generation < old.generation:
            yield f"part '{name}': writer generation {new.generation} follows {old.generation}"
        elif new.writer != old.writer and new.generation == old.generation:
            yield f"part '{name}': another writer has generation {new.generation}, too"


def _compare_claim(name: str, old: PartProgress, new: PartProgress, claim: Mapping[str, Any]) -> Iterator[str]:
    is_takeover = bool(claim.get("takeover"))  # the writer's first commit, which took over from the writer before
    expected = old.generation + is_takeover
    if (claim["generation"], new.generation) != (expected, expected) or (new.writer != old.writer) != is_takeover:
        yield (
            f"part '{name}': a commit of writer generation {claim['generation']}, though {old.generation} had taken "
            f"over"
        )
    if claim["commit"] != old.commits + 1:
        yield f"part '{name}': commit {claim['commit']} follows commit {old.commits}"
    ranges = [
        _compare_range(claim["from"].get(source), end, old.offsets.get(source)) for source, end in claim["to"].items()
    ]
    for source, problem in zip(claim["to"], ranges, strict=True):
        if problem:
            yield f"part '{name}', source partition '{source}': {problem}"
    done = set(claim.get("done", ()))
    led_to = {source: offset for source, offset in {**old.offsets, **claim["to"]}.items() if source not in done}
    if not any(ranges) and dict(new.offsets) != led_to:
        yield f"part '{name}' says that it reached {_spell(new.offsets)}, but its commit leads to {_spell(led_to)}"


def _compare_range(start: int | None, end: int, reached: int | None) -> str | None:
    if start != reached:
        kind = "overlap" if reached is not None and (start is None or start < reached) else "gap"
        return f"{kind}: {_at(start)} to {end} follows {_at(reached)}"
    return f"overlap: it goes back from {start} to {end}" if start is not None and end < start else None


def is_standing(claim: Mapping[str, Any]) -> bool:
    """Whether a commit names source partitions, and none of them moved in it.

    >>> is_standing({"from": {"a": 5}, "to": {"a": 5}}), is_standing({"from": {"a": 5}, "to": {"a": 5, "b": 1}}), is_standing({"to": {}})
    (True, False, False)
    """  # noqa: E501
    return bool(claim["to"]) and all(claim["from"].get(source) == end for source, end in claim["to"].items())


def before_claim(part: PartProgress, claim: Mapping[str, Any]) -> PartProgress:
    """The progress before a commit, from what it says it has consumed and what was after it.

    >>> claim = {"commit": 3, "from": {"a": 10, "c": 1}, "to": {"a": 20, "b": 5, "c": 9}, "done": ["c"]}
    >>> before_claim(PartProgress(1, "w", 3, {"a": 20, "b": 5}), claim).offsets
    {'a': 10, 'c': 1}
    """
    untouched = {source: offset for source, offset in part.offsets.items() if source not in claim["to"]}
    if claim.get("takeover"):
        part = replace(part, generation=part.generation - 1, writer="")
    return replace(part, commits=claim["commit"] - 1, offsets={**untouched, **claim["from"]})


def _place(part: PartProgress) -> tuple[int, dict[str, int]]:
    return part.commits, dict(part.offsets)


def _full(part: PartProgress) -> str:
    return f"generation {part.generation}, commit {part.commits}, {_spell(part.offsets)}"


def _spell(offsets: Mapping[str, int]) -> str:
    return ", ".join(f"{source}: {offset}" for source, offset in sorted(offsets.items())) or "its beginning"


def _at(offset: int | None) -> str:
    return "its beginning" if offset is None else str(offset)
