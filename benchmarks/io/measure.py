"""Writes the same rows with few and with many commits, and compares what passed the wire."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.io.counting import CountingProxy, Traffic, counting_proxy
from benchmarks.report import Figure, Options, compare
from benchmarks.sink.places import Place, Store, lake_in, object_store

if TYPE_CHECKING:
    from frazil.sinks import ArrowSink

CLAIM = 100.0  # the document: "Reduces I/O overhead by 100x"
BATCHED = 10_000  # queries in a commit, the document's and the sink's default
NAME = "transpile"

Open = Callable[[str, int], "ArrowSink"]  # a new table of this name; rows of a commit


@dataclass(frozen=True)
class Size:
    """How many queries are written with a commit each, and how many with one commit."""

    single: int
    batched: int = BATCHED


FULL, QUICK = {"Iceberg": Size(1_000), "Delta": Size(200)}, {"Iceberg": Size(100), "Delta": Size(50)}


def measure_all(options: Options) -> list[Figure]:
    """Both table formats."""
    sizes, rows = QUICK if options.quick else FULL, transpiled_rows(BATCHED)
    with object_store() as store, lake_behind_proxy(store) as lake:
        openers = {"Iceberg": lake.open_iceberg, "Delta": lake.open_delta}
        compared = [compare_commits(name, openers[name], rows, size, lake.proxy) for name, size in sizes.items()]
    return [figure for figures in compared for figure in figures]


def transpiled_rows(count: int) -> pa.Table:
    """The rows that the transpile example makes of a number of queries."""
    from examples.transpile.queries import write_queries
    from examples.transpile.transpiling import Dialects, quiet, transpile_rows

    quiet()
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder:
        queries = pq.read_table(write_queries(Path(folder) / "queries.parquet", count)).combine_chunks()
    batches = queries.to_batches()
    starts = [sum(batch.num_rows for batch in batches[:number]) for number in range(len(batches))]
    return pa.Table.from_batches(
        transpile_rows(batch, Dialects(), file="queries.parquet", first=start)
        for batch, start in zip(batches, starts, strict=True)
    )


@dataclass(frozen=True)
class Lake:
    """Tables in an object store that is reached through a proxy."""

    place: Place
    store: Store
    proxy: CountingProxy

    def open_iceberg(self, name: str, flush_rows: int) -> ArrowSink:
        """The sink of a new Iceberg table."""
        import frazil.sinks
        from examples.transpile.lakehouse import transpiled
        from frazil.client import connect
        from frazil.config import load_settings

        catalog = connect(load_settings(environ=self.place.environ), uri=self.place.uri)
        catalog.create_table(f"bench.{name}", transpiled.schema())
        return frazil.sinks.open(f"bench.{name}", name=NAME, catalog=catalog, flush_rows=flush_rows)

    def open_delta(self, name: str, flush_rows: int) -> ArrowSink:
        """The sink of a new Delta table."""
        import frazil.sinks
        from examples.transpile.lakehouse import transpiled
        from frazil.config import load_settings
        from frazil.sinks import delta_options
        from frazil.sinks.delta import create_delta_table

        uri = f"s3://{self.store.bucket}/delta/{name}"
        options = delta_options(load_settings(environ=self.place.environ), uri) | {"conditional_put": "etag"}
        create_delta_table(uri, transpiled.schema(), storage_options=options)
        return frazil.sinks.open(uri, name=NAME, storage_options=options, flush_rows=flush_rows)


@contextmanager
def lake_behind_proxy(store: Store) -> Iterator[Lake]:
    """A catalog, and clients of it, that reach a store through a proxy that counts."""
    with counting_proxy(store.endpoint) as proxy, lake_in(replace(store, endpoint=proxy.uri)) as place:
        yield Lake(place, store, proxy)


def compare_commits(label: str, open_sink: Open, rows: pa.Table, size: Size, proxy: CountingProxy) -> list[Figure]:
    """Requests and bytes per 10,000 queries: one commit for all, next to one for each."""
    batched = write_rows(open_sink("batched", size.batched), rows.slice(0, size.batched), proxy)
    single = write_rows(open_sink("single", 1), rows.slice(0, size.single), proxy)
    for traffic, count, commits in ((batched, size.batched, 1), (single, size.single, size.single)):
        said = f"{traffic.requests:8,} requests {traffic.bytes / 1e6:9.2f} MB"
        print(f"  {label:8s} {count:7,} queries in {commits:6,} commits: {said}", flush=True)
    return figures(label, batched, single, size)


def write_rows(sink: ArrowSink, rows: pa.Table, proxy: CountingProxy) -> Traffic:
    """Writes the rows one by one, as queries are transpiled; what it took of the store."""
    with sink:
        before = proxy.traffic
        for number in range(rows.num_rows):
            sink.write(rows.slice(number, 1), position=number + 1)
        sink.commit()
        return proxy.traffic - before


def figures(label: str, batched: Traffic, single: Traffic, size: Size) -> list[Figure]:
    """What both took for 10,000 queries, next to the claim.

    The bytes of a commit grow with the commits before it, which the table's metadata lists: the first ones are the
    cheapest of 10,000.
    """
    batches, commits = BATCHED / size.batched, BATCHED / size.single
    peer = f"one commit per query ({size.single:,} measured)"
    values = {
        "requests": (batched.requests * batches, single.requests * commits),
        "MB": (batched.bytes * batches / 1e6, single.bytes * commits / 1e6),
    }
    return [
        compare(f"{label}, {unit} per {BATCHED:,} queries", *costs, peer, claim=CLAIM, less_is_better=True)
        for unit, costs in values.items()
    ]
