"""Runs a model or a pipeline of a project on given rows, without a catalog, and holds what it makes against the
contract of its table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from frazil.errors import FrazilError, PipelineError, ProjectError
from frazil.pipelines import Pipeline, transform
from frazil.pipelines.files import TextContract
from frazil.pipelines.models import Model, derivation_of, infer_columns
from frazil.pipelines.sources import CHANGE
from frazil.project import Project
from frazil.pyiceberg_compat import schema_without_ids, with_small_types
from frazil.spark import spark_error, spark_errors
from frazil.tables import Table, column_of
from frazil.testing.rows import Row, inferred_rows, typed_rows
from frazil.units import count
from frazil.write.contract import Contract, Rejected
from frazil.write.files import TableLayout, arrow_schema

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyspark.sql import DataFrame, SparkSession

SHOWN_REASONS = 5
SOURCE = "source"  # the input of a pipeline over files or Kafka
Inputs = Mapping[str, Sequence[Row]]


@dataclass(frozen=True)
class Computed:
    """What a model or pipeline makes: the rows that its table takes, and those that a run would quarantine."""

    rows: pa.Table
    quarantined: tuple[Rejected, ...] = ()

    def unexpected(self, quarantined: int) -> str:
        """What is wrong with the number of quarantined rows; empty if it is as expected.

        >>> row = Rejected(0, "check 'amount >= 0' failed", '{"amount": -1}')
        >>> print(Computed(pa.table({}), (row,)).unexpected(0))
        quarantined: 1 row, expected 0; check 'amount >= 0' failed: {"amount": -1}
        """
        if len(self.quarantined) == quarantined:
            return ""
        reasons = [f"{row.reason}: {row.raw}" for row in self.quarantined[:SHOWN_REASONS]]
        return "; ".join([f"quarantined: {count(len(self.quarantined), 'row')}, expected {quarantined:,}", *reasons])


@dataclass
class ModelRunner:
    """Computes models of a project in one session; types come from declared tables, and those of models from Spark."""

    project: Project
    spark: SparkSession
    _schemas: dict[str, Schema | None] = field(default_factory=dict)

    def run(self, name: str, rows: Inputs, *, quarantined: int = 0) -> pa.Table:
        """What the model or pipeline makes of these rows. Another number of quarantined rows is an error."""
        computed = self.compute(name, rows)
        if problem := computed.unexpected(quarantined):
            raise PipelineError(f"'{name}': {problem}", pipeline=name, problem="quarantined")
        return computed.rows

    def compute(self, name: str, rows: Inputs) -> Computed:
        """What the model or pipeline makes of these rows, held against types, NOT NULL and checks of its table."""
        declared = self._declared(name)
        try:
            frame = self._load(declared, rows) if _loads(declared) else self._derive(declared, rows)
            result = frame.toArrow()
        except spark_errors() as exc:
            raise PipelineError(f"'{name}': {spark_error(str(exc))}", pipeline=name) from exc
        computed = _accepted(declared, result)
        if computed.quarantined and isinstance(declared, Model):  # which have no quarantine
            row = computed.quarantined[0]
            raise PipelineError(
                f"'{name}': {row.reason}; a run would publish nothing\n  row: {row.raw}",
                pipeline=name,
                problem="rejected",
            )
        return computed

    def _declared(self, name: str) -> Model | Pipeline:
        every: list[Model | Pipeline] = [*self.project.models, *self.project.pipelines]
        named = [each for each in every if each.name == name]
        filling = [each for each in self.project.pipelines if each.target.name == name]
        if not named and len(filling) != 1:
            known = ", ".join(each.name for each in every) or "none"
            raise ProjectError(f"there is no model or pipeline '{name}'; there are: {known}", name=name)
        return (named or filling)[0]

    def _derive(self, declared: Model | Pipeline, rows: Inputs) -> DataFrame:
        derivation = derivation_of(declared)
        tables = {name: str(getattr(source, "name", name)) for name, source in derivation.inputs.items()}
        _check_inputs(declared.name, rows, tables)
        frames = {}
        for name, table in tables.items():
            own, changes = rows[name if name in rows else table], getattr(derivation.inputs[name], "changes", False)
            frames[name] = self._frame(table, own, changes=changes and derivation.takes_changes)
        return derivation.compute(self.spark, frames)

    def _load(self, declared: Model | Pipeline, rows: Inputs) -> DataFrame:
        assert isinstance(declared, Pipeline)
        _check_inputs(declared.name, rows, {SOURCE: SOURCE})
        own = rows[SOURCE]
        if str(getattr(declared.source, "format", "")) == "csv":  # all that a CSV file holds is text
            names = list(dict.fromkeys(name for row in own for name in row))
            table = typed_rows(own, pa.schema([(name, pa.string()) for name in names]), what=f"given {SOURCE}")
        else:
            table = inferred_rows(own, what=f"given {SOURCE}")
        return transform(declared, self._of_arrow(table))

    # --- inputs ------------------------------------------------------------------------------------------------------

    def _frame(self, table: str, rows: Sequence[Row], *, changes: bool = False) -> DataFrame:
        """The rows of an input; `changes` are inserted rows, unless a row says that it was deleted."""
        schema, what = self._schema(table), f"given {table}"
        if changes:
            rows = [{CHANGE: "INSERT", **row} for row in rows]
        if schema is None:
            return self._of_arrow(inferred_rows(rows, what=what))
        columns = with_small_types(arrow_schema(schema))
        columns = columns.append(pa.field(CHANGE, pa.string())) if changes else columns
        return self._of_arrow(typed_rows(rows, columns, what=what))

    def _of_arrow(self, table: pa.Table) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(table.schema)
        if not table.num_rows:
            return self.spark.createDataFrame([], schema)
        return self.spark.createDataFrame(table, schema).coalesce(1)

    def _schema(self, table: str) -> Schema | None:
        """The columns of a table, if the project says them."""
        if table not in self._schemas:
            self._schemas[table] = None  # for models that read each other
            self._schemas[table] = self._find_schema(table)
        return self._schemas[table]

    def _find_schema(self, name: str) -> Schema | None:
        targets = [*self.project.tables, *(pipeline.target for pipeline in self.project.pipelines)]
        if (declared := next((table for table in targets if table.name == name), None)) is not None:
            return declared.schema()
        model = next((model for model in self.project.models if model.name == name), None)
        if model is None or model.columns:
            return model.table().schema() if model else None
        inputs = {table: schema for table in model.inputs if (schema := self._schema(table)) is not None}
        if len(inputs) < len(model.inputs):
            return None
        try:
            return model.table(infer_columns(model, inputs, self.spark)).schema()
        except FrazilError:  # the tests of that model say what is wrong with it
            return None


def _accepted(declared: Model | Pipeline, result: pa.Table) -> Computed:
    """The rows that the table takes. Columns that it does not have, such as that of an upsert's operations, stay."""
    table = _table(declared, result.schema)
    layout = TableLayout(table.name, table.schema(), table.partition_spec(), UNSORTED_SORT_ORDER, "", {}, {})
    names = [name for name in result.column_names if name in layout.arrow.names]
    contract = TextContract if _loads(declared) else Contract  # files and messages hold texts
    accepted = contract.of(layout, checks=declared.checks).accept(result.select(names))
    rows, others = accepted.rows, result.drop_columns(names)
    if accepted.numbers is not None:
        others = others.take(accepted.numbers)
    for name in others.column_names:
        rows = rows.append_column(name, others[name])
    return Computed(rows, accepted.rejected)


def _table(declared: Model | Pipeline, schema: pa.Schema) -> Table:
    if isinstance(declared, Pipeline):
        return declared.target
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return declared.table([column_of(field) for field in schema_without_ids(nullable).fields])


def _loads(declared: Model | Pipeline) -> bool:
    return isinstance(declared, Pipeline) and not declared.inputs


def _check_inputs(name: str, rows: Inputs, tables: Mapping[str, str]) -> None:
    """Refuses rows of something that is no input, and inputs without rows; `tables` are the inputs by their names."""
    known = {*tables, *tables.values()}
    if unknown := [each for each in rows if each not in known]:
        raise ProjectError(
            f"'{name}' does not read '{unknown[0]}'; it reads {', '.join(tables)}", name=unknown[0], table=name
        )
    if missing := [each for each, table in tables.items() if each not in rows and table not in rows]:
        raise ProjectError(
            f"'{name}' reads '{missing[0]}', and no rows are given for it",
            hint=f"given: {{{missing[0]}: []}} for an empty one",
            name=missing[0],
            table=name,
        )
