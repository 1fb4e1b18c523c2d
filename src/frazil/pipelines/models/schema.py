"""The columns of a model's table: those that Spark gives the query, for inputs without rows.

Spark takes seconds to start, so what it said is kept in a file for the query and the columns of its inputs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.errors import DeclarationError, PipelineError
from frazil.pipelines.models.declare import Model
from frazil.pyiceberg_compat import schema_without_ids, with_small_types
from frazil.tables import Column, Table, column, column_of
from frazil.write.files import arrow_schema

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyspark.sql import DataFrame, SparkSession

    from frazil.client import FrazilCatalog
    from frazil.pipelines.models.derivation import Derivation

_VERSION = 1  # of the rules here: another one makes kept columns void


@dataclass(frozen=True)
class ModelSchemas:
    """Finds the tables of models. `session` starts Spark, when it is needed; `folder` keeps what it said."""

    session: Callable[[], SparkSession]
    folder: Path

    def tables(self, models: Sequence[Model], inputs: Mapping[str, Schema]) -> list[Table]:
        """The table of each model; the models are in an order in which inputs come first, `inputs` are the schemas of
        all other tables.
        """
        known, tables = dict(inputs), list[Table]()
        for model in models:
            table = model.table(() if model.columns else self._columns(model, known))
            known[model.name] = table.schema()
            tables.append(table)
        return tables

    def _columns(self, model: Model, known: Mapping[str, Schema]) -> Sequence[Column]:
        if missing := [name for name in model.inputs if name not in known]:
            raise PipelineError(
                f"model '{model.name}' reads {missing[0]}, which is neither declared nor in the catalog",
                hint="declare the table, or check the name",
                pipeline=model.name,
                table=missing[0],
            )
        schemas = {name: known[name] for name in model.inputs}
        path = self.folder / f"{_fingerprint(model, schemas)}.json"
        if (kept := _read(path)) is None:
            kept = infer_columns(model, schemas, self.session())
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps([[field.name, str(field.type)] for field in kept]), encoding="utf-8")
        return kept


def input_schemas(
    tables: Sequence[Table], derivations: Sequence[Derivation], catalog: FrazilCatalog
) -> dict[str, Schema]:
    """The schemas of the tables that models read and do not make: those of the declared `tables`, else as the catalog
    has them.
    """
    from pyiceberg.table import Table as LiveTable

    known = {table.name: table.schema() for table in tables}
    targets = {derivation.target for derivation in derivations}
    others = sorted({name for each in derivations for name in each.tables} - known.keys() - targets)
    loaded = catalog.load_each([tuple(name.split(".")) for name in others]) if others else []
    live = zip(others, loaded, strict=True)
    return known | {name: table.schema() for name, table in live if isinstance(table, LiveTable)}


def infer_columns(model: Model, inputs: Mapping[str, Schema], spark: SparkSession) -> list[Column]:
    """The columns that Spark gives the query. None is required: what Spark calls NOT NULL, a later change of the query
    may make NULL.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    from frazil.pipelines.models.derivation import run_sql

    frames = {name: _empty(schema, spark) for name, schema in inputs.items()}
    rows = run_sql(model, spark, frames).schema
    if twice := sorted({name for name in rows.fieldNames() if rows.fieldNames().count(name) > 1}):
        raise DeclarationError(
            f"model '{model.name}' gives column '{twice[0]}' twice",
            hint=f"name one of them otherwise: ... AS other_{twice[0]}",
            column=twice[0],
        )
    schema = schema_without_ids(to_arrow_schema(rows.toNullable()))
    return [column_of(field) for field in schema.fields]


def _empty(schema: Schema, spark: SparkSession) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    return spark.createDataFrame([], from_arrow_schema(with_small_types(arrow_schema(schema))))


def _fingerprint(model: Model, inputs: Mapping[str, Schema]) -> str:
    facts = [_VERSION, model.sql, {name: [str(field) for field in schema.fields] for name, schema in inputs.items()}]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def _read(path: Path) -> list[Column] | None:
    with suppress(OSError, ValueError, TypeError):
        return [column(name, kind) for name, kind in json.loads(path.read_text(encoding="utf-8"))]
    return None
