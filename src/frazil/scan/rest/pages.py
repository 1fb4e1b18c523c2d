"""A plan in pages: each is a span of the manifests' files, so that any server can make the page from the span, without
the pages before.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa

from frazil.scan.planning import Group, Planner, Unit

PAGE_FILES = 5_000  # about 2 MB of JSON
LOOK_FILES = 200_000  # how many files one answer looks at; what lies behind is left to further answers

Place = tuple[int, int]  # a manifest's number in the scan, and a row in it


@dataclass(frozen=True, slots=True)
class Span:
    """From a place up to another, which is not part of it; None is the end."""

    start: Place = (0, 0)
    stop: Place | None = None

    def rows_of(self, number: int) -> tuple[int, int | None]:
        """Which rows of a manifest lie in the span."""
        first = self.start[1] if number == self.start[0] else 0
        return first, self.stop[1] if self.stop is not None and number == self.stop[0] else None

    def has(self, number: int) -> bool:
        if number < self.start[0]:
            return False
        return self.stop is None or number < self.stop[0] or (number == self.stop[0] and self.stop[1] > 0)


@dataclass(frozen=True, slots=True)
class Page:
    """The files to read now, and the spans that hold the others."""

    groups: list[Group]
    rest: list[Span]

    def __len__(self) -> int:
        return sum(len(group) for group in self.groups)

    @property
    def rows(self) -> int:
        return sum(sum(group.column("records").to_pylist()) for group in self.groups)


def make_page(planner: Planner, span: Span, *, page_files: int = PAGE_FILES, look_files: int = LOOK_FILES) -> Page:
    """The first page of a span. All pages of a scan together have every file once, whichever server makes them, in
    whichever order.
    """
    numbered = [(number, unit) for number, unit in enumerate(planner.units()) if span.has(number)]
    kept = {id(unit) for unit in planner.keep_units([unit for _, unit in numbered])}
    pages, unseen = _Pages(page_files), None
    looked, wanted = 0, [(number, unit) for number, unit in numbered if id(unit) in kept]
    with closing(planner.fetch([unit for _, unit in wanted])) as contents:
        for number, unit in wanted:
            if looked >= look_files:
                unseen = max((number, 0), span.start)
                break
            group = planner.open(unit, *span.rows_of(number), content=next(contents))
            looked += len(group.manifest)
            pages.add(number, group)
    rest = pages.spans(span.stop if unseen is None else unseen)
    return Page(pages.first, rest if unseen is None else [*rest, *_cut(numbered, kept, unseen, span.stop, look_files)])


class _Pages:
    """Fills pages with files: keeps those of the first, and remembers where the others start."""

    def __init__(self, size: int) -> None:
        self._size, self._room = size, size
        self.first: list[Group] = []
        self._starts: list[Place] = []

    def add(self, number: int, group: Group) -> None:
        at = 0
        while at < len(group):
            if self._room == 0:
                self._starts.append((number, at if group.rows is None else group.rows[at].as_py()))
                self._room = self._size
            some = min(self._room, len(group) - at)
            if not self._starts:
                self.first.append(_slice(group, at, some))
            at, self._room = at + some, self._room - some

    def spans(self, end: Place | None) -> list[Span]:
        """The pages after the first."""
        stops: list[Place | None] = [*self._starts[1:], end]
        return [Span(start, stop) for start, stop in zip(self._starts, stops, strict=False)]


def _slice(group: Group, at: int, count: int) -> Group:
    if at == 0 and count == len(group):
        return group
    rows = pa.array(range(at, at + count), pa.int64()) if group.rows is None else group.rows.slice(at, count)
    return replace(group, rows=rows)


def _cut(
    numbered: list[tuple[int, Unit]], kept: set[int], start: Place, stop: Place | None, look_files: int
) -> list[Span]:
    """What has not been looked at, in spans that one answer can look at; by what the manifest list says about their
    sizes.
    """
    starts, room = [start], look_files
    for number, unit in numbered:
        if number < start[0] or id(unit) not in kept:
            continue
        if room <= 0:
            starts.append((number, 0))
            room = look_files
        room -= unit.listed.live(unit.at) or 1
    return [Span(first, last) for first, last in zip(starts, [*starts[1:], stop], strict=True)]
