"""The sink in plain Python.

    import frazil.sinks

    with frazil.sinks.open("lakehouse.uplink", name="uplink") as sink:
        for batch, next_offset in read_from(sink.offset or 0):
            sink.write(batch, position=next_offset)

What is promised is in docs/sinks.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, get_args

from pyiceberg.typedef import Identifier

from frazil.errors import MissingExtra, SinkError
from frazil.sinks.arguments import as_checks, check_names, check_stream, check_values, check_word
from frazil.sinks.iceberg import IcebergTarget
from frazil.sinks.sink import ArrowSink, BadRows, FlushPolicy, SinkOptions
from frazil.write.commit import MAIN, CommitCatalog, Patience, SingleTableCatalog
from frazil.write.contract import Extra
from frazil.write.files import BufferLimits
from frazil.write.upsert import Ops, UpsertRules

Mode = Literal["append", "upsert"]
OPEN_PARAMETERS = ("catalog", "part", "branch", "patience", "mode", "key", "sequence", "op")


def open(  # frazil.sinks.open reads as it should
    table: str | Identifier,
    *,
    name: str,
    catalog: Any = None,
    part: int = 0,
    branch: str = MAIN,
    patience: Patience | None = None,
    mode: Mode = "append",
    key: str | Sequence[str] = (),
    sequence: str | None = None,
    op: str | Ops | None = None,
    **options: Unpack[Options],
) -> ArrowSink:
    """A sink for a table of an Iceberg catalog.

    `name` is the stream's own: its progress is kept under it, and whoever opens the same name and part takes over from
    the writer before. `catalog` is a `frazil.client.FrazilCatalog`, any catalog of PyIceberg, the address of a REST
    catalog, or nothing: the settings say.

    With `mode="upsert"`, rows are changes: a row takes the place of the one with its `key`. The column `sequence` says
    which of two is newer, the column `op` which ones are deletes.
    """
    chosen = _checked(name, part, options, others=OPEN_PARAMETERS)
    check_word("mode", mode, get_args(Mode))
    identifier = tuple(table.split(".")) if isinstance(table, str) else table
    names = UpsertRules.of(key, sequence, op).key if mode == "upsert" else ()
    target = IcebergTarget(as_catalog(catalog), identifier, branch, patience or Patience(), names)
    if mode == "upsert":
        from frazil.sinks.upsert_sink import UpsertSink

        rules = UpsertRules.of(key, sequence, op)
        return UpsertSink(target, part_name(name, part), rules, options=chosen, part_number=part)
    if key or sequence or op:
        raise SinkError(
            f"{target.layout.name}: key, sequence and op are for mode='upsert'",
            hint="mode is 'append' or 'upsert'",
            table=target.layout.name,
        )
    return ArrowSink(target, part_name(name, part), options=chosen, part_number=part)


def open_delta(
    uri: str,
    *,
    name: str,
    storage_options: Mapping[str, str] | None = None,
    part: int = 0,
    patience: Patience | None = None,
    **options: Unpack[Options],
) -> ArrowSink:
    """A sink for a Delta table in a folder or bucket; the same calls and promises."""
    chosen = _checked(name, part, options, others=("storage_options", "part", "patience"))
    try:
        from frazil.sinks.delta import DeltaTarget
    except ModuleNotFoundError as exc:
        raise MissingExtra("deltalake", extra="delta") from exc
    target = DeltaTarget(uri, dict(storage_options or {}), patience or Patience())
    return ArrowSink(target, part_name(name, part), options=chosen, part_number=part)


class Options(TypedDict, total=False):
    """How a sink treats rows; what is not given has the value of `SinkOptions`."""

    flush_rows: int | None
    flush_bytes: int | None
    flush_seconds: float | None
    checks: str | Sequence[str]
    extra_fields: Extra
    bad_rows: BadRows
    budget_bytes: int
    threads: int
    spool_folder: Path | None


def sink_options(**options: Unpack[Options]) -> SinkOptions:
    """The options of a sink from flat names, as hosts take them; refuses a name or value that is no option."""
    check_names(options, Options.__annotations__)
    check_values(options)
    flush = FlushPolicy(
        options.get("flush_rows", FlushPolicy.rows), options.get("flush_bytes"), options.get("flush_seconds")
    )
    limits = BufferLimits(
        budget_bytes=options.get("budget_bytes", BufferLimits.budget_bytes),
        threads=options.get("threads", BufferLimits.threads),
        spool_folder=options.get("spool_folder"),
    )
    return SinkOptions(
        flush=flush,
        limits=limits,
        checks=as_checks(options.get("checks", ())),
        extra_fields=options.get("extra_fields", SinkOptions.extra_fields),
        bad_rows=options.get("bad_rows", SinkOptions.bad_rows),
    )


def _checked(name: str, part: int, options: Options, *, others: Sequence[str]) -> SinkOptions:
    """The options of a call, checked before the table is opened."""
    check_names(options, Options.__annotations__, others=others)
    check_stream(name, part)
    return sink_options(**options)


def part_name(name: str, part: int) -> str:
    """How a part of a stream is called in the table's progress.

    >>> part_name("uplink", 0)
    'uplink/part-0'
    """
    return f"{name}/part-{part}"


def as_catalog(catalog: Any) -> CommitCatalog:
    """The catalog that `open` was given, as the commit core wants it."""
    from frazil.client import FrazilCatalog, connect

    if catalog is None:
        return connect()
    if isinstance(catalog, str):
        return connect(uri=catalog)
    return (
        catalog
        if isinstance(catalog, FrazilCatalog) or hasattr(catalog, "commit_changes")
        else SingleTableCatalog(catalog)
    )
