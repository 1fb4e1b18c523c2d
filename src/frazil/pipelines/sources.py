"""Where a pipeline's rows come from: sets of landing files, in the project, elsewhere on this machine, or on S3; topics
of Kafka; tables of the catalog; or whatever Spark reads.

Plain values: nothing heavy is imported before a source is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from frazil.errors import DeclarationError
from frazil.names import TABLE_NAME, name_parts
from frazil.pipelines.files import SourceFile as SourceFile
from frazil.pipelines.files import list_local, list_s3

if TYPE_CHECKING:
    import pyarrow as pa

Format = Literal["csv", "json", "parquet"]
DataLoss = Literal["stop", "accept"]
MessageKey = Literal["json", "text"]
ERROR = "_error"  # the column in which a decoder says why a message cannot be read
OWN_OP = "_frazil_op"  # the column that tells deletes, where only tombstones are deletes
CHANGE = "_change_type"  # the column of changed rows that tells those that came from those that went


@dataclass(frozen=True)
class CsvOptions:
    """How a CSV file is spelled."""

    header: bool = True
    delimiter: str = ","
    quote: str = '"'
    escape: str | None = None  # None: a quote inside quotes is doubled
    null_values: tuple[str, ...] = ("",)
    newlines_in_values: bool = False


@dataclass(frozen=True)
class FileSource:
    """Files of one format that match a pattern: relative to the project's folder, an absolute path, or
    `s3://bucket/landing/*.csv`.
    """

    format: Format
    pattern: str
    csv: CsvOptions = field(default_factory=CsvOptions)

    def list_files(self, folder: Path, io_properties: Mapping[str, str] | None = None) -> list[SourceFile]:
        """The files that are there now, in order of their path; hidden ones (`_part.csv`, `.tmp.csv`) are not finished,
        and left alone.

        `io_properties` say how S3 is reached, in PyIceberg's words; those of the catalog do.
        """
        if self.pattern.startswith("s3://"):
            return list_s3(self.pattern, io_properties or {})
        return list_local(self.pattern, folder)

    def locate(self, file: SourceFile, folder: Path) -> str:
        """Where a reader finds the file."""
        return file.path if "://" in file.path else str(folder / file.path)


@dataclass(frozen=True)
class KafkaSource:
    """Topics of a Kafka cluster, by their names or by a pattern of names."""

    servers: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    decode: Literal["json", "none"] | Callable[[pa.RecordBatch], Any] = "json"
    schema: pa.Schema | None = None
    max_messages: int = 1_000_000
    data_loss: DataLoss = "stop"
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold passwords
    message_key: MessageKey | None = None

    def __str__(self) -> str:
        return ", ".join(self.topics) or f"topics like '{self.pattern}'"


@dataclass(frozen=True)
class TableSource:
    """A table of the catalog: its new rows, its changes, or all of its rows."""

    name: str
    changes: bool = False
    full: bool = False

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class SparkSource:
    """What one of Spark's own readers reads, such as a database by JDBC."""

    format: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold passwords
    high_water_mark: str | None = None
    data_source: type | None = None  # a class of PySpark's `DataSource`, which a run registers under its name

    def __str__(self) -> str:
        return self.format


Source = FileSource | KafkaSource | TableSource | SparkSource


def table(name: str, *, changes: bool = False, full: bool = False) -> TableSource:
    """Rows of a table: those that were appended since the run before.

    - `changes`: all that has changed since the run before, with `INSERT` or `DELETE` in the column `_change_type`; an
      updated row is its old values as `DELETE` and its new ones as `INSERT`. In mode `upsert`, that column is the `op`
      of the pipeline unless it names another; in mode `replace-partition`, all rows of the partitions that changed are
      read, without that column.
    - `full`: all rows, in each run.
    """
    parts = name_parts(name)
    if parts is None or len(parts) < 2:
        raise DeclarationError(
            f"a table source reads {name!r:.100}, expected {TABLE_NAME}",
            hint='sources.table("silver.orders")',
            option="name",
            got=name,
        )
    if changes and full:
        raise DeclarationError(
            f"the source '{'.'.join(parts)}' has changes and full, which exclude each other",
            hint="changes=True for what has changed since the run before, full=True for all rows",
            table=".".join(parts),
            option="full",
            problem="exclusive",
        )
    return TableSource(".".join(parts), bool(changes), bool(full))


def spark(format: str | type, *, high_water_mark: str | None = None, **options: object) -> SparkSource:
    """Rows that `spark.read.format(format).options(...)` gives: of a database by JDBC, or of another connector.

    - `format`: the name of a data source of Spark, or a class of your own, made of PySpark's `DataSource`.
    - `high_water_mark`: a column whose values rise, such as an id or a time of change: each run reads the rows above
      the highest value that the run before has read. Without it, each run reads all rows.
    - `options`: those of Spark's reader: `url`, `dbtable`, `user`, ...
    """
    data_source = format if isinstance(format, type) and hasattr(format, "name") else None
    format = data_source.name() if data_source is not None else format
    if not isinstance(format, str) or not format.strip():
        raise _wrong_option("format", format, "the name of a data source of Spark, such as 'jdbc'")
    if high_water_mark is not None and (not isinstance(high_water_mark, str) or not high_water_mark.strip()):
        raise _wrong_option("high_water_mark", high_water_mark, "the name of a column")
    if unset := sorted(name for name, value in options.items() if value is None):
        raise DeclarationError(
            f"option '{unset[0]}' of the Spark source '{format}' is None",
            hint="leave it out, or give it a value",
            option=unset[0],
            problem="missing",
        )
    return SparkSource(format, {name: _option(value) for name, value in options.items()}, high_water_mark, data_source)


def _option(value: object) -> str:
    """A value as Spark's reader takes it.

    >>> _option(True), _option(5)
    ('true', '5')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def kafka(
    *topics: str,
    servers: str,
    pattern: str | None = None,
    decode: Literal["json", "none"] | Callable[[pa.RecordBatch], Any] = "json",
    schema: pa.Schema | None = None,
    max_messages: int = 1_000_000,
    data_loss: DataLoss = "stop",
    options: Mapping[str, str] | None = None,
    message_key: MessageKey | None = None,
) -> KafkaSource:
    """Messages of Kafka: of the topics named, or of all whose names match the regular expression `pattern`.

    - `decode`: `json` takes a message for an object, and its fields for the table's columns, as text. A function gets
      Arrow batches (key, value, topic, partition, offset, timestamp) and gives a row for each message; where its column
      `_error` is not NULL, the message goes to the quarantine, and that is the reason. `none` hands Kafka's own columns
      to the pipeline's function.
    - `schema`: the Arrow schema of what a decoder of your own gives, for a pipeline whose function changes the frame.
    - `max_messages`: at most this many per micro-batch.
    - `data_loss`: what happens when messages are gone before they were read: `stop` says which; `accept` goes on
      without them.
    - `options`: settings of the Kafka client, such as `{"security.protocol": "SASL_SSL"}`.
    - `message_key`: the messages' keys hold the key of the rows that are upserted, so that a tombstone (a message
      without a value) deletes one: `json`, an object with the key's columns, or the value of the only one; `text`, the
      bare value of the only one.
    """
    source = KafkaSource(
        servers, topics, pattern, decode, schema, max_messages, data_loss, dict(options or {}), message_key
    )
    _check_topics(source)
    _check_options(source)
    return source


def _check_topics(source: KafkaSource) -> None:
    if bool(source.topics) == bool(source.pattern):
        raise DeclarationError(
            "a Kafka source needs topics, or a pattern of topics, and not both",
            hint='sources.kafka("uplink", servers=...)',
            option="topics",
            problem="exclusive" if source.topics else "missing",
        )
    if wrong := [name for name in source.topics if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name)]:
        raise DeclarationError(
            f"'{wrong[0]}' cannot name a topic of Kafka",
            hint="for a pattern: sources.kafka(pattern='...', servers=...)",
            option="topics",
            got=wrong[0],
        )


def _check_options(source: KafkaSource) -> None:
    if not callable(source.decode) and source.decode not in ("json", "none"):
        raise _wrong_option("decode", source.decode, "'json', 'none', or a function on Arrow batches")
    if source.data_loss not in get_args(DataLoss):
        raise _wrong_option("data_loss", source.data_loss, f"one of {', '.join(get_args(DataLoss))}")
    if source.message_key is not None and source.message_key not in get_args(MessageKey):
        raise _wrong_option("message_key", source.message_key, f"one of {', '.join(get_args(MessageKey))}")
    if source.message_key is not None and source.decode != "json":
        raise DeclarationError(
            "message_key is for decode='json'; a decoder of your own gets the keys",
            hint="leave message_key out",
            option="message_key",
            got=source.message_key,
            problem="not-applicable",
        )
    if source.max_messages < 1:
        raise DeclarationError(
            f"max_messages is {source.max_messages}, expected 1 or more", option="max_messages", got=source.max_messages
        )


def _wrong_option(option: str, got: object, expected: str) -> DeclarationError:
    return DeclarationError(f"{option} is '{got}', expected {expected}", option=option, got=got)


def csv(
    pattern: str,
    *,
    header: bool = True,
    delimiter: str = ",",
    quote: str = '"',
    escape: str | None = None,
    null_values: Sequence[str] = ("",),
    newlines_in_values: bool = False,
) -> FileSource:
    """CSV files in UTF-8, also compressed (`.csv.gz`); every column arrives as text, and the table's types are applied
    at the end.

    Columns are found by the names in each file's own header; without a header they are `_c0`, `_c1`, ... A text that
    stands in `null_values` and not in quotes is NULL. With `newlines_in_values` a file is read by one task, however
    large it is.
    """
    options = CsvOptions(header, delimiter, quote, escape, tuple(null_values), newlines_in_values)
    return FileSource("csv", _known(pattern), options)


def json(pattern: str) -> FileSource:
    """Files of JSON lines, also compressed; every field arrives as text, nested ones as JSON."""
    return FileSource("json", _known(pattern))


def parquet(pattern: str) -> FileSource:
    """Parquet files; columns arrive in their own types."""
    return FileSource("parquet", _known(pattern))


def _known(pattern: str) -> str:
    if "://" in pattern and not pattern.startswith("s3://"):
        raise DeclarationError(
            f"the pattern '{pattern}' is on no store that pipelines read",
            hint="name a path, such as landing/*.csv, or s3://bucket/landing/*.csv",
            option="pattern",
            got=pattern,
        )
    return pattern
