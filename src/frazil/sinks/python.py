"""The options of sinks, by the same names for every host, and the catalog that a sink commits to."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, Unpack

from frazil.errors import SinkError
from frazil.sinks.arguments import as_checks, check_names, check_values
from frazil.sinks.sink import BadRows, FlushPolicy, SinkOptions
from frazil.write.commit import CommitCatalog, SingleTableCatalog
from frazil.write.contract import Extra
from frazil.write.files import BufferLimits


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
    nested_as_json: bool


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
        nested_as_json=options.get("nested_as_json", SinkOptions.nested_as_json),
    )


def part_name(name: str, part: int) -> str:
    """How a part of a stream is called in the table's progress.

    >>> part_name("uplink", 0)
    'uplink/part-0'
    """
    return f"{name}/part-{part}"


def as_catalog(catalog: Any) -> CommitCatalog:
    """The catalog that `open` was given, as the commit core wants it: a `Lake` gives its own."""
    from frazil.client import FrazilCatalog, connect

    if isinstance(getattr(type(catalog), "catalog", None), cached_property):  # of a Lake
        catalog = catalog.catalog
    if catalog is None:
        return connect()
    if isinstance(catalog, str):
        return connect(uri=catalog)
    if not hasattr(catalog, "load_table"):
        raise SinkError(
            f"catalog is {catalog!r:.100}: expected a Lake, a catalog of PyIceberg or the address of a REST catalog",
            option="catalog",
        )
    return (
        catalog
        if isinstance(catalog, FrazilCatalog) or hasattr(catalog, "commit_changes")
        else SingleTableCatalog(catalog)
    )
