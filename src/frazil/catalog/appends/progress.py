"""What the append of a sink says of its progress, and the same after commits of other parts. Pure.

A sink keeps the progress of all its parts in one table property, with a copy in the summary. A commit that depends on
the progress of its own part alone says so, and may be rebased if that part is where its writer left it. This is the
comparison that the writer makes after a conflict (`write.commit.progress.apply_claim`): one that was fenced, or has
committed before, gets the conflict and looks. The entries of other parts are those of the head.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frazil.catalog.appends.problems import NotRebased
from frazil.protocol import CLAIM_REBASES, PROPERTY_PROGRESS_PREFIX, SUMMARY_COMMIT, SUMMARY_PROGRESS

PROPERTY = f"{PROPERTY_PROGRESS_PREFIX}main"  # of a branch of another name: snapshots have the last word, not this
MARKS = frozenset((SUMMARY_PROGRESS, SUMMARY_COMMIT))
_VERSION = 1
# A claim with anything else (a takeover, inputs, marks of a query) depends on more than its part.
_CLAIM = frozenset(("part", "generation", "commit", "from", "to", "done", CLAIM_REBASES))

Offsets = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Entry:
    """The progress of a part, as the property has it."""

    generation: int
    writer: str
    commits: int
    offsets: Offsets
    facts: tuple[Any, ...] = ()  # of models: not read here

    def dump(self) -> list[Any]:
        return [self.generation, self.writer, self.commits, dict(self.offsets), *self.facts]


@dataclass(frozen=True, slots=True)
class PartCommit:
    """What a part has consumed with a commit, and its progress once that is in."""

    part: str
    after: Entry
    start: Offsets
    end: Offsets
    done: frozenset[str]

    def follows(self, before: Entry) -> bool:
        """Whether this is the next commit of the same writer, from where the part is."""
        reached = {name: offset for name, offset in {**before.offsets, **self.end}.items() if name not in self.done}
        return self.after == Entry(before.generation, before.writer, before.commits + 1, reached, before.facts) and all(
            before.offsets.get(name) == self.start.get(name) for name in self.end
        )


def read_part_commit(summary: Mapping[str, str], properties: object) -> PartCommit:
    """What a sink's commit says of its part; NotRebased unless it depends on nothing else."""
    text = summary.get(SUMMARY_PROGRESS)
    if text is None or properties != {PROPERTY: text}:
        raise NotRebased("it sets properties of the table")
    claim = _read_json(summary.get(SUMMARY_COMMIT))
    if claim.get(CLAIM_REBASES) is not True or not claim.keys() <= _CLAIM:
        raise NotRebased("its writer does not say that it depends on the progress of its part alone")
    part, done = claim.get("part"), claim.get("done", [])
    if not isinstance(part, str) or not isinstance(done, list) or not all(isinstance(name, str) for name in done):
        raise NotRebased("its commit does not name its part")
    entry = _read_parts(text).get(part)
    if entry is None or (entry.generation, entry.commits) != (claim.get("generation"), claim.get("commit")):
        raise NotRebased("its commit and its progress differ")
    return PartCommit(part, entry, _offsets(claim.get("from")), _offsets(claim.get("to")), frozenset(done))


def advance(text: str | None, commit: PartCommit) -> str:
    """The property once the commit is in, after that of now; NotRebased unless its part is where its writer left it.

    >>> first = PartCommit("s/0", Entry(1, "w", 1, {"p": 5}), {}, {"p": 5}, frozenset())
    >>> advance('{"v":1,"parts":{"s/0":[1,"w",0,{}],"s/1":[1,"x",7,{"q":9}]}}', first)
    '{"v":1,"parts":{"s/0":[1,"w",1,{"p":5}],"s/1":[1,"x",7,{"q":9}]}}'
    """
    parts = _read_parts(text)
    before = parts.get(commit.part)
    if before is None or not commit.follows(before):
        raise NotRebased(f"part {commit.part[:100]!r} is not where its writer left it")
    entries = {name: entry.dump() for name, entry in sorted({**parts, commit.part: commit.after}.items())}
    return json.dumps({"v": _VERSION, "parts": entries}, separators=(",", ":"))


def _read_parts(text: str | None) -> dict[str, Entry]:
    value = _read_json(text)
    parts = value.get("parts")
    if value.keys() != {"v", "parts"} or value["v"] != _VERSION or not isinstance(parts, dict):
        raise NotRebased("the progress of the table is of an unknown form")
    return {name: _read_entry(entry) for name, entry in parts.items()}


def _read_entry(value: object) -> Entry:
    if not isinstance(value, list) or len(value) < 4:
        raise NotRebased("the progress of a part is of an unknown form")
    generation, writer, commits, offsets, *facts = value
    if type(generation) is not int or not isinstance(writer, str) or type(commits) is not int:
        raise NotRebased("the progress of a part is of an unknown form")
    return Entry(generation, writer, commits, _offsets(offsets), tuple(facts))


def _offsets(value: object) -> Offsets:
    if not isinstance(value, dict) or not all(type(offset) is int for offset in value.values()):
        raise NotRebased("its offsets are no numbers")
    return value


def _read_json(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError) as exc:
        raise NotRebased("its progress cannot be read") from exc
    if not isinstance(value, dict):
        raise NotRebased("its progress cannot be read")
    return value
