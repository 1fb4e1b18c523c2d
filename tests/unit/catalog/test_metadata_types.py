"""Damaged metadata: a file is corrupt when it is read, or every commit on it gets an answer."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.catalog.commit import Change, decide, new_table
from frazil.catalog.metadata import normalise, table_version
from frazil.catalog.names import Name
from frazil.catalog.views import decide_view, new_view, normalise_view, view_version
from frazil.errors import CatalogError, MetadataCorrupt
from frazil.properties import STRICT
from tests.kit.raising import raises

Json = dict[str, Any]
LOCATION = "file:///w/t/metadata/00000-x.metadata.json"
SCHEMA: Json = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {
            "id": 2,
            "name": "tags",
            "type": {"type": "list", "element-id": 3, "element": "string", "element-required": False},
        },
    ],
}
SNAPSHOT: Json = {
    "snapshot-id": 7, "sequence-number": 1, "timestamp-ms": 2, "manifest-list": "file:///w/t/m.avro",
    "summary": {"operation": "append"}, "schema-id": 0,
}  # fmt: skip
TERM = {"source-id": 1, "transform": "identity"}


def table() -> Json:
    """Metadata that has something of everything."""
    request = {"schema": SCHEMA, "partition-spec": {"fields": [{**TERM, "name": "id"}]}}
    order = {"fields": [{**TERM, "direction": "asc", "null-order": "nulls-first"}]}
    metadata = new_table({**request, "write-order": order}, location="file:///w/t", now_ms=1, uuid="u")
    updates: list[Json] = [
        {"action": "add-snapshot", "snapshot": SNAPSHOT},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7},
        {"action": "set-statistics", "statistics": {"snapshot-id": 7, "statistics-path": "s", "file-size-in-bytes": 1,
         "file-footer-size-in-bytes": 1, "blob-metadata": []}},
        {"action": "add-encryption-key", "encryption-key": {"key-id": "k", "encrypted-key-metadata": "x"}},
    ]  # fmt: skip
    change = Change(Name(("ns",), "t"), (), updates)
    result = decide(metadata, change, base_location=LOCATION, now_ms=3, new_uuid="v")
    assert result is not None
    written: Json = json.loads(bytes(table_version(LOCATION, result).file_bytes))
    return written


def view() -> Json:
    version = {
        "version-id": 1, "timestamp-ms": 1, "schema-id": -1, "summary": {"engine": "t"}, "default-namespace": ["ns"],
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
    }  # fmt: skip
    return new_view({"schema": SCHEMA, "view-version": version}, location="file:///w/v", now_ms=1, uuid="u")


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from paths(item, (*at, key))


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.floats(allow_nan=False)
    | st.text(max_size=4)
    | st.just("struct"),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "fields", "snapshot-id", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@st.composite
def damaged(draw: st.DrawFn, whole: Json) -> Json:
    """The document with something inside replaced or taken away."""
    copied = copy.deepcopy(whole)
    *parents, last = draw(st.sampled_from([path for path in paths(whole) if path]))
    holder: Any = copied
    for key in parents:
        holder = holder[key]
    if draw(st.booleans()):
        holder[last] = draw(JUNK)
    else:
        del holder[last]
    return copied


UPDATES: list[list[Json]] = [
    [{"action": "set-properties", "updates": {"a": "b"}}],
    [{"action": "add-schema", "schema": {**SCHEMA, "fields": [*SCHEMA["fields"], {"id": 9, "name": "z", "type": "int"}]}},  # noqa: E501
     {"action": "set-current-schema", "schema-id": -1}],
    [{"action": "add-spec", "spec": {"fields": [{"source-id": 1, "name": "p", "transform": "bucket[3]"}]}},
     {"action": "set-default-spec", "spec-id": -1}],
    [{"action": "add-sort-order", "sort-order": {"fields": []}}, {"action": "set-default-sort-order", "sort-order-id": -1}],  # noqa: E501
    [{"action": "add-snapshot", "snapshot": {**SNAPSHOT, "snapshot-id": 8, "sequence-number": 2, "parent-snapshot-id": 7}},  # noqa: E501
     {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 8}],
    [{"action": "set-snapshot-ref", "ref-name": "b", "type": "branch", "snapshot-id": 7}],
    [{"action": "remove-snapshot-ref", "ref-name": "main"}, {"action": "remove-snapshots", "snapshot-ids": [7]}],
    [{"action": "remove-statistics", "snapshot-id": 7}, {"action": "remove-partition-statistics", "snapshot-id": 7}],
    [{"action": "remove-encryption-key", "key-id": "k"}],
    [{"action": "remove-schemas", "schema-ids": [5]}, {"action": "remove-partition-specs", "spec-ids": [5]}],
    [{"action": "upgrade-format-version", "format-version": 3}],
]  # fmt: skip


@given(damaged(table()))
def test_a_damaged_table_is_corrupt_or_every_commit_on_it_is_decided(document: Json) -> None:
    try:
        metadata = normalise(document, LOCATION)
        version = table_version(LOCATION, metadata)
        version.refs_reply()
    except CatalogError:  # MetadataCorrupt, or a location that is not one
        return
    STRICT.newly_set(metadata["properties"], {})
    for updates in UPDATES:
        with contextlib.suppress(CatalogError):
            result = decide(
                metadata, Change(Name(("ns",), "t"), (), updates), base_location=LOCATION, now_ms=4, new_uuid="w"
            )
            if result is not None:
                table_version(LOCATION, result, version)


@given(damaged(view()))
def test_a_damaged_view_is_corrupt_or_every_commit_on_it_is_decided(document: Json) -> None:
    try:
        metadata = normalise_view(document, LOCATION)
        view_version(LOCATION, metadata)
    except CatalogError:
        return
    replaced = {**view()["versions"][0], "representations": [{"type": "sql", "sql": "SELECT 2", "dialect": "spark"}]}
    updates: list[list[Json]] = [
        [{"action": "set-properties", "updates": {"a": "b"}}],
        [{"action": "add-schema", "schema": SCHEMA}, {"action": "add-view-version", "view-version": replaced},
         {"action": "set-current-view-version", "view-version-id": -1}],
    ]  # fmt: skip
    for some in updates:
        with contextlib.suppress(CatalogError):
            result = decide_view(metadata, Change(Name(("ns",), "v"), (), some), now_ms=4)
            if result is not None:
                view_version(LOCATION, result)


def test_whole_documents_are_read_as_they_are() -> None:
    assert json.loads(bytes(table_version(LOCATION, normalise(table(), LOCATION)).file_bytes)) == table()
    assert normalise_view(view(), LOCATION) == view()


@pytest.mark.usefixtures("uncollected")
def test_a_schema_without_end_is_corrupt() -> None:
    kind: Any = "long"
    for number in range(2_000):
        kind = {"type": "list", "element-id": number + 10, "element": kind, "element-required": False}
    document = table()
    document["schemas"][0]["fields"][1]["type"] = kind
    with raises(MetadataCorrupt, reason=re.compile("nested too deeply")):
        normalise(document, LOCATION)
