"""Schemas, partition specs and sort orders as plain JSON: checked, compared, and given fresh ids. All pure.

The rules are the table specification's (https://iceberg.apache.org/spec/#schemas-and-data-types).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from frazil.catalog import fields
from frazil.catalog.fields import Json
from frazil.errors import BadRequest, InvalidChange

MAX_DEPTH = 50
FIRST_PARTITION_ID = 1000

_PLAIN_TYPES = {
    "boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "timestamp_ns",
    "timestamptz_ns",
    "string", "uuid", "binary", "variant", "unknown", "geometry", "geography",
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d{1,9})\s*\]")
_GEO = re.compile(r"(geometry|geography)\([^()]*\)")
_SINCE_V3 = {"timestamp_ns", "timestamptz_ns", "variant", "unknown", "geometry", "geography"}

_TRANSFORM = re.compile(
    r"identity|void|year|month|day|hour|years|months|days|hours|(?:bucket|truncate)\[([1-9]\d{0,8})\]"
)


# --- checking --------------------------------------------------------------------------------------------------------


def check_schema(schema: Json, where: str) -> None:
    """Passes when the schema is well-formed: known types, unique ids and names, identifier fields that exist and are
    required.
    """
    if schema.get("type") != "struct":
        raise BadRequest(
            f"{where}: a schema's 'type' must be 'struct', got {schema.get('type')!r}", got=schema.get("type")
        )
    seen: dict[int, Json] = {}
    _check_struct(schema, where, seen, 0)
    for field_id in (
        fields.integers(schema, "identifier-field-ids", where) if schema.get("identifier-field-ids") is not None else ()
    ):
        field = seen.get(field_id)
        if field is None:
            raise BadRequest(f"{where}: identifier field {field_id} does not exist in the schema", column=str(field_id))
        if not field.get("required") or not isinstance(field["type"], str) or field["type"] in ("float", "double"):
            raise BadRequest(
                f"{where}: identifier field '{field['name']}' must be required, primitive and not a float",
                column=field["name"],
            )


def _check_struct(struct: Json, where: str, seen: dict[int, Json], depth: int) -> None:
    names: set[str] = set()
    for field in fields.objects(struct, "fields", where):
        name = fields.text(field, "name", where)
        if name in names:
            raise BadRequest(f"{where}: two fields are named '{name}'")
        names.add(name)
        inside = f"{where}, field '{name}'"
        fields.boolean(field, "required", inside, default=False)
        fields.text_or_none(field, "doc", inside)
        _take_id(field, "id", inside, seen, field)
        _check_type(field.get("type"), inside, seen, depth + 1)


def _take_id(holder: Json, key: str, where: str, seen: dict[int, Json], field: Json) -> None:
    field_id = fields.integer(holder, key, where)
    if field_id in seen:
        raise BadRequest(f"{where}: field id {field_id} is used twice")
    seen[field_id] = field


def _check_type(kind: Any, where: str, seen: dict[int, Json], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise BadRequest(f"{where}: types are nested more than {MAX_DEPTH} levels deep", problem="too-deep")
    if isinstance(kind, str):
        _check_primitive(kind, where)
        return
    if not isinstance(kind, dict):
        raise BadRequest(f"{where}: 'type' must be text or an object, got {kind!r}", got=kind)
    match kind.get("type"):
        case "struct":
            _check_struct(kind, where, seen, depth)
        case "list":
            fields.boolean(kind, "element-required", where)
            _take_id(kind, "element-id", where, seen, {"name": "element", "type": kind.get("element")})
            _check_type(kind.get("element"), where, seen, depth + 1)
        case "map":
            fields.boolean(kind, "value-required", where)
            for part in ("key", "value"):
                _take_id(kind, f"{part}-id", where, seen, {"name": part, "type": kind.get(part)})
                _check_type(kind.get(part), where, seen, depth + 1)
        case other:
            raise BadRequest(f"{where}: unknown type {other!r}")


def _check_primitive(kind: str, where: str) -> None:
    if kind in _PLAIN_TYPES or _GEO.fullmatch(kind):
        return
    if match := _DECIMAL.fullmatch(kind):
        precision, scale = int(match[1]), int(match[2])
        if not 1 <= precision <= 38 or scale > precision:
            raise BadRequest(f"{where}: {kind} has a precision outside 1-38, or a scale above it")
        return
    if not _FIXED.fullmatch(kind):
        raise BadRequest(f"{where}: unknown type '{kind[:60]}'")


def check_version(schema: Json, format_version: int) -> None:
    """Passes when every type and default of the schema exists in this format version."""
    if format_version >= 3:
        return
    problems = []
    for path, field in walk(schema):
        kind = field["type"]
        base = kind.partition("(")[0] if isinstance(kind, str) else ""
        if base in _SINCE_V3:
            problems.append(f"Invalid type for {path}: {kind} is not supported until v3")
        if field.get("initial-default") is not None:
            problems.append(
                f"Invalid initial default for {path}: non-null default ({field['initial-default']}) is not supported "
                f"until v3"
            )
    if problems:
        raise InvalidChange(f"Invalid schema for v{format_version}:\n- " + "\n- ".join(problems))


def walk(struct: Json, prefix: str = "") -> Iterator[tuple[str, Json]]:
    """Every field of a checked schema with its full name, parents first; elements, keys and values as fields of their
    own.
    """
    for field in struct["fields"]:
        yield from _walk_field(f"{prefix}{field['name']}", field)


def _walk_field(path: str, field: Json) -> Iterator[tuple[str, Json]]:
    yield path, field
    kind = field["type"]
    if isinstance(kind, str):
        return
    if kind["type"] == "struct":
        yield from walk(kind, f"{path}.")
    elif kind["type"] == "list":
        yield from _walk_field(
            f"{path}.element", {"id": kind["element-id"], "name": "element", "type": kind["element"]}
        )
    else:
        yield from _walk_field(f"{path}.key", {"id": kind["key-id"], "name": "key", "type": kind["key"]})
        yield from _walk_field(f"{path}.value", {"id": kind["value-id"], "name": "value", "type": kind["value"]})


def highest_id(schema: Json) -> int:
    return max((field["id"] for _, field in walk(schema)), default=0)


def same_schema(first: Json, two: Json) -> bool:
    """Whether two schemas are equal but for their own ids."""
    if set(first.get("identifier-field-ids") or ()) != set(two.get("identifier-field-ids") or ()):
        return False
    return _same_type(first, two)


_STRUCT_FIELD = (("doc", None), ("initial-default", None), ("write-default", None))


def _same_type(first: Any, two: Any) -> bool:
    if isinstance(first, str) or isinstance(two, str):
        return first == two or (
            isinstance(first, str) and isinstance(two, str) and first.replace(" ", "") == two.replace(" ", "")
        )
    if first["type"] != two["type"]:
        return False
    if first["type"] == "struct":
        pairs = zip(first["fields"], two["fields"], strict=False)
        return len(first["fields"]) == len(two["fields"]) and all(_same_field(a, b) for a, b in pairs)
    parts = ("element",) if first["type"] == "list" else ("key", "value")
    return all(
        first[f"{p}-id"] == two[f"{p}-id"]
        and first.get(f"{p}-required") == two.get(f"{p}-required")
        and _same_type(first[p], two[p])
        for p in parts
    )


def _same_field(first: Json, two: Json) -> bool:
    if (
        first["id"] != two["id"]
        or first["name"] != two["name"]
        or first.get("required", False) != two.get("required", False)
    ):
        return False
    return all(first.get(k, d) == two.get(k, d) for k, d in _STRUCT_FIELD) and _same_type(first["type"], two["type"])


# --- fresh ids -------------------------------------------------------------------------------------------------------


def assign_fresh_ids(schema: Json, schema_id: int = 0) -> tuple[Json, dict[int, int]]:
    """The schema with ids from 1, level by level, and the map from the old ids to the new ones.

    >>> fresh, ids = assign_fresh_ids({"type": "struct", "fields": [{"id": 9, "name": "a", "type": "int", "required": True}]})
    >>> fresh["fields"][0]["id"], ids
    (1, {9: 1})
    """  # noqa: E501
    new_ids: dict[int, int] = {}

    def next_id(old: int) -> int:
        new_ids[old] = len(new_ids) + 1
        return new_ids[old]

    fresh = {"type": "struct", "schema-id": schema_id, "fields": _fresh_fields(schema["fields"], next_id)}
    if schema.get("identifier-field-ids"):
        fresh["identifier-field-ids"] = [new_ids[i] for i in schema["identifier-field-ids"]]
    return fresh, new_ids


def _fresh_fields(old: list[Json], next_id: Callable[[int], int]) -> list[Json]:
    # All fields of a level get their ids before any of their children: clients rely on the order.
    ids = [next_id(field["id"]) for field in old]
    return [
        {**field, "id": i, "required": field.get("required", False), "type": _fresh_type(field["type"], next_id)}
        for i, field in zip(ids, old, strict=True)
    ]


def _fresh_type(kind: Any, next_id: Callable[[int], int]) -> Any:
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return {**kind, "fields": _fresh_fields(kind["fields"], next_id)}
    if kind["type"] == "list":
        element_id = next_id(kind["element-id"])
        return {**kind, "element-id": element_id, "element": _fresh_type(kind["element"], next_id)}
    key_id, value_id = next_id(kind["key-id"]), next_id(kind["value-id"])
    return {
        **kind,
        "key-id": key_id,
        "key": _fresh_type(kind["key"], next_id),
        "value-id": value_id,
        "value": _fresh_type(kind["value"], next_id),
    }


# --- partition specs and sort orders ---------------------------------------------------------------------------------


def check_spec(spec: Json, where: str) -> list[Json]:
    """The fields of a well-formed partition spec."""
    names: set[str] = set()
    for field in fields.objects(spec, "fields", where):
        name = fields.text(field, "name", where)
        if not name or name in names:
            raise BadRequest(f"{where}: partition field name '{name}' is empty or used twice")
        names.add(name)
        fields.integer_or_none(field, "field-id", where)
        _check_term(field, f"{where}, partition field '{name}'")
    spec_fields: list[Json] = spec["fields"]
    return spec_fields


def check_order(order: Json, where: str) -> list[Json]:
    """The fields of a well-formed sort order."""
    for field in fields.objects(order, "fields", where):
        _check_term(field, where)
        if field.get("direction") not in ("asc", "desc"):
            raise BadRequest(
                f"{where}: 'direction' must be asc or desc, got {field.get('direction')!r}",
                got=field.get("direction"),
            )
        if field.get("null-order") not in ("nulls-first", "nulls-last"):
            raise BadRequest(
                f"{where}: 'null-order' must be nulls-first or nulls-last, got {field.get('null-order')!r}",
                got=field.get("null-order"),
            )
    order_fields: list[Json] = order["fields"]
    return order_fields


def _check_term(field: Json, where: str) -> None:
    if "source-id" not in field and isinstance(field.get("source-ids"), list):
        raise BadRequest(f"{where}: transforms of several columns ('source-ids') are not supported")
    fields.integer(field, "source-id", where)
    transform = fields.text(field, "transform", where)
    if not _TRANSFORM.fullmatch(transform):
        raise BadRequest(f"{where}: unknown transform '{transform[:60]}'")


_DATES = {"date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}
_NO_BUCKET = {"boolean", "float", "double", "variant", "unknown", "geometry", "geography"}


def check_terms(schema: Json, terms: list[Json], what: str) -> None:
    """Passes when every source column exists in the schema, can be reached without a list or map, and fits its
    transform.
    """
    if not terms:
        return
    columns = _reachable(schema)
    for term in terms:
        transform = term["transform"]
        if transform == "void":
            continue  # a column that was dropped from a v1 table stays as a void field
        kind = columns.get(term["source-id"])
        if kind is None:
            raise BadRequest(
                f"Cannot find source column for {what}: {term.get('name', '')} ({transform} of {term['source-id']})"
            )
        if not isinstance(kind, str):
            raise BadRequest(
                f"Cannot use non-primitive source column {term['source-id']} for {what}", column=term["source-id"]
            )
        if not _can_transform(transform, kind):
            raise BadRequest(f"Invalid source type {kind} for transform: {transform}")


def _reachable(struct: Json) -> dict[int, Any]:
    reachable: dict[int, Any] = {}
    for field in struct["fields"]:
        reachable[field["id"]] = field["type"]
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            reachable.update(_reachable(field["type"]))
    return reachable


def _can_transform(transform: str, kind: str) -> bool:
    """
    >>> _can_transform("day", "timestamptz"), _can_transform("day", "string"), _can_transform("bucket[4]", "double")
    (True, False, False)
    """
    base = kind.partition("(")[0].partition("[")[0]
    if transform.startswith("bucket"):
        return base not in _NO_BUCKET
    if transform.startswith("truncate"):
        return base in {"int", "long", "decimal", "string", "binary"}
    if transform.rstrip("s") in {"year", "month", "day"}:
        return base in _DATES
    if transform.rstrip("s") == "hour":
        return base in _DATES - {"date"}
    return base not in {"variant", "geometry", "geography", "unknown"}


def same_spec(first: list[Json], two: list[Json]) -> bool:
    """Whether two specs partition alike: the same columns, transforms and names in the same order."""
    keys = ("source-id", "transform", "name")
    return len(first) == len(two) and all(a[k] == b[k] for a, b in zip(first, two, strict=True) for k in keys)


def same_order(first: list[Json], two: list[Json]) -> bool:
    keys = ("source-id", "transform", "direction", "null-order")
    return len(first) == len(two) and all(a[k] == b[k] for a, b in zip(first, two, strict=True) for k in keys)
