"""Appends as clients prepare them, without data files: a manifest, a manifest list, and the request of the commit."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.table import Table

from frazil.client import FrazilCatalog
from frazil.protocol import PROPERTY_REBASE_APPENDS
from frazil.write.commit import Append
from frazil.write.files import WrittenFile
from tests.kit.catalog_databases import Answer, Client

Json = dict[str, Any]
ROWS, BYTES = 10, 1000
REBASES = {PROPERTY_REBASE_APPENDS: "true"}


def open_table(uri: str, name: str = "t", **properties: str) -> Table:
    """A new table of the namespace `ns`, whose appends are rebased unless told otherwise."""
    Client(uri).create(name, properties={**REBASES, **properties})
    return load(uri, name)


def load(uri: str, name: str = "t") -> Table:
    return FrazilCatalog("lake", uri=uri).load_table(("ns", name))


def new_file(table: Table, path: str = "", *, rows: int = ROWS) -> WrittenFile:
    """A data file that is only said to be there."""
    path = path or f"{table.location()}/data/{uuid.uuid4()}.parquet"
    return WrittenFile(path, BYTES, rows, spec_id=table.spec().spec_id)


def prepare(
    table: Table,
    *files: WrittenFile,
    summary: Mapping[str, str] | None = None,
    ref: str = "main",
    properties: Mapping[str, str] | None = None,
) -> Json:
    """The request of a fast append of these files (one, if none are given) to the table as it was loaded."""
    append = Append(table.name(), files or (new_file(table),), ref)
    change = append.build(table, attempt=0, summary=summary or {}, properties=properties or {})
    return {"requirements": _dump(change.requirements), "updates": _dump(change.updates)}


def _dump(models: Sequence[Any]) -> list[Json]:
    """As PyIceberg sends them: a requirement that there is no branch has a null."""
    dumped = [json.loads(model.model_dump_json(by_alias=True)) for model in models]
    return [
        {key: value for key, value in each.items() if value is not None or key == "snapshot-id"}
        | ({"snapshot": _without_nulls(each["snapshot"])} if "snapshot" in each else {})
        for each in dumped
    ]


def _without_nulls(snapshot: Json) -> Json:
    return {key: value for key, value in snapshot.items() if value is not None}


def send(uri: str, request: Json, name: str = "t", *, client: Client | None = None, **headers: str) -> Answer:
    return (client or Client(uri)).post(f"/namespaces/ns/tables/{name}", request, headers=headers or None)


def snapshot_of(request: Json) -> Json:
    snapshot: Json = request["updates"][0]["snapshot"]
    return snapshot


def snapshot_ids(uri: str, name: str = "t") -> list[int]:
    return [snapshot["snapshot-id"] for snapshot in Client(uri).load(name)["metadata"]["snapshots"]]
