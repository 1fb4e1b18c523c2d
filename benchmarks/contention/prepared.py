"""Appends that were prepared on one head: their manifests and manifest lists are on disk, their requests are bytes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from benchmarks.catalog.scenarios import Bench
from benchmarks.catalog.workload import expect
from benchmarks.load import Client, request
from frazil.client import FrazilCatalog
from frazil.protocol import PROPERTY_REBASE_APPENDS
from frazil.write.commit import Append
from frazil.write.files import WrittenFile

if TYPE_CHECKING:
    from pyiceberg.table import Table

ROWS, BYTES = 10_000, 1 << 20


def open_table(bench: Bench) -> Table:
    """A new table of one snapshot whose appends are rebased."""
    name = next(bench.names)
    bench.ask(bench.place.create_table(name))
    catalog = FrazilCatalog("bench", uri=bench.server.address)
    with catalog.load_table((bench.place.namespace, name)).transaction() as transaction:
        transaction.set_properties({PROPERTY_REBASE_APPENDS: "true"})
    table = catalog.load_table((bench.place.namespace, name))
    bench.ask(prepare(bench, table))
    table.refresh()
    return table


def prepare(bench: Bench, table: Table) -> bytes:
    """The request of a fast append of one file to the table as it was loaded."""
    file = WrittenFile(f"{table.location()}/data/{uuid.uuid4()}.parquet", BYTES, ROWS)
    change = Append(table.name(), (file,)).build(table, attempt=0, summary={}, properties={})
    body = {"requirements": _dump(change.requirements), "updates": _dump(change.updates)}
    path = f"{bench.place.root}/namespaces/{bench.place.namespace}/tables/{table.name()[-1]}"
    return request("POST", path, json.dumps(body).encode())


def _dump(models: Any) -> list[Any]:
    return [json.loads(model.model_dump_json(by_alias=True, exclude_none=True)) for model in models]


def sending(requests: Iterator[bytes]) -> Client:
    """Sends the next request that no other client has sent, until there are none. Each must succeed."""
    for asked in requests:
        expect((yield asked), 200)
