"""Declared against live gives steps. Pure: nothing is contacted, so every plan can be printed before anything
is done.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json, update_mapping

from frazil.errors import ChangeRefused
from frazil.protocol import PROPERTY_APPLIED, PROPERTY_NAME_MAPPING
from frazil.tables.compare import compare, same_value
from frazil.tables.declare import DEFAULT_FORMAT_VERSION, Table
from frazil.tables.evolve import Evolution, evolve
from frazil.tables.shape import Record, Shape, nodes
from frazil.tables.steps import AlterTable, CreateNamespace, CreateTable, Json, Seen, Step

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table as LiveTable
    from pyiceberg.table.metadata import TableMetadata

LAST_ADDED = -1  # the schema, spec or order that this commit adds
# how files without ids are read; it follows the schema, no one declares it


def diff(declared: Table, *, namespace_exists: bool, live: LiveTable | None) -> list[Step]:
    """The steps that make the live table what is declared, none if it is that already; ChangeRefused with all reasons
    if it cannot be.
    """
    if live is not None:
        changes = diff_table(declared, live.metadata)
        return [changes] if changes else []
    steps: list[Step] = [] if namespace_exists else [CreateNamespace(declared.namespace)]
    return [*steps, _create(declared)]


def diff_table(declared: Table, metadata: TableMetadata) -> AlterTable | None:
    """The one step that makes a live table what is declared; None if it is that already."""
    evolution = evolve(declared, metadata)
    if evolution.refusals:
        raise ChangeRefused(declared.name, evolution.refusals)
    changes = compare(evolution.live, evolution.target)
    if not changes:
        return None
    updates = _updates(evolution, {change.about[0] for change in changes}, metadata)
    keys = {
        PROPERTY_APPLIED,
        PROPERTY_NAME_MAPPING,
        *(change.about[1] for change in changes if change.about[0] == "property"),
    }
    return AlterTable(declared.name, tuple(changes), tuple(updates), Seen.of(metadata, keys=keys))


def _create(declared: Table) -> CreateTable:
    version = declared.format_version or DEFAULT_FORMAT_VERSION
    record = Record(0, 0, 1 if declared.sort_by else 0, version, declared.properties)
    return CreateTable(
        declared.name,
        _json(declared.schema()),
        _json(declared.partition_spec()),
        _json(declared.sort_order()),
        {**declared.properties, "format-version": str(version), PROPERTY_APPLIED: record.dump()},
        declared.location,
        declared.partition_by,
    )


def _updates(evolution: Evolution, about: set[str], metadata: TableMetadata) -> list[Json]:
    """The updates of the commit; those of what does not change are left out."""
    live, target = evolution.live, _numbered(evolution.target, metadata)
    updates: list[Json] = []
    if "format" in about:
        updates.append({"action": "upgrade-format-version", "format-version": target.format_version})
    if about & {"column", "order", "key"}:
        updates += [
            {"action": "add-schema", "schema": _json(target.schema)},
            {"action": "set-current-schema", "schema-id": LAST_ADDED},
        ]
    if "partition" in about:
        updates += [
            {"action": "add-spec", "spec": _json(target.spec)},
            {"action": "set-default-spec", "spec-id": LAST_ADDED},
        ]
    if "sort" in about:
        order = {"action": "add-sort-order", "sort-order": _json(target.order)}
        updates += [order, {"action": "set-default-sort-order", "sort-order-id": LAST_ADDED}]
    if gone := sorted(live.properties.keys() - target.properties.keys()):
        updates.append({"action": "remove-properties", "removals": gone})
    properties = {**_set_properties(live, target), **_mapping(evolution, metadata), **_record(target)}
    return [*updates, {"action": "set-properties", "updates": properties}]


def _set_properties(live: Shape, target: Shape) -> dict[str, str]:
    known = live.properties
    return {
        key: value
        for key, value in target.properties.items()
        if key not in known or not same_value(key, known[key], value)
    }


def _numbered(target: Shape, metadata: TableMetadata) -> Shape:
    """The target under the ids that catalogs give: those of an equal schema, spec or order in the table's history, or
    the next.
    """
    schemas = {schema.schema_id: schema for schema in metadata.schemas}
    specs = {spec.spec_id: spec for spec in metadata.partition_specs}
    orders = {order.order_id: order.fields for order in metadata.sort_orders}
    schema_id = next((i for i, schema in schemas.items() if _same_schema(schema, target.schema)), max(schemas) + 1)
    spec_id = next((i for i, spec in specs.items() if spec.compatible_with(target.spec)), max(specs) + 1)
    order_id = next((i for i, fields in orders.items() if fields == target.order.fields), max([0, *orders]) + 1)
    return replace(
        target,
        schema=target.schema.model_copy(update={"schema_id": schema_id}),
        spec=target.spec.model_copy(update={"spec_id": spec_id}),
        order=target.order.model_copy(update={"order_id": order_id if target.order.fields else 0}),
    )


def _record(target: Shape) -> dict[str, str]:
    ids = (target.schema.schema_id, target.spec.spec_id, target.order.order_id)
    return {PROPERTY_APPLIED: Record(*ids, target.format_version, target.properties).dump()}


def _same_schema(left: Schema, two: Schema) -> bool:
    first, second = ({**_json(schema), "schema-id": 0} for schema in (left, two))
    return first == second


def _mapping(evolution: Evolution, metadata: TableMetadata) -> dict[str, str]:
    """The table's name mapping after the change, where it has one: else files without ids would lose the renamed
    columns.
    """
    if PROPERTY_NAME_MAPPING not in metadata.properties:
        return {}
    before, after = nodes(evolution.live.schema), nodes(evolution.target.schema)
    renamed = {i: node.field for i, node in after.items() if i in before and before[i].field.name != node.field.name}
    added: dict[int, list[Any]] = {}
    for field_id, node in after.items():
        if field_id not in before and (node.parent in before or node.parent == 0):
            added.setdefault(node.parent or -1, []).append(node.field)
    mapping: NameMapping = update_mapping(
        parse_mapping_from_json(metadata.properties[PROPERTY_NAME_MAPPING]), renamed, added
    )
    return {PROPERTY_NAME_MAPPING: mapping.model_dump_json()}


def _json(model: Any) -> Json:
    """A PyIceberg model as the REST protocol has it."""
    document: Json = json.loads(model.model_dump_json())
    return document
