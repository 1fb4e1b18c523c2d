"""How one shape of a table differs from another, in lines with + ~ -. Pure; columns are the same where their
ids are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType

from frazil.tables.iceberg import default_of, sort_term_of, term_of, type_of
from frazil.tables.shape import Node, Shape, nodes

Sign = Literal["+", "~", "-"]


@dataclass(frozen=True)
class Change:
    """One difference: what it is about (`column`, its id and the aspect), and how to say it."""

    sign: Sign
    about: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.sign} {self.text}"


def compare(old: Shape, new: Shape) -> list[Change]:
    """What leads from the old shape to the new one."""
    return [
        *_format(old, new),
        *compare_schemas(old.schema, new.schema),
        *_key(old.schema, new.schema),
        *_partitions(old, new),
        *_order(old, new),
        *_properties(old, new),
    ]


def compare_schemas(old: Schema, new: Schema) -> Iterator[Change]:
    """Columns added, changed, dropped and moved; nested ones as well."""
    before, after = nodes(old), nodes(new)
    for field_id, node in after.items():
        if field_id not in before and (node.parent in before or node.parent == 0):
            yield Change("+", ("column", str(field_id)), f"column {node.path} {_describe(node.field)}")
        elif field_id in before:
            yield from _changed(before[field_id], node)
    for field_id, node in before.items():
        if field_id not in after and (node.parent in after or node.parent == 0):
            yield Change("-", ("column", str(field_id)), f"column {node.path} {type_of(node.field.field_type)}")
    yield from _moved(old, new)


def _describe(field: NestedField) -> str:
    default = default_of(field)
    parts = [
        str(type_of(field.field_type)),
        "required" if field.required else "",
        f"default {default!r}" if default is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def _changed(old: Node, new: Node) -> Iterator[Change]:
    before, after, about = old.field, new.field, str(new.field.field_id)

    def change(aspect: str, text: str) -> Change:
        return Change("~", ("column", about, aspect), f"column {new.path}: {text}")

    if before.name != after.name:
        yield change("name", f"renamed from {before.name}")
    plain = before.field_type.is_primitive or after.field_type.is_primitive  # what is nested is compared field by field
    if plain and before.field_type != after.field_type:
        yield change("type", f"{type_of(before.field_type)} -> {type_of(after.field_type)}")
    if before.required != after.required:
        yield change("required", "now required" if after.required else "now optional")
    if (before.doc or None) != (after.doc or None):
        yield change("doc", f"doc '{after.doc}'" if after.doc else "no doc any more")
    if default_of(before) != default_of(after):
        yield change("default", f"default {default_of(after)!r} for new rows")


def _moved(old: Schema, new: Schema) -> Iterator[Change]:
    before = {0: [field.field_id for field in old.fields], **_orders(old)}
    after = {0: [field.field_id for field in new.fields], **_orders(new)}
    known = nodes(new)
    for holder in before.keys() & after.keys():
        kept = [field_id for field_id in before[holder] if field_id in after[holder]]
        if kept != [field_id for field_id in after[holder] if field_id in before[holder]]:
            names = ", ".join(known[field_id].field.name for field_id in after[holder])
            where = f"fields of {known[holder].path}" if holder else "columns"
            yield Change("~", ("order", str(holder)), f"order of {where}: {names}")


def _orders(schema: Schema) -> dict[int, list[int]]:
    structs = {i: node.field.field_type for i, node in nodes(schema).items()}
    return {i: [field.field_id for field in kind.fields] for i, kind in structs.items() if isinstance(kind, StructType)}


def _key(old: Schema, new: Schema) -> Iterator[Change]:
    before, after = (sorted(schema.identifier_field_ids) for schema in (old, new))
    if before == after:
        return
    was = ", ".join(sorted(old.identifier_field_names()))
    now = ", ".join(sorted(new.identifier_field_names()))
    sign: Sign = "+" if not before else "~" if after else "-"
    yield Change(sign, ("key",), f"key {now} (was {was})" if before and after else f"key {now or was}")


def _partitions(old: Shape, new: Shape) -> Iterator[Change]:
    before, after = _fields_of(old.spec), _fields_of(new.spec)
    for about, field in after.items():
        text = term_of(field.source_id, field.transform, new.schema)
        if about not in before:
            yield Change("+", ("partition", *about), f"partition {text}")
        elif before[about].name != field.name:
            yield Change("~", ("partition", *about), f"partition {text}: named {field.name} (was {before[about].name})")
    for about, field in before.items():
        if about not in after:
            yield Change(
                "-", ("partition", *about), f"partition {term_of(field.source_id, field.transform, old.schema)}"
            )


def _fields_of(spec: PartitionSpec) -> dict[tuple[str, str], PartitionField]:
    """The fields that divide rows; void ones only hold a place."""
    return {
        (str(field.source_id), str(field.transform)): field for field in spec.fields if str(field.transform) != "void"
    }


def _order(old: Shape, new: Shape) -> Iterator[Change]:
    if old.order.fields != new.order.fields:
        was, now = (
            ", ".join(str(sort_term_of(f, shape.schema)) for f in shape.order.fields) or "unsorted"
            for shape in (old, new)
        )
        yield Change("~", ("sort",), f"sort order: {now} (was: {was})")


def _properties(old: Shape, new: Shape) -> Iterator[Change]:
    for key, value in sorted(new.properties.items()):
        was = old.properties.get(key)
        if was is None:
            yield Change("+", ("property", key), f"property {key} = {value}")
        elif not same_value(key, was, value):
            yield Change("~", ("property", key), f"property {key}: {was} -> {value}")
    for key in sorted(old.properties.keys() - new.properties.keys()):
        yield Change("-", ("property", key), f"property {key} (was {old.properties[key]})")


def same_value(key: str, first: str, two: str) -> bool:
    """Whether two values of a property mean the same: formats and codecs are known in capitals and small letters.

    >>> same_value("write.format.default", "PARQUET", "parquet"), same_value("owner", "Me", "me")
    (True, False)
    """
    caseless = key == "write.format.default" or key.endswith(".compression-codec")
    return first == two or (caseless and first.lower() == two.lower())


def _format(old: Shape, new: Shape) -> Iterator[Change]:
    if old.format_version != new.format_version:
        yield Change("~", ("format",), f"format version: {old.format_version} -> {new.format_version}")
