"""A live table without a server: metadata, and the catalog's own pure functions that make it and change it."""

from __future__ import annotations

import json
from typing import Any

from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from frazil.catalog.commit import Change, decide, new_table
from frazil.catalog.metadata import normalise, staged_reply
from frazil.catalog.names import Name
from frazil.tables.apply import _requirements
from frazil.tables.declare import Table
from frazil.tables.diff import diff, diff_table
from frazil.tables.steps import AlterTable, CreateTable

LOCATION = "memory:t"


def create(table: Table) -> TableMetadata:
    """The table as a catalog creates it."""
    (step,) = diff(table, namespace_exists=True, live=None)
    assert isinstance(step, CreateTable)
    request = {
        "schema": step.schema,
        "partition-spec": step.spec,
        "write-order": step.order,
        "properties": dict(step.properties),
    }
    return _parse(new_table(request, location=LOCATION, now_ms=1, uuid="f79c3e09-677c-4bbd-a479-3f349cb785e7"))


def alter(step: AlterTable | None, metadata: TableMetadata) -> TableMetadata:
    """The table after the step."""
    if step is None:
        return metadata
    change = Change(Name(("l",), "t"), _requirements(step.seen), step.updates)
    base = normalise(metadata.model_dump(mode="json", by_alias=True), LOCATION)
    result = decide(base, change, base_location=LOCATION, now_ms=2, new_uuid="")
    assert result is not None
    return _parse(result)


def _parse(metadata: dict[str, Any]) -> TableMetadata:
    """The catalog's metadata as a client gets it."""
    return TableMetadataUtil.parse_obj(json.loads(staged_reply(metadata))["metadata"])


def evolve_to(table: Table, metadata: TableMetadata) -> tuple[list[str], TableMetadata]:
    """What the plan says, and the table afterwards, of which a second plan must say nothing."""
    step = diff_table(table, metadata)
    after = alter(step, metadata)
    assert diff_table(table, after) is None
    return [] if step is None else [str(change) for change in step.changes], after
