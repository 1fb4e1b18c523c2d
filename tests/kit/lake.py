"""A catalog for tests that need one and nothing else."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.table import Table

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.sinks.audit import audit


@contextmanager
def lake_catalog(*, allow_overlap: bool = False) -> Iterator[FrazilCatalog]:
    """A client of a catalog of its own, with the namespace `lake`; both end with the block."""
    with running_catalog(allow_overlap=allow_overlap) as server:
        client = FrazilCatalog("lake", **server.properties)
        client.create_namespace("lake")
        yield client


@dataclass
class LakeTable:
    """A table with an `id`, of a name of its own in the namespace `lake`; tests add what they do to it."""

    catalog: Any  # FrazilCatalog, or another catalog that a sink can commit to
    name: tuple[str, ...] = field(default_factory=lambda: ("lake", f"t{uuid.uuid4().hex[:8]}"))

    def table(self) -> Table:
        table: Table = self.catalog.load_table(self.name)
        return table

    def ids(self, ref: str = "main") -> list[int]:
        """The ids that a branch or tag holds, sorted; none, while nothing is committed."""
        snapshot = self.table().snapshot_by_name(ref)
        rows = self.table().scan(snapshot_id=snapshot.snapshot_id if snapshot else None).to_arrow()
        return sorted(rows["id"].to_pylist())

    def branches(self) -> list[str]:
        return [name for name in self.table().metadata.refs if name != "main"]

    def problems(self) -> tuple[str, ...]:
        """What the audit finds."""
        return audit(self.table().metadata).problems
