"""What is left of a filter for the rows of a file, once its partition is known. Each partition is thought about once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from threading import Lock

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, BoundNotEqualTo, BoundNotIn, BoundNotStartsWith, Or
from pyiceberg.expressions.visitors import ResidualEvaluator, extract_field_ids
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField

from frazil.scan.manifests import Manifest
from frazil.scan.partitions import python_values

MOST_KNOWN = 100_000


class Residuals:
    """The residuals of one filter, by spec and by the values of those partition fields that have something to do with it."""

    def __init__(self, expr: BooleanExpression, bound: BooleanExpression, schema: Schema, *, case_sensitive: bool) -> None:
        self._expr, self._bound, self._schema, self._case_sensitive = expr, bound, schema, case_sensitive
        self._known: dict[tuple[int, tuple[object, ...]], BooleanExpression] = {}
        self._lock = Lock()
        self._evaluators: dict[int, ResidualEvaluator] = {}

    @cached_property
    def _columns(self) -> set[int]:
        return set(extract_field_ids(self._bound))

    @cached_property
    def _tells_apart(self) -> bool:
        """Whether something in the filter asks for what differs."""
        pending = [self._bound]
        while pending:
            one = pending.pop()
            if isinstance(one, BoundNotEqualTo | BoundNotIn | BoundNotStartsWith):
                return True
            pending += [one.left, one.right] if isinstance(one, And | Or) else []
        return False

    def of(
        self, spec: PartitionSpec, fields: Sequence[NestedField], manifest: Manifest, rows: pa.Array | None
    ) -> list[BooleanExpression] | BooleanExpression:
        """The residual of each row of a manifest, or the one that all have."""
        if isinstance(self._bound, AlwaysTrue):
            return self._bound
        concerned = [(at, field) for at, field in enumerate(fields) if spec.fields[at].source_id in self._columns]
        values = [_or_none(manifest, field, rows) for _, field in concerned]
        if not concerned or any(column is None for column in values):
            return self._expr
        positions = tuple(at for at, _ in concerned)
        return [self._one(spec, positions, row) for row in zip(*(column for column in values if column is not None), strict=True)]

    def _one(self, spec: PartitionSpec, positions: tuple[int, ...], row: tuple[object, ...]) -> BooleanExpression:
        if None in row and self._tells_apart:
            return self._expr  # PyIceberg thinks that null differs from every value, which SQL does not: all of the filter is always right
        key = (spec.spec_id, row)
        found = self._known.get(key)
        if found is None:
            full: list[object] = [None] * len(spec.fields)
            for at, value in zip(positions, row, strict=True):
                full[at] = value
            with self._lock:  # PyIceberg's evaluator keeps the partition in itself
                found = self._evaluate(spec, Record(*full))
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()
                self._known[key] = found
        return found

    def _evaluate(self, spec: PartitionSpec, partition: Record) -> BooleanExpression:
        try:
            return self._evaluator(spec).residual_for(partition)
        except TypeError:
            return self._expr  # PyIceberg compares a partition that is null

    def _evaluator(self, spec: PartitionSpec) -> ResidualEvaluator:
        if spec.spec_id not in self._evaluators:
            self._evaluators[spec.spec_id] = ResidualEvaluator(self._schema, spec, self._case_sensitive, self._expr)
        return self._evaluators[spec.spec_id]


def _or_none(manifest: Manifest, field: NestedField, rows: pa.Array | None) -> list[object] | None:
    values = manifest.partition_values(field)
    if values is None:
        return None
    return python_values(values if rows is None else values.take(rows), field)
