"""Columns by field id, and what each schema changed."""

from __future__ import annotations

from typing import Any

from frazil.console.fields import flatten, schema_history
from tests.kit.console_tables import metadata, snapshot

NESTED: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "type": "int", "required": True},
        {
            "id": 2,
            "name": "lines",
            "required": False,
            "type": {
                "type": "list",
                "element-id": 3,
                "element-required": True,
                "element": {
                    "type": "struct",
                    "fields": [{"id": 4, "name": "sku", "type": "string", "required": False}],
                },
            },
        },
    ],
}


def test_nested_fields_follow_their_parent_with_the_whole_path() -> None:
    assert [(field["id"], ".".join(field["path"]), field["type"]) for field in flatten(NESTED)] == [
        (1, "id", "int"),
        (2, "lines", "list<struct>"),
        (3, "lines.element", "struct"),
        (4, "lines.element.sku", "string"),
    ]


def test_a_history_tells_what_each_schema_changed_by_field_id() -> None:
    first = {
        "type": "struct",
        "schema-id": 0,
        "fields": [NESTED["fields"][0], {"id": 5, "name": "gone", "type": "int"}],
    }
    second = {
        "type": "struct",
        "schema-id": 1,
        "fields": [
            {"id": 1, "name": "key", "type": "long", "required": False, "doc": "the key"},
            {"id": 6, "name": "gone", "type": "string"},
        ],
    }
    snapshots = [snapshot(1, None, 1_000), snapshot(2, 1, 2_000) | {"schema-id": 1}]
    document = metadata("file:///w/t", snapshots, {"main": 2}, **{"schemas": [first, second], "current-schema-id": 1})
    newest, oldest = schema_history(document)
    assert (newest["schema_id"], newest["current"], newest["used_ms"]) == (1, True, 2_000)
    assert [(change["what"], change["id"], change["before"], change["after"]) for change in newest["changes"]] == [
        ("renamed", 1, "id", "key"),
        ("type", 1, "int", "long"),
        ("required", 1, True, False),
        ("doc", 1, None, "the key"),
        ("added", 6, None, "string"),
        ("dropped", 5, "int", None),
    ]
    assert (oldest["used_ms"], oldest["changes"]) == (1_000, [])
