"""Tables applied and pipelines run through a lake, as `frazil apply` and `frazil run` do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frazil.errors import ArgumentError, OtherProject, ProjectError
from frazil.notebook import showing_progress
from frazil.ownership import claim_tables, companions, existing_tables, other_owners, project_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake.access import LakeAccess
    from frazil.pipelines import Pipeline, RunResult
    from frazil.pipelines.stream import StreamProgress
    from frazil.tables import Step, Table


class Steps(list["Step"]):
    """The steps of a plan, or those that were done."""

    def __repr__(self) -> str:
        """One step per line."""
        return "\n".join(map(str, self)) or "no changes"


def plan_tables(lake: LakeAccess, declared: Table | Iterable[Table]) -> Steps:
    """The steps that make the live tables what is declared."""
    from frazil.tables import plan_all

    return Steps(plan_all(_tables(declared), lake.catalog))


def apply_tables(
    lake: LakeAccess, declared: Table | Iterable[Table], *, folder: Path | None, allow_drops: bool, adopt: bool
) -> Steps:
    """Does the steps, after it is clear that the tables belong to this project and that drops are meant."""
    from frazil.tables import AlterTable, apply_steps

    steps = plan_tables(lake, declared)
    removing = [step.name for step in steps if step.removes]
    if removing and not allow_drops:
        raise ProjectError(
            f"the plan removes something from {', '.join(removing)}",
            hint="look at it with lake.plan(...), then pass allow_drops=True",
            table=removing[0],
            problem="removes",
        )
    project = project_name(lake.settings, folder or Path.cwd())
    _own(lake, project, [tuple(step.name.split(".")) for step in steps if isinstance(step, AlterTable)], adopt=adopt)
    return Steps(apply_steps(steps, lake.catalog, owner=project))


def _tables(declared: object) -> list[Table]:
    from frazil.tables import Table

    tables = [declared] if isinstance(declared, Table) else declared
    if isinstance(tables, Iterable) and not isinstance(tables, str):
        tables = list(tables)
        if all(isinstance(table, Table) for table in tables):
            return tables
    raise ArgumentError("declared", declared, expected="a frazil.Table, or a list of them")


def _own(lake: LakeAccess, project: str, names: Sequence[tuple[str, ...]], *, adopt: bool) -> None:
    """Makes the tables belong to the project; raises `OtherProject` for those of another, unless it adopts them."""
    others = other_owners(existing_tables(lake.catalog, names), project)
    if others and not adopt:
        raise OtherProject(project, others)
    taken = [name for other in others for name in companions(tuple(other.split(".")))]
    claim_tables(lambda: existing_tables(lake.catalog, [*names, *taken]), project, lake.catalog)


def run_declared(
    lake: LakeAccess, pipeline: Pipeline | str, *, folder: Path | None, spark: SparkSession | None, adopt: bool
) -> RunResult | StreamProgress:
    """Runs a pipeline once; Spark starts if there is something to load and no session is given."""
    from frazil.openlineage import lineage_events
    from frazil.pipelines.sources import KafkaSource
    from frazil.project import Project

    home = (folder or Path.cwd()).resolve()
    chosen = _pipeline(pipeline, home)
    with lineage_events(Project(home, (), (chosen,)), lambda: lake.catalog):
        if isinstance(chosen.source, KafkaSource):
            return _run_stream(lake, chosen, home, spark, adopt=adopt)
        return _run_batch(lake, chosen, home, spark, adopt=adopt)


def _run_batch(lake: LakeAccess, chosen: Pipeline, home: Path, spark: SparkSession | None, *, adopt: bool) -> RunResult:
    from frazil.pipelines import RunResult
    from frazil.pipelines.batch import plan_run, run_pipeline

    plan = plan_run(chosen, lake.catalog, home)
    if not plan.arrived.files:  # Spark takes seconds to start
        return RunResult(chosen.name, chosen.target.name, touched=tuple(file.path for file in plan.arrived.touched))
    owner = project_name(lake.settings, home)
    with ExitStack() as stack:
        session = _session_with_bar(lake, chosen, home, spark, stack)
        return run_pipeline(
            chosen, spark=session, catalog=lake.catalog, folder=home, owner=owner, adopt=adopt, plan=plan
        )


def _run_stream(
    lake: LakeAccess, pipeline: Pipeline, folder: Path, spark: SparkSession | None, *, adopt: bool
) -> StreamProgress:
    from frazil.pipelines.stream import StreamOptions, StreamProgress, run_stream

    state = lake.settings.stack.folder / "streams" / pipeline.name
    state.mkdir(parents=True, exist_ok=True)
    progress = StreamProgress(pipeline.name, pipeline.target.name)
    options = StreamOptions(state, once=True, owner=project_name(lake.settings, folder), adopt=adopt)
    with ExitStack() as stack:
        session = _session_with_bar(lake, pipeline, folder, spark, stack)
        run_stream(pipeline, spark=session, catalog=lake.catalog, folder=folder, options=options, progress=progress)
    return progress


def _pipeline(pipeline: Pipeline | str, folder: Path) -> Pipeline:
    from frazil.pipelines import Pipeline

    if isinstance(pipeline, Pipeline):
        return pipeline
    if not isinstance(pipeline, str):
        raise ArgumentError("pipeline", pipeline, expected="a pipeline that @frazil.pipeline declares, or its name")
    from frazil.project import load_project

    return load_project(folder).pipeline(pipeline)


def find_embedder(folder: Path, table: str, column: str) -> Callable[[list[str]], Any]:
    """What makes vectors of texts, as the project in a folder declares it for a column."""
    from frazil.project import FILE_NAME, load_project
    from frazil.vector import no_embedder

    declared = load_project(folder).tables if (folder / FILE_NAME).exists() else ()
    embedders = next((each.embedders for each in declared if each.name == table), {})
    if column not in embedders:
        raise no_embedder(table, column)
    return embedders[column]


def _session_with_bar(
    lake: LakeAccess, pipeline: Pipeline, folder: Path, spark: SparkSession | None, stack: ExitStack
) -> SparkSession:
    """The session for a run; in a notebook its stages are shown until `stack` is closed."""
    from frazil.spark import Progressed, watching

    bar = stack.enter_context(showing_progress(pipeline.name, "tasks"))
    if bar is None:
        return spark or stack.enter_context(_session(lake, pipeline, folder))

    def show(now: Progressed) -> None:
        bar.done, bar.total, bar.note = now.done, now.total or None, now.describe()

    bar.note = "starting Spark"
    session = spark or stack.enter_context(_session(lake, pipeline, folder))
    stack.enter_context(watching(session, show))
    return session


def _session(lake: LakeAccess, pipeline: Pipeline, folder: Path) -> AbstractContextManager[SparkSession]:
    """Spark for a pipeline: with the jars of its source, and the project's modules wherever tasks run."""
    from frazil.pipelines.sources import KafkaSource
    from frazil.spark import KAFKA_JARS, spark_session

    log = lake.settings.stack.folder / "spark" / "spark.log"
    jars = KAFKA_JARS if isinstance(pipeline.source, KafkaSource) else ()
    return spark_session(lake.settings, app_name=f"frazil {pipeline.name}", log=log, more_jars=jars, project=folder)
