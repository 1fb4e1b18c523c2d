"""What a plan left out, and why: for each layer of the metadata tree how many there were, how many were skipped, and by
which term.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frazil.units import count, size

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
        for term, skipped in other.by_term.items():
            self.skip(term, skipped)

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
        json = {
            **about,
            "manifest-lists": lists,
            "layers": [layer.to_json() for layer in self.layers.values()],
            "kept": kept,
        }
        return json if self.engine is None else {**json, "engine": self.engine.to_json()}

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
        root.add(f"manifest lists: {count(self.snapshots, 'list')} read of {count(self.snapshots_kept, 'snapshot')}")
        for layer in self.layers.values():
            self._add(root, layer)
        deletes = f", {count(self.delete_files, 'delete file')}" if self.delete_files else ""
        root.add(f"to read: {count(self.files, 'file')}, {count(self.rows, 'row')}, {size(self.bytes)}{deletes}")
        if self.engine is not None:
            _add_engine(root, self.engine)
        return root

    def _repr_html_(self) -> str:
        """The layers as a table, for a notebook."""
        from frazil.markup import html_table

        at = "no snapshot yet" if self.snapshot_id is None else f"snapshot {self.snapshot_id}"
        rows: list[tuple[object, ...]] = []
        for layer in self.layers.values():
            terms = "; ".join(f"{skipped:,} by {term}" for term, skipped in _by_count(layer.by_term))
            rows.append((layer.name, f"{layer.total:,}", f"{layer.skipped:,}", terms, size(layer.bytes_skipped)))
        deletes = f", {count(self.delete_files, 'delete file')}" if self.delete_files else ""
        to_read = f"{count(self.files, 'file')}, {count(self.rows, 'row')}{deletes}"
        rows.append(("to read", "", "", to_read, size(self.bytes)))
        table = html_table(
            ("layer", "of", "skipped", "by", "bytes"),
            rows,
            title=f"{self.table}, {at}, where {self.filter}",
            right=("of", "skipped", "bytes"),
        )
        return table if self.engine is None else table + _engine_html(self.engine)

    def _add(self, root: Tree, layer: Layer) -> None:
        from rich.markup import escape

        share = f", {size(layer.bytes_skipped)} of {size(layer.bytes)} not read" if layer.skipped else ""
        branch = root.add(f"{layer.name}: {layer.skipped:,} of {layer.total:,} skipped{share}")
        for term, skipped in _by_count(layer.by_term):
            branch.add(escape(f"{skipped:,} by {term}"))


def _add_engine(root: Tree, engine_report: EngineReport) -> None:
    from rich.markup import escape

    files = "" if engine_report.files is None else f", {count(engine_report.files, 'file')} to read"
    branch = root.add(f"on {engine_report.engine}: columns {escape(', '.join(engine_report.columns) or 'all')}{files}")
    for word, filters in (("pushed down", engine_report.pushed), ("not pushed down", engine_report.kept)):
        part = branch.add(f"{word}: {count(len(filters), 'filter')}")
        for filter_ in filters:
            part.add(escape(filter_))


def _engine_html(engine_report: EngineReport) -> str:
    from frazil.markup import html_table

    rows = [("pushed down", filter_) for filter_ in engine_report.pushed]
    rows += [("not pushed down", filter_) for filter_ in engine_report.kept]
    return html_table(("", "filter"), rows, title=f"on {engine_report.engine}")


def _by_count(terms: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(terms.items(), key=lambda item: -item[1])
