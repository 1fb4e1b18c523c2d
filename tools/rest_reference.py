"""docs/rest.md: every route of the catalog's HTTP API, from its route table and the schemas of its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from frazil.catalog.openapi import build_document
from frazil.catalog.routes import OWN_ROUTES, ROUTES
from frazil.catalog.routing import Route

INTRODUCTION = """\
# The REST API

Written by `make docs` from the route table. The first part is the
[Iceberg REST catalog specification](https://iceberg.apache.org/rest-catalog-spec/): every client of it works. The
second part is Frazil's own: indexes, searches, grants, health. [conformance.md](conformance.md) says where the
specification leaves a choice.

- `{prefix}` is the name of a warehouse; without it (`/v1/namespaces`), the default warehouse is meant.
- `{namespace}` has its levels separated by `%1F`. Names in a path are percent-encoded.
- Routes that take the header `Idempotency-Key` may be repeated with the same key: they have one effect.
- Errors are `{"error": {"message": ..., "type": ..., "code": ...}}`.
- A running server has this as an OpenAPI document, for generators of clients:

<!-- covered by: tests/contract/catalog/test_access.py -->
```sh
curl -s http://127.0.0.1:8181/openapi.json
```

**Needs** is the privilege that a caller must be granted, if the server has [authentication](security.md). A body or
an answer is described below, under [Objects](#objects), field by field; a field with `?` may be absent.
"""
PARTS = (("Iceberg's routes", ROUTES), ("Frazil's routes", OWN_ROUTES))


def render_page() -> str:
    """docs/rest.md as it should be."""
    document = build_document((*ROUTES, *OWN_ROUTES))
    lines = [INTRODUCTION]
    for title, routes in PARTS:
        lines += [f"## {title}\n"]
        for route in routes:
            lines += _describe(route, document["paths"][route.template][route.method.lower()])
    lines += ["## Objects\n"]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += [f"### {name}\n", *_object(schema), ""]
    return "\n".join(lines)


def _describe(route: Route, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"### `{route.endpoint}`\n"
    yield f"{operation['summary']}. `{route.operation}`\n"
    rows = [("needs", route.needs.text)]
    for place, text in (("query", "query"), ("header", "headers")):
        names = [f"`{each['name']}`" for each in operation["parameters"] if each["in"] == place]
        rows += [(text, ", ".join(names))] if names else []
    if "requestBody" in operation:
        ((kind, content),) = operation["requestBody"]["content"].items()
        rows.append(("body", f"{_type(content['schema'])}{'' if kind == 'application/json' else f', as `{kind}`'}"))
    rows += [("answer", _answer(status, answer)) for status, answer in _successes(operation["responses"])]
    yield "| | |\n| --- | --- |"
    yield from (f"| {name} | {value} |" for name, value in rows)
    yield ""


def _successes(responses: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return [(status, answer) for status, answer in sorted(responses.items()) if status != "default"]


def _answer(status: str, answer: Mapping[str, Any]) -> str:
    shapes = [_type(content["schema"]) for content in answer.get("content", {}).values()]
    return f"{status}: {' or '.join(shapes)}" if shapes else f"{status}: {answer['description'].lower()}"


def _object(schema: Mapping[str, Any]) -> Iterator[str]:
    variants = schema.get("oneOf", schema.get("anyOf", ()))
    if variants:
        yield from (f"- {_type(variant)}" for variant in variants)
        return
    if "properties" not in schema:
        yield _type(schema)
        return
    yield "| field | type |\n| --- | --- |"
    for name, field in schema["properties"].items():
        optional = "" if name in schema.get("required", ()) else "?"
        yield f"| `{name}`{optional} | {_type(field)} |"


def _type(schema: Mapping[str, Any]) -> str:
    """A schema in one line.

    >>> _type({"type": "array", "items": {"$ref": "#/components/schemas/Index"}})
    'list of [Index](#index)'
    """
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for combined, word in (("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")):
        if combined in schema:
            return word.join(_type(part) for part in schema[combined])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if "properties" in schema:
        fields = (f"`{name}`: {_type(field)}" for name, field in schema["properties"].items())
        return f"object with {', '.join(fields)}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(schema['additionalProperties'])}"
    return str(schema.get("format") or schema.get("type") or "any")
