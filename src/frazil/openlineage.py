"""Events of OpenLineage for every run: START, then COMPLETE, FAIL or ABORT, with the tables that it reads and writes.

The standard's client sends them, configured as everywhere: `OPENLINEAGE_URL`, `OPENLINEAGE__TRANSPORT__...`, or a file
`openlineage.yml`. Without that nothing is sent. What cannot be sent is a warning and never fails a run.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from frazil.config import redact_url
from frazil.errors import MissingExtra
from frazil.logs import describe_error
from frazil.pipelines import RunResult, RunStart, observing

if TYPE_CHECKING:
    from openlineage.client.event_v2 import InputDataset, OutputDataset, RunEvent

    from frazil.client import FrazilCatalog
    from frazil.pipelines.models import Model
    from frazil.project import Project

log = logging.getLogger("frazil.openlineage")
PRODUCER = "https://github.com/frazil-dev/frazil"
COMMAND = "frazil run"  # the job that the runs of one command belong to
CONFIG = "openlineage.yml"
CLOSE_SECONDS = 10  # that a command waits for its last events


def is_configured(environ: Mapping[str, str] | None = None, *, folder: Path | None = None) -> bool:
    """Whether OpenLineage's own settings say where events go.

    >>> is_configured({"OPENLINEAGE_URL": "http://marquez:5000"}), is_configured({"OPENLINEAGE_NAMESPACE": "x"})
    (True, False)
    """
    environ = os.environ if environ is None else environ
    if environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    if environ.get("OPENLINEAGE_URL") or environ.get("OPENLINEAGE_CONFIG"):
        return True
    if any(name.startswith("OPENLINEAGE__TRANSPORT") for name in environ):
        return True
    home = Path(environ["HOME"]) / ".openlineage" if environ.get("HOME") else None
    return any((place / CONFIG).is_file() for place in (folder, home) if place is not None)


@contextmanager
def lineage_events(project: Project, open_catalog: Callable[[], FrazilCatalog]) -> Iterator[None]:
    """Sends events of the runs inside the block, if OpenLineage is configured. They are one run of `frazil run`."""
    if not is_configured(folder=Path.cwd()):
        yield
        return
    try:
        sender = LineageSender(project, open_catalog)
    except MissingExtra as exc:
        log.warning("OpenLineage is configured, but no events are sent: %s (%s)", exc.message, exc.hint)
        yield
        return
    except Exception as exc:  # of the client: a setting that it cannot read
        log.warning("no events of OpenLineage are sent: %s", describe_error(exc))
        yield
        return
    with observing(sender):
        try:
            yield
        finally:
            sender.close()


class LineageSender:
    """Sends the events of runs, as an observer of them."""

    def __init__(self, project: Project, open_catalog: Callable[[], FrazilCatalog]) -> None:
        self.project, self._open_catalog = project, open_catalog
        self.client = _make_client()
        self.job_namespace = os.environ.get("OPENLINEAGE_NAMESPACE") or "frazil"
        self.run_id, self.is_open = str(uuid.uuid4()), False
        self.running: dict[str, RunStart] = {}
        self.error: str | None = None  # of the first run that failed
        self._lock = threading.Lock()  # runs side by side start at the same time
        self._events: SimpleQueue[RunEvent | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._send, name="openlineage", daemon=True)
        self._thread.start()

    def started(self, run: RunStart) -> None:
        with self._lock:
            is_first, self.is_open = not self.is_open, True
        if is_first:
            self._emit("START", self.run_id, self._job(COMMAND, "COMMAND"), self._parent_facets())
        self.running[run.run_id] = run
        self._emit("START", run.run_id, self._job_of(run), self._child_facets(), run)

    def ended(self, result: RunResult) -> None:
        self.error = self.error or result.error
        run = self.running.pop(result.run_id, None)
        if run is None:  # it has not started: there was nothing to do, or it failed before
            return
        facets = self._child_facets() | self._error_facets(result.error)
        self._emit("FAIL" if result.error else "COMPLETE", run.run_id, self._job_of(run), facets, run, result)

    def aborted(self, run_id: str, reason: str) -> None:
        """Another run begins in its place: this one says nothing about how the command ends."""
        if (run := self.running.pop(run_id, None)) is None:
            return
        self._emit("ABORT", run_id, self._job_of(run), self._child_facets() | self._error_facets(reason), run)

    def close(self) -> None:
        """Ends the run of the command, and waits until events are sent, but not for long."""
        for run in tuple(self.running.values()):
            self.ended(RunResult(run.pipeline, run.table, run_id=run.run_id, error="the run did not end"))
        if self.is_open:
            facets = self._parent_facets() | self._error_facets(self.error)
            self._emit("FAIL" if self.error else "COMPLETE", self.run_id, self._job(COMMAND, "COMMAND"), facets)
        self._events.put(None)
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            log.warning("events of OpenLineage were not sent within %d s", CLOSE_SECONDS)

    def _send(self) -> None:
        """Sends events while the run goes on: a receiver that does not answer delays no run. After one that was not
        sent the others are dropped, since each of them would be tried for as long.
        """
        with _warn():
            while (event := self._events.get()) is not None:
                self.client.emit(event)
        with suppress(Exception):
            self.client.close(timeout=CLOSE_SECONDS)

    # --- events ------------------------------------------------------------------------------------------------------

    def _emit(
        self,
        state: str,
        run_id: str,
        job: Any,
        facets: Mapping[str, Any],
        run: RunStart | None = None,
        result: RunResult | None = None,
    ) -> None:
        from openlineage.client.event_v2 import Run, RunEvent, RunState

        with _warn():
            event = RunEvent(
                eventType=RunState[state],
                eventTime=datetime.now(UTC).isoformat(),
                run=Run(runId=run_id, facets={**facets, **_engine_facets()}),
                job=job,
                producer=PRODUCER,
                inputs=list(self._inputs(run)) if run else [],
                outputs=[self._output(run, result)] if run else [],
            )
            self._events.put(event)

    def _job_of(self, run: RunStart) -> Any:
        from openlineage.client.facet_v2 import sql_job

        model = self._models.get(run.pipeline)
        job = self._job(run.pipeline, "MODEL" if model else "PIPELINE")
        if model is not None:
            job.facets["sql"] = sql_job.SQLJobFacet(query=model.sql, dialect="spark")
        return job

    def _job(self, name: str, kind: str) -> Any:
        from openlineage.client.event_v2 import Job
        from openlineage.client.facet_v2 import job_type_job

        facet = job_type_job.JobTypeJobFacet(processingType="BATCH", integration="FRAZIL", jobType=kind)
        return Job(self.job_namespace, name, facets={"jobType": facet})

    def _child_facets(self) -> dict[str, Any]:
        from openlineage.client.facet_v2 import parent_run

        run, job = parent_run.Run(self.run_id), parent_run.Job(self.job_namespace, COMMAND)
        return {"parent": parent_run.ParentRunFacet(run=run, job=job)}

    def _parent_facets(self) -> dict[str, Any]:
        """The run of an orchestrator that the command belongs to: OPENLINEAGE_PARENT_ID=namespace/job/run."""
        from openlineage.client.facet_v2 import parent_run

        namespace, _, rest = os.environ.get("OPENLINEAGE_PARENT_ID", "").partition("/")
        name, _, run_id = rest.rpartition("/")
        if not (namespace and name and run_id):
            return {}
        run, job = parent_run.Run(run_id), parent_run.Job(namespace, name)
        return {"parent": parent_run.ParentRunFacet(run=run, job=job)}

    def _error_facets(self, error: str | None) -> dict[str, Any]:
        from openlineage.client.facet_v2 import error_message_run

        if error is None:
            return {}
        return {"errorMessage": error_message_run.ErrorMessageRunFacet(message=error, programmingLanguage="python")}

    # --- datasets ----------------------------------------------------------------------------------------------------

    @cached_property
    def catalog(self) -> FrazilCatalog:
        return self._open_catalog()

    @cached_property
    def namespace(self) -> str:
        """Of tables: the catalog's address, without what may be secret in it, and the warehouse."""
        properties = self.catalog.properties
        warehouse = properties.get("prefix") or properties.get("warehouse") or "default"
        return f"{redact_url(properties['uri']).rstrip('/')}/{warehouse}"

    @cached_property
    def _models(self) -> dict[str, Model]:
        return {model.name: model for model in self.project.models}

    def _inputs(self, run: RunStart) -> Iterator[InputDataset]:
        from openlineage.client.event_v2 import InputDataset

        for table, snapshot_id in run.inputs.items():
            yield InputDataset(self.namespace, table, facets=self._table_facets(table, snapshot_id))
        for path in run.files:
            yield InputDataset(*name_file(path, self.project.folder))
        for topic in run.topics:
            namespace, _, name = topic.rpartition("/")
            yield InputDataset(namespace, name)

    def _output(self, run: RunStart, result: RunResult | None) -> OutputDataset:
        from openlineage.client.event_v2 import OutputDataset
        from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics

        is_committed = result is not None and result.error is None
        facets = self._table_facets(run.table, result.snapshot_id if result and is_committed else None)
        facets |= self._column_facets(run)
        output: dict[str, Any] = {}
        if result is not None and is_committed:
            output["outputStatistics"] = statistics.OutputStatisticsOutputDatasetFacet(rowCount=result.rows)
        return OutputDataset(self.namespace, run.table, facets=facets, outputFacets=output)

    def _table_facets(self, table: str, snapshot_id: int | None) -> dict[str, Any]:
        from openlineage.client.facet_v2 import dataset_version_dataset, schema_dataset

        facets: dict[str, Any] = {}
        with suppress(Exception):  # a table that is gone by now has no schema to tell
            fields = self.catalog.load_table(tuple(table.split("."))).schema().fields
            named = [schema_dataset.SchemaDatasetFacetFields(f.name, str(f.field_type), f.doc) for f in fields]
            facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=named)
        if snapshot_id is not None:
            facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(snapshot_id))
        return facets

    def _column_facets(self, run: RunStart) -> dict[str, Any]:
        """The lineage of columns, of a model."""
        from openlineage.client.facet_v2 import column_lineage_dataset as lineage

        from frazil.pipelines.graph import trace_model

        if (model := self._models.get(run.pipeline)) is None:
            return {}
        names = {}
        with suppress(Exception):
            for table in model.inputs:
                names[table] = self.catalog.load_table(tuple(table.split("."))).schema().column_names
        traced = [column for column in trace_model(model, names).columns if column.unknown is None]
        fields = {
            column.column: lineage.Fields(
                inputFields=[lineage.InputField(self.namespace, table, name) for table, name in column.inputs],
                transformationDescription=column.expression,
            )
            for column in traced
        }
        return {"columnLineage": lineage.ColumnLineageDatasetFacet(fields=fields)} if fields else {}


def name_file(path: str, folder: Path) -> tuple[str, str]:
    """A landing file as OpenLineage names it.

    >>> name_file("s3://lake/landing/a.csv", Path("/home/me")), name_file("landing/a.csv", Path("/home/me"))
    (('s3://lake', 'landing/a.csv'), ('file', '/home/me/landing/a.csv'))
    """
    scheme, separator, rest = path.partition("://")
    if not separator:
        return "file", str(folder / path)
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}", key


def _engine_facets() -> dict[str, Any]:
    from openlineage.client.facet_v2 import processing_engine_run

    try:
        from pyspark import __version__ as version
    except ModuleNotFoundError:
        return {}
    return {"processing_engine": processing_engine_run.ProcessingEngineRunFacet(version=version, name="spark")}


def _make_client() -> Any:
    try:
        from openlineage.client import OpenLineageClient
    except ModuleNotFoundError as exc:
        raise MissingExtra("openlineage-python", extra="openlineage") from exc
    return OpenLineageClient()


@contextmanager
def _warn() -> Iterator[None]:
    """A transport that fails is a warning."""
    try:
        yield
    except Exception as exc:
        log.warning("events of OpenLineage are not sent: %s", describe_error(exc))
