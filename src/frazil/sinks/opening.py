"""Opens a sink: one call and the same options for every host (Python, Bytewax, Spark) and target (Iceberg, Delta).

    import frazil.sinks

    frazil.sinks.open("lakehouse.uplink", name="uplink", flush_rows=50_000)                  # plain Python, Daft
    frazil.sinks.open("s3://lake/uplink", name="uplink", flush_rows=50_000)                  # a Delta table
    frazil.sinks.open("lakehouse.uplink", host="bytewax", parts=2, flush_seconds=10)         # for op.output
    frazil.sinks.open("lakehouse.sales", host="spark", name="daily", bad_rows="quarantine")  # sink.write(frame)

What is promised is in docs/sinks.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast, get_args, overload

from pyiceberg.typedef import Identifier

from frazil.errors import MissingExtra, SinkError
from frazil.moved import former_keywords, warn_former
from frazil.sinks.arguments import check_names, check_stream, check_table, check_word
from frazil.sinks.iceberg import IcebergTarget
from frazil.sinks.location import delta_location, delta_options
from frazil.sinks.python import Options, as_catalog, part_name, sink_options
from frazil.sinks.sink import ArrowSink
from frazil.sinks.upsert_sink import UpsertSink
from frazil.write.commit import MAIN, RetryPolicy
from frazil.write.upsert import FORMATS, Ops, UpsertRules

if TYPE_CHECKING:
    from frazil.sinks.bytewax import TableSink
    from frazil.sinks.delta import DeltaTarget
    from frazil.sinks.spark import FrameOptions, FrameSink

Mode = Literal["append", "upsert"]
Host = Literal["python", "bytewax", "spark"]
TableName = str | Identifier | os.PathLike[str]
T = TypeVar("T")

# Names that Bytewax dataflows use, and what they are called here.
ALIASES = {"batch_size": "flush_rows", "batch_interval_seconds": "flush_seconds", "num_partitions": "parts"}
PARAMETERS = (
    *("catalog", "storage_options", "part", "parts", "branch", "retry", "mode", "key", "sequence", "op", "host"),
    *ALIASES,
)
NOT_FOR_FRAMES = ("flush_rows", "flush_bytes", "flush_seconds", "threads", "nested_as_json")


class OpenOptions(Options, total=False):
    """The options of every host, and their aliases in Bytewax dataflows."""

    batch_size: int | None
    batch_interval_seconds: float | None
    num_partitions: int


class SinkArguments(OpenOptions, total=False):
    """What `open` takes next to the table, its host and the name of the stream."""

    catalog: Any
    storage_options: Mapping[str, str] | None
    part: int
    parts: int
    branch: str
    retry: RetryPolicy | None
    mode: Mode
    key: str | Sequence[str]
    sequence: str | None
    op: str | Ops | None


@overload
def open(
    table: TableName,
    *,
    name: str,
    host: Literal["python"] = "python",
    catalog: Any = None,
    storage_options: Mapping[str, str] | None = None,
    part: int = 0,
    branch: str = MAIN,
    retry: RetryPolicy | None = None,
    mode: Mode = "append",
    key: str | Sequence[str] = (),
    sequence: str | None = None,
    op: str | Ops | None = None,
    **options: Unpack[OpenOptions],
) -> ArrowSink: ...


@overload
def open(
    table: TableName,
    *,
    name: str | None = None,
    host: Literal["bytewax"],
    catalog: Any = None,
    storage_options: Mapping[str, str] | None = None,
    parts: int = 1,
    branch: str = MAIN,
    retry: RetryPolicy | None = None,
    mode: Mode = "append",
    key: str | Sequence[str] = (),
    sequence: str | None = None,
    op: str | Ops | None = None,
    **options: Unpack[OpenOptions],
) -> TableSink: ...


@overload
def open(
    table: TableName,
    *,
    name: str,
    host: Literal["spark"],
    catalog: Any = None,
    storage_options: Mapping[str, str] | None = None,
    branch: str = MAIN,
    retry: RetryPolicy | None = None,
    **options: Unpack[OpenOptions],
) -> FrameSink: ...


@former_keywords(patience="retry")
def open(  # frazil.sinks.open reads as it should
    table: TableName,
    *,
    name: str | None = None,
    host: Host = "python",
    catalog: Any = None,
    storage_options: Mapping[str, str] | None = None,
    part: int = 0,
    parts: int = 1,
    branch: str = MAIN,
    retry: RetryPolicy | None = None,
    mode: Mode = "append",
    key: str | Sequence[str] = (),
    sequence: str | None = None,
    op: str | Ops | None = None,
    **options: Unpack[OpenOptions],
) -> ArrowSink | TableSink | FrameSink:
    """A sink that writes each row of a stream to a table exactly once.

    `table` is the name of a table in an Iceberg catalog, or the location of a Delta table: a path, a URL, or `delta:`
    and a path. `name` is the stream's own: its progress is kept under it, and a writer that opens the same name and
    part takes over from the writer before. A Bytewax sink takes the name of its step unless one is given.

    `host` says who brings the rows: `python` gives an `ArrowSink`, for any library that has Arrow, Daft among them;
    `bytewax` a sink for `op.output`, with `parts` parts; `spark` a `FrameSink` for DataFrames.

    `catalog` is a `Lake`, a `frazil.client.FrazilCatalog`, any catalog of PyIceberg or the address of a REST catalog;
    without it the settings say. `storage_options` are those of delta-rs; without them the settings say, too.

    With `mode="upsert"`, rows are changes: a row replaces the one with the same `key`. The column `sequence` says
    which of two is newer, the column `op` which ones are deletes.

    The options are those of `frazil.sinks.Options`. `batch_size`, `batch_interval_seconds` and `num_partitions`, the
    names of Bytewax dataflows, are aliases of `flush_rows`, `flush_seconds` and `parts`.
    """
    arguments, parts = _without_aliases(options, parts)
    check_names(arguments, Options.__annotations__, others=PARAMETERS)
    check_word("host", host, get_args(Host))
    check_word("mode", mode, get_args(Mode))
    where = _Where(table, catalog, storage_options, branch, retry or RetryPolicy())
    if host != "bytewax" or name is not None:
        check_stream(name, part)
    chosen = sink_options(**arguments)
    rules = _rules(where, mode, key, sequence, op)
    if host == "bytewax":
        return _for_bytewax(where, name, rules, arguments, parts)
    if parts != 1:
        raise SinkError(
            f"option 'parts' is {parts!r}: it is for host='bytewax'", hint="part=0, part=1, ...", option="parts"
        )
    if host == "spark":
        return _for_spark(where, name, rules, arguments)
    assert name is not None
    target = where.open(rules)
    if rules is not None:
        assert isinstance(target, IcebergTarget)
        return UpsertSink(target, part_name(name, part), rules, options=chosen, part_number=part)
    return ArrowSink(target, part_name(name, part), options=chosen, part_number=part)


class _Where:
    """The table that rows go to."""

    def __init__(
        self,
        table: TableName,
        catalog: Any,
        storage_options: Mapping[str, str] | None,
        branch: str,
        retry: RetryPolicy,
    ) -> None:
        self.location = delta_location(table)
        self.identifier = check_table(table) if self.location is None else ()
        self.catalog, self.branch, self.retry = catalog, branch, retry
        self.storage_options = storage_options
        if self.location is None and storage_options is not None:
            raise SinkError(
                f"storage_options are for Delta tables, and {self.label} is a table of a catalog",
                hint="a Delta table is named by its location: 's3://bucket/table', './table' or 'delta:table'",
                option="storage_options",
            )
        if self.location is not None and branch != MAIN:
            raise SinkError(f"{self.location}: a Delta table has no branches", option="branch", table=self.location)

    @property
    def label(self) -> str:
        """What the table is called in messages."""
        return ".".join(self.identifier) if self.location is None else self.location

    @property
    def options_of_delta(self) -> dict[str, str]:
        """How the Delta table is reached."""
        assert self.location is not None
        if self.storage_options is not None:
            return dict(self.storage_options)
        from frazil.config import load_settings

        return delta_options(load_settings(), self.location) if "://" in self.location else {}

    def open(self, rules: UpsertRules | None) -> IcebergTarget | DeltaTarget:
        """The target of commits."""
        if self.location is None:
            catalog = as_catalog(self.catalog)
            if rules is None:
                return IcebergTarget(catalog, self.identifier, self.branch, self.retry)
            return IcebergTarget(catalog, self.identifier, self.branch, self.retry, rules.key, formats=FORMATS)
        try:
            from frazil.sinks.delta import DeltaTarget
        except ModuleNotFoundError as exc:
            raise MissingExtra("deltalake", extra="delta") from exc
        return DeltaTarget(self.location, self.options_of_delta, self.retry)


def _without_aliases(options: OpenOptions, parts: int) -> tuple[Options, int]:
    aliases: dict[str, Any] = {**options, **({"parts": parts} if parts != 1 else {})}
    for alias in [name for name in ALIASES if name in aliases]:
        if ALIASES[alias] in aliases:
            raise SinkError(
                f"'{alias}' is another name of '{ALIASES[alias]}', and both are given", hint="give one", option=alias
            )
        aliases[ALIASES[alias]] = aliases.pop(alias)
    return cast(Options, aliases), aliases.pop("parts", 1)


def _rules(
    where: _Where, mode: Mode, key: str | Sequence[str], sequence: str | None, op: str | Ops | None
) -> UpsertRules | None:
    if mode == "append":
        if key or sequence or op:
            raise SinkError(
                f"{where.label}: key, sequence and op are for mode='upsert'",
                hint="mode is 'append' or 'upsert'",
                table=where.label,
                option="mode",
            )
        return None
    if where.location is not None:
        raise SinkError(f"{where.location}: mode 'upsert' is for Iceberg tables", option="mode", table=where.location)
    return UpsertRules.of(key, sequence, op)


def _for_bytewax(where: _Where, name: str | None, rules: UpsertRules | None, options: Options, parts: int) -> TableSink:
    from frazil.sinks.bytewax import TableSink, TargetConfig

    config = TargetConfig(
        lambda: where.open(rules),
        where.label,
        name=name,
        rules=rules,
        num_partitions=parts,
        options=options,
        retry=where.retry,
    )
    return TableSink(config)


def _for_spark(where: _Where, name: str | None, rules: UpsertRules | None, options: Options) -> FrameSink:
    from frazil.sinks.spark import Delta
    from frazil.sinks.spark import open as open_frames

    if rules is not None:
        raise SinkError(
            f"{where.label}: a DataFrame is upserted by frazil.pipelines.upsert.upsert_frame",
            hint="upsert_frame(frame, table, name=..., key=...)",
            table=where.label,
            option="mode",
        )
    if unfit := [option for option in NOT_FOR_FRAMES if option in options]:
        raise SinkError(
            f"option '{unfit[0]}' does not apply to host='spark': each DataFrame is one commit", option=unfit[0]
        )
    assert name is not None
    table = where.label if where.location is None else Delta(where.location, where.options_of_delta)
    chosen = cast("FrameOptions", options)
    return open_frames(table, name=name, catalog=where.catalog, branch=where.branch, retry=where.retry, **chosen)


@former_keywords(patience="retry")
def open_delta(
    uri: str,
    *,
    name: str,
    storage_options: Mapping[str, str] | None = None,
    part: int = 0,
    retry: RetryPolicy | None = None,
    **options: Unpack[Options],
) -> ArrowSink:
    """Deprecated: use `open(location, ...)`."""
    warn_former("frazil.sinks.open_delta()", "frazil.sinks.open() with the location of the table")
    location = uri if delta_location(uri) else f"delta:{uri}"
    return open(location, name=name, storage_options=storage_options or {}, part=part, retry=retry, **options)
