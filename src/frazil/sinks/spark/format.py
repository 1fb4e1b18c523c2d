"""The sink as a format of Spark, for those who like that spelling.

    from frazil.sinks.spark.format import register

    register(spark)
    frame.write.format("frazil").options(table="lakehouse.sales", name="daily").mode("append").save()
    rows.writeStream.format("frazil").options(table="lakehouse.uplink", name="uplink", checkpointLocation="...").start()

Options: `table` (or `path`, for a Delta table) and `name`, which are needed; `uri` and `warehouse` of the catalog, else
the settings say; `branch`; `bad_rows`, `extra_fields`, `checks` (one, or a JSON list of several) and `budget_bytes` (of
a task), as for the other hosts; `source` (columns, with commas between) and `offset`: the columns that say where a row
came from. Keys of the object store are no options, for Spark shows those: they come from the settings (`frazil.toml`,
the environment), which hold where the driver runs.

Spark calls the writer's methods in processes of their own: it plans in one, writes in the executors' and commits in
another. So nothing is kept between them but what the tasks report, and the commit takes the table over and looks where
it stands. A stream is known by its checkpoint's query id: with the same one it needs no new take-over at each batch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import pyarrow as pa

from frazil.errors import MissingExtra, ProgressMismatch, SinkError
from frazil.sinks import BadRows, SinkOptions, Target, part_name
from frazil.sinks.spark.driver import Delta, FrameSink, frame_options, target_of
from frazil.sinks.spark.frame_rows import OffsetColumns
from frazil.sinks.spark.job import add_up, as_staged, batch_position, discard_files, make_plan, read_reports
from frazil.sinks.spark.task import Staged, TaskPlan
from frazil.write.commit import MAIN, RetryPolicy
from frazil.write.contract import Extra
from frazil.write.files import MB

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceStreamArrowWriter,
        WriterCommitMessage,
    )
except ModuleNotFoundError as exc:
    raise MissingExtra("pyspark", extra="spark") from exc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

TASK_BUDGET_BYTES = 64 * MB
OPTIONS = (
    *(
        "table",
        "path",
        "name",
        "uri",
        "warehouse",
        "branch",
        "bad_rows",
        "extra_fields",
        "checks",
        "budget_bytes",
        "source",
        "offset",
    ),
    "checkpointlocation",  # Spark's own, which it hands on
)


def register(spark: SparkSession) -> None:
    """Makes `format("frazil")` known to a session."""
    spark.dataSource.register(FrazilDataSource)


class FrazilDataSource(DataSource):
    """`format("frazil")`. It writes; a table is read through the catalog, as `spark.table("lake.lakehouse.sales")`."""

    @classmethod
    def name(cls) -> str:
        return "frazil"

    def schema(self) -> StructType:
        raise SinkError(
            "format('frazil') only writes",
            hint="read the table through the catalog: spark.table('lake.lakehouse.sales')",
            problem="write-only",
        )

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise SinkError("format('frazil') appends; got mode('overwrite')", hint="use mode('append')", option="mode")
        return BatchWriter(schema, Destination.parse(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        if overwrite:
            raise SinkError(
                "format('frazil') appends; got an output mode that is not 'append'",
                hint="use outputMode('append')",
                option="outputMode",
            )
        return StreamWriter(schema, Destination.parse(self.options))


@dataclass(frozen=True)
class Destination:
    """Where rows go and how they are treated, from the options of a writer."""

    table: str | Delta
    name: str
    connection: dict[str, str]
    branch: str
    offsets: OffsetColumns | None
    options: SinkOptions

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Destination:
        """The destination that options name; a wrong one is named, with what it may be.

        >>> Destination.parse({"table": "lakehouse.sales", "name": "daily", "checks": "amount >= 0"}).options.checks
        ('amount >= 0',)
        """
        options = {key.lower(): value for key, value in texts.items()}
        if unknown := sorted(set(options) - set(OPTIONS)):
            raise SinkError(
                f"format('frazil') has no option '{unknown[0]}'",
                hint=f"the options are {', '.join(OPTIONS[:-1])}",
                option=unknown[0],
            )
        if ("table" in options) == ("path" in options):
            raise SinkError(
                "format('frazil') needs one of the options 'table' and 'path'",
                hint=".option('table', 'lakehouse.sales')",
                option="table",
            )
        if not options.get("name"):
            raise SinkError(
                "format('frazil') needs the option 'name'",
                hint=".option('name', ...): progress is kept under it",
                option="name",
            )
        return cls(
            options["table"] if "table" in options else Delta(options["path"], _delta_keys()),
            options["name"],
            {key: options[key] for key in ("uri", "warehouse") if key in options},
            options.get("branch", MAIN),
            _offsets(options),
            frame_options(
                checks=_checks(options.get("checks", "")),
                extra_fields=_one_of(options, "extra_fields", get_args(Extra), "error"),
                bad_rows=_one_of(options, "bad_rows", get_args(BadRows), "stop"),
                budget_bytes=_bytes(options.get("budget_bytes")),
            ),
        )

    @property
    def part(self) -> str:
        return part_name(self.name, 0)

    def open(self) -> Target:
        """The table, with a connection of this process."""
        from frazil.client import connect

        catalog = None if isinstance(self.table, Delta) else connect(None, **self.connection)
        return target_of(self.table, catalog, self.branch, RetryPolicy())


@dataclass(frozen=True)
class TaskMessage(WriterCommitMessage):
    """What a task reports, and the query that it worked for, if that is a stream."""

    report: str
    # the progress of the quarantine when the job was planned, if it has its own
    quarantined: Mapping[str, int]
    query: str | None


class _Writer:
    """What both kinds of writer do. It is made on the driver, and travels: the plan holds all that a task must know."""

    def __init__(self, schema: StructType, destination: Destination) -> None:
        self._destination = destination
        target = destination.open()
        reached = target.progress().part(destination.part).offsets
        self._plan: TaskPlan = make_plan(
            target,
            destination.part,
            schema,
            options=destination.options,
            tasks=1,
            reached=reached,
            offsets=destination.offsets,
        )

    def _write(self, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None  # Spark calls this in a task
        report = self._plan.run(batches, task=context.partitionId())
        return TaskMessage(report.to_json(), self._plan.quarantined, context.getLocalProperty("sql.streaming.queryId"))

    def _commit(self, messages: Sequence[TaskMessage], *, batch_id: int | None = None) -> None:
        destination, target = self._destination, self._destination.open()
        reports = read_reports(message.report for message in messages)
        query = next((message.query for message in messages if message.query), None)
        writer = hashlib.sha256(query.encode()).hexdigest()[:16] if query else None
        try:
            sink = FrameSink(
                target, destination.part, options=destination.options, writer=writer, takeover="first commit"
            )
            end = {}
            if batch_id is not None and query and destination.offsets is None:
                end = batch_position(sink.position, query, batch_id, table=target.layout.name)
            staged = Staged(was_in=True) if sink.has_reached(end) else sink.join(reports, end=end)
            self._check_quarantine(staged, target, messages)
        except SinkError:
            discard_files(as_staged(add_up(reports)), target, destination.part)
            raise
        if staged.was_in:
            discard_files(as_staged(add_up(reports)), target, destination.part)  # a second copy of what is in
        sink.publish(staged)

    def _check_quarantine(self, staged: Staged, target: Target, messages: Sequence[TaskMessage]) -> None:
        if (
            staged.quarantine_files
            and messages[0].quarantined != target.open_quarantine(self._destination.part).reached
        ):
            name = target.layout.name
            raise ProgressMismatch(
                f"{name}: another writer has quarantined rows since the job started",
                hint="write the frame again",
                table=name,
            )

    def _abort(self, messages: Sequence[TaskMessage | None]) -> None:
        """Deletes the files of a job that failed. Spark also calls this after a commit that failed, whose end may not
        be known: then every task has a message, and the files stay, for the sweeper to collect if nothing refers to
        them.
        """
        if None in messages:
            reports = read_reports(message.report for message in messages if message is not None)
            discard_files(as_staged(add_up(reports)), self._destination.open(), self._destination.part)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """`frame.write.format("frazil")`: one commit."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        return self._write(iterator)

    def commit(self, messages: list[Any]) -> None:
        self._commit(messages)

    def abort(self, messages: list[Any]) -> None:
        self._abort(messages)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`rows.writeStream.format("frazil")`: one commit per batch. Without offset columns, its number in the checkpoint
    is the position.
    """

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        return self._write(iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:
        self._commit(messages, batch_id=batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:
        self._abort(messages)


def _checks(text: str) -> list[str]:
    """One check as it is, several as a JSON list.

    >>> _checks('["a > 0", "b > 0"]'), _checks("a > 0"), _checks("")
    (['a > 0', 'b > 0'], ['a > 0'], [])
    """
    if not text.lstrip().startswith("["):
        return [text] if text else []
    try:
        document = json.loads(text)
        if all(isinstance(check, str) for check in document):
            return list(document)
    except ValueError:
        pass
    raise SinkError(
        f"option 'checks' is {text}: expected a check, or a JSON list of them",
        hint='["amount >= 0", "country IS NOT NULL"]',
        option="checks",
        got=text,
    )


def _offsets(options: Mapping[str, str]) -> OffsetColumns | None:
    if ("source" in options) != ("offset" in options):
        raise SinkError(
            "options 'source' and 'offset' belong together",
            hint=".option('source', 'topic,partition').option('offset', 'offset')",
            option="offset" if "source" in options else "source",
        )
    if "source" not in options:
        return None
    return OffsetColumns(tuple(name.strip() for name in options["source"].split(",")), options["offset"].strip())


def _one_of(options: Mapping[str, str], key: str, allowed: Sequence[str], default: str) -> Any:
    value = options.get(key, default)
    if value not in allowed:
        raise SinkError(
            f"option '{key}' is '{value}'", hint=f"expected one of {', '.join(allowed)}", option=key, got=value
        )
    return value


def _bytes(text: str | None) -> int:
    if text is None:
        return TASK_BUDGET_BYTES
    if not text.isdigit() or int(text) < MB:
        hint = f"expected a number of bytes, {MB} at least"
        raise SinkError(f"option 'budget_bytes' is '{text}'", hint=hint, option="budget_bytes", got=text)
    return int(text)


def _delta_keys() -> dict[str, str]:
    """How to reach a bucket with Delta tables: by the settings."""
    from frazil.config import load_settings

    s3 = load_settings().s3
    secrets = {"AWS_ACCESS_KEY_ID": s3.access_key_id, "AWS_SECRET_ACCESS_KEY": s3.secret_access_key}
    known = {key: secret.get_secret_value() for key, secret in secrets.items() if secret is not None}
    return known | (
        {"AWS_ENDPOINT_URL": s3.endpoint, "AWS_REGION": s3.region, "AWS_ALLOW_HTTP": "true"} if s3.endpoint else {}
    )
