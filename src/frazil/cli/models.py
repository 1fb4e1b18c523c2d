"""Models in commands: the tables that they make, and the Spark that finds their columns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from frazil.cli.context import Context
from frazil.cli.progress import starting_spark
from frazil.cli.spark import spark_log
from frazil.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.pipelines.models import Model
    from frazil.tables import Table


def with_model_tables(context: Context, project: Project) -> Project:
    """The project with the tables of its models among its tables. Spark starts if the columns of a model are not known
    from an earlier time.
    """
    if not project.models:
        return project
    from frazil.pipelines.models import ModelSchemas, derivation_of, in_order, input_schemas
    from frazil.spark import spark_session

    context.catalog  # noqa: B018  # one that is away is reported before Spark starts
    with ExitStack() as stack:

        def session() -> SparkSession:
            with starting_spark("models", context.talk):
                return stack.enter_context(
                    spark_session(context.settings, app_name="frazil plan", log=spark_log(context))
                )

        order = in_order([derivation_of(model) for model in project.models])
        models = [project.model(derivation.name) for derivation in order]
        finder = ModelSchemas(session, context.settings.stack.folder / "models")
        tables = finder.tables(models, input_schemas(project.tables, order, context.catalog))
    return replace(project, tables=(*project.tables, *tables))


def planned_models(project: Project, tables: Sequence[Table]) -> list[tuple[Model, Table]]:
    """The models that make some of the tables, each with its table."""
    chosen = {table.name: table for table in tables}
    return [(model, chosen[model.name]) for model in project.models if model.name in chosen]


def model_text(model: Model, table: Table) -> str:
    """What a plan says of a model: its mode and why it has it, the columns that it does not declare, and notes."""
    lines = [f"{model.name}: mode {model.mode} ({model.mode_reason})"]
    if not model.columns:
        lines.append(f"  columns, as Spark finds them: {', '.join(map(str, table.columns))}")
    return "\n".join([*lines, *(f"  {note}" for note in model.notes)])


def model_json(model: Model, table: Table) -> dict[str, Any]:
    """The same for programs."""
    return {
        "name": model.name,
        "mode": model.mode,
        "mode_reason": model.mode_reason,
        "driving": model.driving,
        "columns": [{"name": column.name, "type": str(column.type)} for column in table.columns],
        "notes": list(model.notes),
    }
