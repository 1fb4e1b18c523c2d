"""The sink in plain Python.

    import frazil.sinks

    with frazil.sinks.open("lakehouse.uplink", name="uplink") as sink:
        for batch, next_offset in read_from(sink.offset or 0):
            sink.write(batch, position=next_offset)

What is promised is in docs/sinks.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyiceberg.typedef import Identifier

from frazil.sinks.buffer import BufferLimits
from frazil.sinks.contract import Extra
from frazil.sinks.iceberg import IcebergTarget
from frazil.sinks.progress import MAIN
from frazil.sinks.publish import CommitCatalog, Patience, SingleTableCatalog
from frazil.sinks.sink import ArrowSink, BadRows, FlushPolicy, SinkOptions


def open(  # frazil.sinks.open reads as it should
    table: str | Identifier,
    *,
    name: str,
    catalog: Any = None,
    part: int = 0,
    branch: str = MAIN,
    flush_rows: int | None = 10_000,
    flush_bytes: int | None = None,
    flush_seconds: float | None = None,
    checks: Sequence[str] = (),
    extra_fields: Extra = "error",
    bad_rows: BadRows = "stop",
    budget_bytes: int = BufferLimits.budget_bytes,
    threads: int = BufferLimits.threads,
    spool_folder: Path | None = None,
    patience: Patience | None = None,
) -> ArrowSink:
    """A sink for a table of an Iceberg catalog.

    `name` is the stream's own: its progress is kept under it, and whoever opens the same name and part takes over from the writer before.
    `catalog` is a `frazil.client.FrazilCatalog`, any catalog of PyIceberg, the address of a REST catalog, or nothing: the settings say.
    """
    identifier = tuple(table.split(".")) if isinstance(table, str) else table
    target = IcebergTarget(_as_catalog(catalog), identifier, branch, patience or Patience())
    options = SinkOptions(
        flush=FlushPolicy(flush_rows, flush_bytes, flush_seconds),
        limits=BufferLimits(budget_bytes=budget_bytes, threads=threads, spool_folder=spool_folder),
        checks=tuple(checks),
        extra_fields=extra_fields,
        bad_rows=bad_rows,
    )
    return ArrowSink(target, f"{name}/part-{part}", options=options, part_number=part)


def _as_catalog(catalog: Any) -> CommitCatalog:
    from frazil.client import FrazilCatalog, connect

    if catalog is None:
        return connect()
    if isinstance(catalog, str):
        return connect(uri=catalog)
    return catalog if isinstance(catalog, FrazilCatalog) or hasattr(catalog, "commit_changes") else SingleTableCatalog(catalog)
