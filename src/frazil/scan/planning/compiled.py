"""A filter made ready for a table: bound to a schema, cut into terms, projected onto each partition spec. Kept, since
scans repeat.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from threading import Lock

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import extract_field_ids
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from frazil.scan.manifests import ManifestCache, Read
from frazil.scan.planning.filters import bind_filter, show, split_terms
from frazil.scan.planning.partitions import partition_fields, project
from frazil.scan.planning.residuals import Residuals
from frazil.scan.planning.table import TableState

KEPT_LENGTH = 20_000  # of a filter as text: longer ones would fill the memory, and seldom come again

Term = tuple[str, BooleanExpression]  # as people read it, and bound


class CompiledFilter:
    """What a filter means for each schema, spec and partition."""

    def __init__(self, expr: BooleanExpression, schema: Schema, *, table: str, case_sensitive: bool) -> None:
        self.schema = schema
        self.bound = bind_filter(expr, schema, table=table, case_sensitive=case_sensitive)
        self.terms: list[Term] = [(show(term, schema), term) for term in split_terms(self.bound)]
        self.columns: frozenset[int] = frozenset(extract_field_ids(self.bound))
        self.residuals = Residuals(expr, self.bound, schema, case_sensitive=case_sensitive)
        self._fields: dict[int, tuple[NestedField, ...]] = {}
        self._projected: dict[int, list[Term]] = {}

    @cached_property
    def text(self) -> str:
        return show(self.bound, self.schema)

    def fields(self, spec: PartitionSpec) -> tuple[NestedField, ...]:
        """The partition fields of a spec, with their types."""
        if spec.spec_id not in self._fields:
            self._fields[spec.spec_id] = partition_fields(spec, self.schema)
        return self._fields[spec.spec_id]

    def projected(self, spec: PartitionSpec) -> list[Term]:
        """The terms as predicates on the partitions of a spec; those that say nothing about them are left out."""
        if spec.spec_id not in self._projected:
            fields = self.fields(spec)
            terms = [(name, project(term, spec, self.schema, fields)) for name, term in self.terms] if fields else []
            self._projected[spec.spec_id] = [(name, term) for name, term in terms if not isinstance(term, AlwaysTrue)]
        return self._projected[spec.spec_id]


class ScanCache(ManifestCache):
    """What scans of a warehouse share: its decoded manifests, and the filters that were compiled lately."""

    def __init__(self, read: Read, *, max_bytes: int = 512 * 1024 * 1024, most_filters: int = 256) -> None:
        super().__init__(read, max_bytes=max_bytes)
        self._filters: OrderedDict[tuple[str, int, bool, str], CompiledFilter] = OrderedDict()
        self._most_filters, self._filter_lock = most_filters, Lock()

    def filter(
        self, table: TableState, schema_id: int | None, expr: BooleanExpression, *, case_sensitive: bool
    ) -> CompiledFilter:
        """The filter, compiled for this table."""
        wanted = table.current_schema_id if schema_id is None else schema_id
        key = (table.uuid, wanted, case_sensitive, repr(expr))
        with self._filter_lock:
            if key in self._filters:
                self._filters.move_to_end(key)
                return self._filters[key]
        compiled_filter = CompiledFilter(expr, table.schema(wanted), table=table.name, case_sensitive=case_sensitive)
        if len(key[3]) > KEPT_LENGTH:
            return compiled_filter
        with self._filter_lock:
            self._filters[key] = compiled_filter
            while len(self._filters) > self._most_filters:
                self._filters.popitem(last=False)
        return compiled_filter
