"""How the rows of a table are made from other tables: a SQL model and a pipeline over tables as one kind of value."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from frazil.errors import PipelineError
from frazil.pipelines import Pipeline, transform
from frazil.pipelines.models.declare import Model
from frazil.pipelines.models.incremental import plain_columns
from frazil.pipelines.models.rename import rename_tables
from frazil.pipelines.models.sql import parse_query
from frazil.pipelines.sources import SparkSource, TableSource
from frazil.spark import spark_error, spark_errors
from frazil.write.upsert import Ops, UpsertRules

if TYPE_CHECKING:
    from pyiceberg.typedef import Identifier
    from pyspark.sql import DataFrame, SparkSession

TableInput = TableSource | SparkSource
Compute = Callable[["SparkSession", Mapping[str, "DataFrame"]], "DataFrame"]
OP = "_frazil_op"  # the column of a change that tells deletes, where Frazil finds them
CHANGES = Ops(OP, deletes=("d",), upserts=("u",))


@dataclass(frozen=True)
class Derivation:
    """What a model or a pipeline over tables does. `inputs` are tables by the names that `compute` has for them."""

    name: str
    target: str
    mode: str
    inputs: Mapping[str, TableInput]
    driving: str | None  # the table whose new rows an incremental mode reads
    compute: Compute
    rules: UpsertRules | None = None  # of mode 'upsert'
    checks: tuple[str, ...] = ()
    audit: tuple[str, ...] = ()
    branch: str = ""  # where rows that failed an audit are kept
    max_bad_share: float | None = None  # None: one bad row is too much
    is_model: bool = True  # a model makes all rows of its table
    tags: tuple[str, ...] = ()
    group: str | None = None
    definition: str = ""  # the fingerprint of a model's query; the code of a function is not known
    # the columns of the result that are columns of the driving table as they are, as far as it matters
    plain: Mapping[str, str] = field(default_factory=dict)

    @property
    def identifier(self) -> Identifier:
        return tuple(self.target.split("."))

    def in_environment(self, env: str | None) -> Derivation:
        """The same with a branch of its own for rows that fail an audit there."""
        return self if env is None else replace(self, branch=f"{self.branch}-{env}")

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the input tables, each once."""
        return tuple(dict.fromkeys(each.name for each in self.inputs.values() if isinstance(each, TableSource)))

    @property
    def others(self) -> tuple[str, ...]:
        """The inputs that are no tables and have no mark: each run reads them whole."""
        return tuple(
            name for name, each in self.inputs.items() if isinstance(each, SparkSource) and each != self._marked
        )

    @property
    def marked(self) -> str | None:
        """The input that is read from a high-water mark on."""
        marked = self._marked
        return next((name for name, each in self.inputs.items() if each == marked), None)

    @property
    def _marked(self) -> SparkSource | None:
        sources = [each for each in self.inputs.values() if isinstance(each, SparkSource) and each.high_water_mark]
        return sources[0] if sources and self.mode != "rebuild" else None

    @property
    def reads_changes(self) -> bool:
        """Whether rows that changed or went can be followed, and not only rows that were added."""
        return self.is_model or self._has_changes

    @property
    def takes_changes(self) -> bool:
        """Whether its function gets rows that came and rows that went, with `_change_type`."""
        return not self.is_model and self.mode in ("append", "upsert") and self._has_changes

    @property
    def _has_changes(self) -> bool:
        return any(each.changes for each in self.inputs.values() if isinstance(each, TableSource))


def derivation_of(declared: Model | Pipeline) -> Derivation:
    """The derivation that a model or a pipeline over tables declares."""
    return _of_model(declared) if isinstance(declared, Model) else _of_pipeline(declared)


def _of_model(model: Model) -> Derivation:
    driving = model.driving
    return Derivation(
        model.name,
        model.name,
        model.mode,
        {name: TableSource(name, changes=name == driving, full=name != driving) for name in model.inputs},
        driving,
        lambda spark, frames: run_sql(model, spark, frames),
        UpsertRules.of(model.key, op=CHANGES) if model.mode == "upsert" else None,
        model.checks,
        model.audit,
        f"audit-{model.name}",
        tags=model.tags,
        group=model.group,
        definition=model.fingerprint,
        plain=plain_columns(parse_query(model.sql), driving) if driving and model.mode == "replace-partition" else {},
    )


def _of_pipeline(pipeline: Pipeline) -> Derivation:
    inputs = pipeline.inputs
    tables = [each for each in inputs.values() if isinstance(each, TableSource)]
    driving = next((each.name for each in tables if not each.full), None)

    def compute(_: SparkSession, frames: Mapping[str, DataFrame]) -> DataFrame:
        return transform(pipeline, **frames)

    return Derivation(
        pipeline.name,
        pipeline.target.name,
        pipeline.mode,
        inputs,
        driving,
        compute,
        pipeline.rules if pipeline.mode == "upsert" else None,
        pipeline.checks,
        pipeline.audit,
        pipeline.branch,
        pipeline.max_bad_share,
        is_model=False,
        tags=pipeline.tags,
        group=pipeline.group,
    )


def run_sql(model: Model, spark: SparkSession, frames: Mapping[str, DataFrame]) -> DataFrame:
    """What the model's query gives for these frames of its inputs."""
    views = {name: f"frazil_input_{uuid.uuid4().hex[:12]}" for name in frames}
    try:
        for name, view in views.items():
            frames[name].createOrReplaceTempView(view)
        return spark.sql(rename_tables(model.sql, views))
    except spark_errors() as exc:
        where = f" ({model.path})" if model.path else ""
        raise PipelineError(
            f"model '{model.name}'{where}: {spark_error(str(exc))}",
            hint="nothing was committed; fix the query and run again",
            pipeline=model.name,
        ) from exc
    finally:  # the frame has its plan by now
        for view in views.values():
            spark.catalog.dropTempView(view)
