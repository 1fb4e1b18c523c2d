"""What a plan left out, and why: for each layer of the metadata tree how many there were, how many were skipped, and by
which term.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.tree import Tree


MANIFESTS = "manifests by partition summaries"
PARTITIONS = "data files by partition"
BOUNDS = "data files by column bounds"
ROW_GROUPS = "row groups"


@dataclass(frozen=True)
class EngineReport:
    """An engine's plan for a scan."""

    engine: str
    pushed: tuple[str, ...]  # filters that the scan of the table gets, in the engine's words
    kept: tuple[str, ...]  # filters that the engine applies itself, to rows that it has read
    columns: tuple[str, ...]  # that the scan is asked for
    files: int | None  # that it reads; None where the plan does not tell
    plan: str

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        facts = {"engine": self.engine, "pushed-down": list(self.pushed), "not-pushed-down": list(self.kept)}
        return {**facts, "columns": list(self.columns), "files": self.files, "plan": self.plan}


@dataclass(slots=True)
class Layer:
    """One layer: what was looked at, and what was skipped without looking inside."""

    name: str
    total: int = 0
    skipped: int = 0
    bytes: int = 0
    bytes_skipped: int = 0
    by_term: dict[str, int] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        return self.total - self.skipped

    def skip(self, term: str, count: int) -> None:
        if count:
            self.skipped += count
            self.by_term[term] = self.by_term.get(term, 0) + count

    def add(self, other: Layer) -> None:
        """Counts what another has counted."""
        self.total += other.total
        self.bytes += other.bytes
        self.bytes_skipped += other.bytes_skipped
        for term, count in other.by_term.items():
            self.skip(term, count)

    def to_json(self) -> dict[str, Any]:
        facts = {"layer": self.name, "total": self.total, "skipped": self.skipped, "bytes": self.bytes}
        return {**facts, "bytes-skipped": self.bytes_skipped, "skipped-by": dict(self.by_term)}


@dataclass(slots=True)
class ScanReport:
    """How a plan came about. `to_json()` for programs, `tree()` for the terminal."""

    table: str
    snapshot_id: int | None
    filter: str
    layers: dict[str, Layer] = field(
        default_factory=lambda: {name: Layer(name) for name in (MANIFESTS, PARTITIONS, BOUNDS)}
    )
    files: int = 0
    rows: int = 0
    bytes: int = 0
    delete_files: int = 0
    manifests_read: int = 0  # the others came from the cache, or were not needed
    snapshots: int = 0  # manifest lists that were read: one, or one for each snapshot of an incremental scan
    snapshots_kept: int = 0  # that the table has
    engine: EngineReport | None = None  # what another engine makes of the same scan

    def layer(self, name: str) -> Layer:
        return self.layers[name]

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        kept = {"files": self.files, "rows": self.rows, "bytes": self.bytes, "delete-files": self.delete_files}
        about = {
            "table": self.table,
            "snapshot-id": self.snapshot_id,
            "filter": self.filter,
            "manifests-read": self.manifests_read,
        }
        lists = {"total": self.snapshots_kept, "read": self.snapshots}
        found = {
            **about,
            "manifest-lists": lists,
            "layers": [layer.to_json() for layer in self.layers.values()],
            "kept": kept,
        }
        return found if self.engine is None else {**found, "engine": self.engine.to_json()}

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=160, color_system=None)
        with console.capture() as text:
            console.print(self.tree())
        return text.get().rstrip()

    def tree(self) -> Tree:
        """The report as a tree for the terminal."""
        from rich.markup import escape
        from rich.tree import Tree

        at = "no snapshot yet" if self.snapshot_id is None else f"snapshot {self.snapshot_id}"
        root = Tree(escape(f"{self.table}, {at}, where {self.filter}"))
        root.add(f"manifest lists: {_many(self.snapshots, 'list')} read of {_many(self.snapshots_kept, 'snapshot')}")
        for layer in self.layers.values():
            self._add(root, layer)
        deletes = f", {_many(self.delete_files, 'delete file')}" if self.delete_files else ""
        root.add(f"to read: {_many(self.files, 'file')}, {_many(self.rows, 'row')}, {show_bytes(self.bytes)}{deletes}")
        if self.engine is not None:
            _add_engine(root, self.engine)
        return root

    def _add(self, root: Tree, layer: Layer) -> None:
        from rich.markup import escape

        share = f", {show_bytes(layer.bytes_skipped)} of {show_bytes(layer.bytes)} not read" if layer.skipped else ""
        branch = root.add(f"{layer.name}: {layer.skipped:,} of {layer.total:,} skipped{share}")
        for term, count in _by_count(layer.by_term):
            branch.add(escape(f"{count:,} by {term}"))


def _add_engine(root: Tree, found: EngineReport) -> None:
    from rich.markup import escape

    files = "" if found.files is None else f", {_many(found.files, 'file')} to read"
    branch = root.add(f"on {found.engine}: columns {escape(', '.join(found.columns) or 'all')}{files}")
    for word, filters in (("pushed down", found.pushed), ("not pushed down", found.kept)):
        part = branch.add(f"{word}: {_many(len(filters), 'filter')}")
        for one in filters:
            part.add(escape(one))


def _by_count(terms: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(terms.items(), key=lambda item: -item[1])


def _many(count: int, what: str) -> str:
    """
    >>> _many(1, "file"), _many(1200, "file")
    ('1 file', '1,200 files')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def show_bytes(count: int) -> str:
    """
    >>> show_bytes(512), show_bytes(1536), show_bytes(5_000_000_000)
    ('512 B', '1.5 KiB', '4.7 GiB')
    """
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
