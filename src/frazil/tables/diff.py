"""Declared against live gives steps: plain values that can be printed before anything is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.errors import DeclarationError
from frazil.tables.declare import Table

if TYPE_CHECKING:
    from pyiceberg.table import Table as LiveTable


@dataclass(frozen=True)
class CreateNamespace:
    namespace: tuple[str, ...]

    def __str__(self) -> str:
        return f"+ namespace {'.'.join(self.namespace)}"


@dataclass(frozen=True)
class CreateTable:
    table: Table

    def __str__(self) -> str:
        partitioned = f", partitioned by {', '.join(self.table.partition_by)}" if self.table.partition_by else ""
        return f"+ table {self.table.name} ({len(self.table.columns)} columns{partitioned})"


Step = CreateNamespace | CreateTable


def diff(declared: Table, *, namespace_exists: bool, live: LiveTable | None) -> list[Step]:
    """The steps that make the live table what is declared; none if it is that already."""
    if live is not None:
        _refuse_changes(declared, live)
        return []
    steps: list[Step] = [] if namespace_exists else [CreateNamespace(declared.namespace)]
    return [*steps, CreateTable(declared)]


def _refuse_changes(declared: Table, live: LiveTable) -> None:
    """Evolution is not written yet: a difference is an error, never ignored."""
    wanted = [(c.name, str(f.field_type), c.required) for c, f in zip(declared.columns, declared.schema().fields, strict=True)]
    found = [(f.name, str(f.field_type), f.required) for f in live.schema().fields]
    spec = [(f.name, str(f.transform)) for f in declared.partition_spec().fields]
    live_spec = [(f.name, str(f.transform)) for f in live.spec().fields]
    if wanted != found or spec != live_spec:
        differs = sorted({name for name, *_ in set(wanted) ^ set(found)} | {name for name, _ in set(spec) ^ set(live_spec)})
        raise DeclarationError(
            f"table '{declared.name}' exists and differs from its declaration in: {', '.join(differs) or 'the order of columns'}",
            hint="change the declaration back, or the table with ALTER TABLE in Spark or Trino",
        )
