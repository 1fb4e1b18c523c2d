"""The Spark session of a command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.cli.context import Context
from frazil.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.pipelines import Pipeline


def pipeline_session(context: Context, project: Project, pipeline: Pipeline) -> AbstractContextManager[SparkSession]:
    """Spark for a pipeline, with the jars of its source."""
    return project_session(context, project, pipeline.name, jars=kafka_jars(pipeline))


@contextmanager
def project_session(
    context: Context, project: Project, name: str = "run", *, jars: Sequence[str] = ()
) -> Iterator[SparkSession]:
    """Spark for what a command runs, with the project's modules wherever tasks run."""
    from frazil.cli.progress import starting_spark
    from frazil.spark import spark_session

    session = spark_session(
        context.settings,
        app_name=f"frazil {name}",
        log=spark_log(context),
        more_jars=jars,
        project=project.folder,
        tell=lambda line: context.talk.note(f"{name}: {line}"),
    )
    with ExitStack() as stack:
        with starting_spark(name, context.talk):
            spark = stack.enter_context(session)
        yield spark


def kafka_jars(pipeline: Pipeline) -> Sequence[str]:
    """The coordinates of Spark's Kafka source, for a pipeline that reads a topic."""
    from frazil.pipelines.sources import KafkaSource
    from frazil.spark import KAFKA_JARS

    return KAFKA_JARS if isinstance(pipeline.source, KafkaSource) else ()


def spark_log(context: Context) -> Path:
    """Where the JVM's own output goes."""
    return context.settings.stack.folder / "spark" / "spark.log"
