"""The pure commit function against PyIceberg's own, on random sequences of updates.

PyIceberg shares no code with ours. Where the two differ on purpose, ours follows the specification and Java, and the
comparison says how: PyIceberg keeps snapshot-log entries before a gap (ours starts after it), cuts the parents of
snapshots whose parent is removed, and keeps the partition statistics of snapshots that are gone.
"""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import TableUpdate, update_table_metadata

from frazil.catalog.commit import Change, decide, new_table
from frazil.catalog.metadata import _to_write, normalise
from frazil.catalog.names import Name
from frazil.errors import CatalogError

Json = dict[str, Any]
NAME = Name(("ns",), "t")
NOW = 1_900_000_000_000
UPDATES: TypeAdapter[Any] = TypeAdapter(TableUpdate)
COLUMNS = ["int", "long", "string", "date", "timestamptz", "decimal(9, 2)", "binary"]


def base_table(version: int) -> Json:
    fields = [{"id": i + 1, "name": f"c{i}", "type": kind, "required": False} for i, kind in enumerate(COLUMNS)]
    request = {"schema": {"type": "struct", "fields": fields}, "properties": {"format-version": str(version)}}
    return new_table(
        request, location="file:///w/t", now_ms=1_700_000_000_000, uuid="6f0b3c5e-8a2b-4a4e-9d51-2f1d1c0d7a11"
    )


def write(metadata: Json) -> Json:
    """The metadata as its file has it."""
    return {**_to_write(metadata), "snapshots": metadata["snapshots"]}


# --- random updates that fit the table as it is ----------------------------------------------------------------------


def add_schema(draw: Any, metadata: Json) -> list[Json]:
    current = next(s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])
    new_id = metadata["last-column-id"] + 1
    column = {"id": new_id, "name": f"c{new_id}", "type": draw(st.sampled_from(COLUMNS)), "required": False}
    schema = {
        "type": "struct",
        "fields": [*current["fields"], column],
        "schema-id": max(s["schema-id"] for s in metadata["schemas"]) + 1,
    }
    return [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]


def set_schema(draw: Any, metadata: Json) -> list[Json]:
    # Columns only come, so an older schema lacks what a spec may use: go back only while there is no such spec.
    if any(s["fields"] for s in metadata["partition-specs"]) or any(o["fields"] for o in metadata["sort-orders"]):
        return []
    return [
        {
            "action": "set-current-schema",
            "schema-id": draw(st.sampled_from([s["schema-id"] for s in metadata["schemas"]])),
        }
    ]


def add_spec(draw: Any, metadata: Json) -> list[Json]:
    source, transform = draw(
        st.sampled_from([(1, "bucket[4]"), (3, "truncate[2]"), (4, "month"), (5, "day"), (2, "identity")])
    )
    known = metadata["partition-specs"]
    field_id = metadata["last-partition-id"] + 1
    name = f"p{field_id}"
    spec = {
        "spec-id": max(s["spec-id"] for s in known) + 1,
        "fields": [{"source-id": source, "transform": transform, "name": name}],
    }
    spec["fields"][0]["field-id"] = field_id
    return [{"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}]


def add_order(draw: Any, metadata: Json) -> list[Json]:
    taken = {(o["fields"][0]["source-id"], o["fields"][0]["direction"]) for o in metadata["sort-orders"] if o["fields"]}
    free = [(s, d) for s in range(1, 8) for d in ("asc", "desc") if (s, d) not in taken]
    source, direction = draw(st.sampled_from(free))
    field = {"source-id": source, "transform": "identity", "direction": direction, "null-order": "nulls-first"}
    order = {"order-id": max(o["order-id"] for o in metadata["sort-orders"]) + 1, "fields": [field]}
    return [
        {"action": "add-sort-order", "sort-order": order},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]


def append(draw: Any, metadata: Json) -> list[Json]:
    number = metadata["last-sequence-number"] + 1
    parent = metadata["current-snapshot-id"]
    rows = draw(st.integers(0, 100))
    snapshot: Json = {
        "snapshot-id": 1000 + number,
        "sequence-number": number,
        "timestamp-ms": 1_800_000_000_000 + number,
        "manifest-list": f"file:///w/t/metadata/snap-{number}.avro",
        "summary": {"operation": "append", "added-records": str(rows)},
        "schema-id": metadata["current-schema-id"],
    }
    if parent != -1:
        snapshot["parent-snapshot-id"] = parent
    if metadata["format-version"] >= 3:
        snapshot |= {"first-row-id": metadata["next-row-id"], "added-rows": rows}
    branch = draw(st.sampled_from(["main", "main", "audit", None]))
    added = [{"action": "add-snapshot", "snapshot": snapshot}]
    if branch:
        added.append(
            {"action": "set-snapshot-ref", "ref-name": branch, "type": "branch", "snapshot-id": snapshot["snapshot-id"]}
        )
    return added


def set_ref(draw: Any, metadata: Json) -> list[Json]:
    if not metadata["snapshots"]:
        return []
    snapshot_id = draw(st.sampled_from([s["snapshot-id"] for s in metadata["snapshots"]]))
    ref: Json = {
        "action": "set-snapshot-ref",
        "ref-name": draw(st.sampled_from(["t1", "t2"])),
        "type": "tag",
        "snapshot-id": snapshot_id,
    }
    if draw(st.booleans()):
        ref["max-ref-age-ms"] = 1000
    return [ref]


def remove_ref(draw: Any, _: Json) -> list[Json]:
    return [{"action": "remove-snapshot-ref", "ref-name": draw(st.sampled_from(["t1", "t2", "audit", "none"]))}]


def remove_snapshots(draw: Any, metadata: Json) -> list[Json]:
    main = metadata["current-snapshot-id"]
    others = [s["snapshot-id"] for s in metadata["snapshots"] if s["snapshot-id"] != main]
    gone = draw(st.lists(st.sampled_from(others), max_size=2, unique=True)) if others else []
    # The oracle drops refs that point nowhere; here they have to be named.
    refs = [name for name, ref in metadata["refs"].items() if ref["snapshot-id"] in gone]
    named: list[Json] = [{"action": "remove-snapshot-ref", "ref-name": name} for name in refs]
    return [*named, {"action": "remove-snapshots", "snapshot-ids": gone}] if gone else []


def properties(draw: Any, metadata: Json) -> list[Json]:
    known = sorted(metadata["properties"])
    if known and draw(st.booleans()):
        return [{"action": "remove-properties", "removals": [draw(st.sampled_from(known))]}]
    return [
        {
            "action": "set-properties",
            "updates": draw(st.dictionaries(st.sampled_from("abc"), st.text("xyz", max_size=3), max_size=2)),
        }
    ]


def statistics(draw: Any, metadata: Json) -> list[Json]:
    if not metadata["snapshots"]:
        return []
    snapshot_id = draw(st.sampled_from([s["snapshot-id"] for s in metadata["snapshots"]]))
    file: Json = {
        "snapshot-id": snapshot_id,
        "statistics-path": "file:///w/s.puffin",
        "file-size-in-bytes": draw(st.integers(1, 9)),
    }
    if draw(st.booleans()):
        return [{"action": "set-partition-statistics", "partition-statistics": file}]
    return [{"action": "set-statistics", "statistics": {**file, "file-footer-size-in-bytes": 1, "blob-metadata": []}}]


def location(draw: Any, metadata: Json) -> list[Json]:
    others = [place for place in ("file:///w/t", "file:///w/u", "file:///w/v") if place != metadata["location"]]
    return [{"action": "set-location", "location": draw(st.sampled_from(others))}]


def unused_shapes(draw: Any, metadata: Json) -> list[Json]:
    specs = [s["spec-id"] for s in metadata["partition-specs"] if s["spec-id"] != metadata["default-spec-id"]]
    olds = [s["schema-id"] for s in metadata["schemas"] if s["schema-id"] != metadata["current-schema-id"]]
    shapes = [{"action": "remove-partition-specs", "spec-ids": [draw(st.sampled_from(specs))]}] if specs else []
    return shapes + ([{"action": "remove-schemas", "schema-ids": [draw(st.sampled_from(olds))]}] if olds else [])


GOOD = [
    add_schema,
    set_schema,
    add_spec,
    add_order,
    append,
    append,
    set_ref,
    remove_ref,
    remove_snapshots,
    properties,
    statistics,
    location,
]
GOOD += [unused_shapes]
BAD: list[Json] = [
    {"action": "set-current-schema", "schema-id": 99},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "set-default-spec", "spec-id": 99},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "set-default-sort-order", "sort-order-id": 99},
    {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 99},
    {"action": "upgrade-format-version", "format-version": 1},
    {"action": "upgrade-format-version", "format-version": 9},
]


# --- the comparison --------------------------------------------------------------------------------------------------


def oracle(base: TableMetadata, updates: list[Json], base_location: str) -> TableMetadata:
    parsed = tuple(UPDATES.validate_python(copy.deepcopy(update)) for update in updates)
    return update_table_metadata(base, parsed, metadata_location=base_location)


def comparable(metadata: Json) -> Json:
    """Without what depends on the clock and without the differences that the module tells of."""
    out = {
        k: v
        for k, v in metadata.items()
        if k not in ("last-updated-ms", "snapshot-log", "metadata-log", "encryption-keys")
    }
    out["snapshots"] = [{k: v for k, v in s.items() if k != "parent-snapshot-id"} for s in metadata["snapshots"]]
    out["schemas"] = [{k: v for k, v in s.items() if k != "identifier-field-ids"} for s in metadata["schemas"]]
    out["metadata-log"] = [entry["metadata-file"] for entry in metadata["metadata-log"]]
    alive = {s["snapshot-id"] for s in metadata["snapshots"]}
    for key in ("statistics", "partition-statistics"):
        out[key] = [{k: v for k, v in f.items() if k != "type"} for f in metadata[key] if f["snapshot-id"] in alive]
    return out


def check_log(ours: Json, theirs: Json) -> None:
    """Our snapshot log is the end of PyIceberg's."""
    own, other = ([e["snapshot-id"] for e in m["snapshot-log"]] for m in (ours, theirs))
    assert own == other[len(other) - len(own) :]


@settings(max_examples=60)
@given(st.data(), st.sampled_from([2, 3]))
def test_random_commits_end_in_the_metadata_that_pyiceberg_computes(data: st.DataObject, version: int) -> None:
    ours = base_table(version)
    theirs = TableMetadataUtil.parse_obj(write(ours))
    for number in range(data.draw(st.integers(1, 5))):
        updates = data.draw(st.sampled_from(GOOD))(data.draw, ours)
        updates += data.draw(st.sampled_from([location, statistics]))(data.draw, ours)
        file = f"file:///w/t/metadata/{number:05d}-x.metadata.json"
        decided = decide(ours, Change(NAME, (), updates), base_location=file, now_ms=NOW + number, new_uuid="unused")
        theirs = oracle(theirs, updates, file)
        if decided is not None:
            ours = decided
        expected = normalise(
            TableMetadataUtil.parse_obj(theirs.model_dump()).model_dump(by_alias=True, mode="json", exclude_none=True),
            "x",
        )
        assert comparable(ours) == comparable(expected)
        check_log(ours, expected)


@settings(max_examples=40)
@given(st.sampled_from(BAD), st.sampled_from([2, 3]))
def test_what_pyiceberg_refuses_is_refused(update: Json, version: int) -> None:
    ours = base_table(version)
    theirs = TableMetadataUtil.parse_obj(write(ours))
    refusals = []
    for attempt, refusal in (
        (
            lambda: decide(ours, Change(NAME, (), [update]), base_location="x", now_ms=NOW, new_uuid="unused"),
            CatalogError,
        ),
        (lambda: oracle(theirs, [update], "x"), ValueError),
    ):
        try:
            attempt()
        except refusal as exc:
            refusals.append(exc)
    assert len(refusals) == 2


@settings(max_examples=30)
@given(st.data())
def test_a_commit_never_changes_its_base(data: st.DataObject) -> None:
    base = base_table(2)
    for _ in range(3):
        before = copy.deepcopy(base)
        updates = data.draw(st.sampled_from(GOOD))(data.draw, base)
        decided = decide(base, Change(NAME, (), updates), base_location="x", now_ms=NOW, new_uuid="unused")
        assert base == before
        base = decided or base
