"""What is left of a filter for the rows of a file, once its partition is known. Memoised per
partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from threading import Lock

import pyarrow as pa
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundNotEqualTo,
    BoundNotIn,
    BoundNotStartsWith,
    BoundPredicate,
    Or,
    UnboundPredicate,
)
from pyiceberg.expressions.visitors import ResidualEvaluator, extract_field_ids, visit_bound_predicate
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import FloatType, NestedField

from frazil.scan.manifests import Manifest
from frazil.scan.planning.partitions import python_values

MOST_KNOWN = 100_000


class Residuals:
    """The residuals of one filter, by spec and by the values of those partition fields that have something to do with
    it.
    """

    def __init__(
        self, expr: BooleanExpression, bound: BooleanExpression, schema: Schema, *, case_sensitive: bool
    ) -> None:
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
            expression = pending.pop()
            if isinstance(expression, BoundNotEqualTo | BoundNotIn | BoundNotStartsWith):
                return True
            pending += [expression.left, expression.right] if isinstance(expression, And | Or) else []
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
        return [
            self._one(spec, positions, row)
            for row in zip(*(column for column in values if column is not None), strict=True)
        ]

    def _one(self, spec: PartitionSpec, positions: tuple[int, ...], row: tuple[object, ...]) -> BooleanExpression:
        if None in row and self._tells_apart:
            # PyIceberg thinks that null differs from every value, which SQL does not: all of the filter is always right
            return self._expr
        key = (spec.spec_id, row)
        evaluate = self._known.get(key)
        if evaluate is None:
            full: list[object] = [None] * len(spec.fields)
            for at, value in zip(positions, row, strict=True):
                full[at] = value
            with self._lock:  # PyIceberg's evaluator keeps the partition in itself
                evaluate = self._evaluate(spec, Record(*full))
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()
                self._known[key] = evaluate
        return evaluate

    def _evaluate(self, spec: PartitionSpec, partition: Record) -> BooleanExpression:
        try:
            return self._evaluator(spec).residual_for(partition)
        except TypeError:
            return self._expr  # PyIceberg compares a partition that is null

    def _evaluator(self, spec: PartitionSpec) -> ResidualEvaluator:
        if spec.spec_id not in self._evaluators:
            self._evaluators[spec.spec_id] = _Evaluator(self._schema, spec, self._case_sensitive, self._expr)
        return self._evaluators[spec.spec_id]


# a predicate on a partition field, bound; or what it always is; None if nothing can be said
Projected = BooleanExpression | None
Projection = Callable[[str, BoundPredicate], UnboundPredicate | None]


class _Evaluator(ResidualEvaluator):
    """PyIceberg's evaluator, which binds and projects every predicate again for each partition: here that is
    done once.
    """

    @cached_property
    def _partition(self) -> Schema:
        return Schema(*self.spec.partition_type(self.schema).fields)

    @cached_property
    def _prepared(self) -> dict[int, tuple[BooleanExpression, list[tuple[Projected, Projected]]]]:
        """By predicate: it, bound, and for each partition field of its column where it holds for sure and where it may
        hold.
        """
        return {}

    def visit_unbound_predicate(self, predicate: UnboundPredicate) -> BooleanExpression:
        prepared = self._prepared.get(id(predicate))
        if prepared is None:
            prepared = self._prepared[id(predicate)] = self._prepare(predicate)
        bound, fields = prepared
        if not isinstance(bound, BoundPredicate):
            return bound
        for surely, maybe in fields:
            if isinstance(self._ask(surely), AlwaysTrue):
                return AlwaysTrue()
            if isinstance(self._ask(maybe), AlwaysFalse):
                return AlwaysFalse()
        return predicate

    def _prepare(self, predicate: UnboundPredicate) -> tuple[BooleanExpression, list[tuple[Projected, Projected]]]:
        bound = predicate.bind(self.schema, case_sensitive=self.case_sensitive)
        if not isinstance(bound, BoundPredicate):
            return bound, []
        fields = self.spec.fields_by_source_id(bound.term.ref().field.field_id)
        return bound, [
            (
                self._bind(field.transform.strict_project, field.name, bound),
                self._bind(field.transform.project, field.name, bound),
            )
            for field in fields
        ]

    def _bind(self, project: Projection, name: str, bound: BoundPredicate) -> Projected:
        try:
            projected = project(name, bound)
        except OverflowError:  # `<= 9999-12-31` asks for the day after, and Python has none
            return None
        return None if projected is None else projected.bind(self._partition, case_sensitive=self.case_sensitive)

    def _ask(self, projected: Projected) -> Projected:
        """What a predicate is for the partition at hand."""
        return visit_bound_predicate(projected, self) if isinstance(projected, BoundPredicate) else projected


def _or_none(manifest: Manifest, field: NestedField, rows: pa.Array | None) -> list[object] | None:
    if isinstance(field.field_type, FloatType):
        # PyIceberg compares 0.1 with the 32-bit value of the partition, which is not 0.1; the rows are compared as
        # floats
        return None
    values = manifest.partition_values(field)
    if values is None:
        return None
    return python_values(values if rows is None else values.take(rows), field)
