"""What a declared table consists of, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from frazil.tables.indexes import Embedder
from frazil.tables.terms import PartitionTerm, SortTerm, parse_partition, parse_sort
from frazil.tables.types import Column


@dataclass(frozen=True, init=False)
class TableFields:
    """The values of a declared table, which `Table` checks."""

    name: str
    columns: tuple[Column, ...]
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    format_version: int | None = None
    location: str | None = None
    dropped: tuple[str, ...] = ()
    grants: Mapping[str, tuple[str, ...]] | None = None  # privileges by role, or by user:NAME; None: not declared
    embedders: Mapping[str, Embedder] = field(default_factory=dict, compare=False, repr=False)  # by column

    @property
    def identifier(self) -> tuple[str, ...]:
        return tuple(self.name.split("."))

    @property
    def namespace(self) -> tuple[str, ...]:
        return self.identifier[:-1]

    @property
    def partition_terms(self) -> tuple[PartitionTerm, ...]:
        return tuple(map(parse_partition, self.partition_by))

    @property
    def sort_terms(self) -> tuple[SortTerm, ...]:
        return tuple(map(parse_sort, self.sort_by))
