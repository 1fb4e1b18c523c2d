"""The decision about a commit: ids, logs, requirements and refusals that the random comparison with PyIceberg does not
reach.
"""

from __future__ import annotations

from typing import Any

import pytest

from frazil.catalog.commit import Change, decide, new_table, parse_change
from frazil.catalog.names import Name
from frazil.catalog.requirements import TABLE_REQUIREMENTS
from frazil.catalog.updates import TABLE_UPDATES
from frazil.errors import BadRequest, CommitConflict, InvalidChange
from tests.kit.raising import raises

Json = dict[str, Any]
NAME = Name(("ns",), "t")
FIELDS = [
    {"id": 1, "name": "id", "type": "long", "required": True},
    {"id": 2, "name": "day", "type": "date", "required": False},
    {
        "id": 3,
        "name": "point",
        "type": {"type": "struct", "fields": [{"id": 4, "name": "x", "type": "double", "required": False}]},
    },
]


def table(version: int = 2, **properties: str) -> Json:
    request = {
        "schema": {"type": "struct", "fields": FIELDS},
        "properties": {"format-version": str(version), **properties},
    }
    return new_table(request, location="file:///w/t", now_ms=1000, uuid="uuid-1")


def apply(base: Json | None, *updates: Json, requirements: Any = (), now_ms: int = 5000) -> Json:
    change = Change(NAME, requirements, updates)
    decided = decide(
        base, change, base_location="file:///w/t/metadata/00000-a.metadata.json", now_ms=now_ms, new_uuid="uuid-2"
    )
    assert decided is not None
    return decided


def snapshot(number: int, *, parent: int | None = None, **more: Any) -> Json:
    result: Json = {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": 2000 + number,
        "manifest-list": "x",
    }
    return {**result, "summary": {"operation": "append"}, **({"parent-snapshot-id": parent} if parent else {}), **more}


def add(number: int, **more: Any) -> Json:
    return {"action": "add-snapshot", "snapshot": snapshot(number, **more)}


def main(number: int) -> Json:
    return {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number}


# --- ids -------------------------------------------------------------------------------------------------------------


def test_fresh_ids_go_level_by_level() -> None:
    result = table()
    assert [f["id"] for f in result["schemas"][0]["fields"]] == [1, 2, 3]
    assert result["schemas"][0]["fields"][2]["type"]["fields"][0]["id"] == result["last-column-id"] == 4


def test_an_equal_schema_is_used_again() -> None:
    base = table()
    wider = {
        **base["schemas"][0],
        "fields": [*base["schemas"][0]["fields"], {"id": 5, "name": "n", "type": "int", "required": False}],
    }
    set_last = {"action": "set-current-schema", "schema-id": -1}
    second = apply(base, {"action": "add-schema", "schema": wider}, set_last)
    back = apply(second, {"action": "add-schema", "schema": base["schemas"][0]}, set_last)
    assert (second["current-schema-id"], back["current-schema-id"], len(back["schemas"]), back["last-column-id"]) == (
        1,
        0,
        2,
        5,
    )


def test_an_equal_spec_is_used_again_and_a_new_one_continues_the_field_ids() -> None:
    by_day = {"action": "add-spec", "spec": {"fields": [{"source-id": 2, "transform": "day", "name": "d"}]}}
    by_year = {"action": "add-spec", "spec": {"fields": [{"source-id": 2, "transform": "year", "name": "y"}]}}
    result = apply(table(), by_day, by_year, by_day, {"action": "set-default-spec", "spec-id": -1})
    assert [(s["spec-id"], [f["field-id"] for f in s["fields"]]) for s in result["partition-specs"]] == [
        (0, []),
        (1, [1000]),
        (2, [1001]),
    ]
    assert (result["default-spec-id"], result["last-partition-id"]) == (1, 1001)


def test_a_field_of_an_older_spec_keeps_its_id() -> None:
    day, year = ({"source-id": 2, "transform": t, "name": t} for t in ("month", "year"))
    first = apply(table(), {"action": "add-spec", "spec": {"fields": [day]}})
    second = apply(first, {"action": "add-spec", "spec": {"fields": [year, day]}})
    assert [f["field-id"] for f in second["partition-specs"][2]["fields"]] == [1001, 1000]


def test_the_unsorted_order_is_zero_and_others_count_from_one() -> None:
    order = {"fields": [{"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}]}
    result = apply(
        table(),
        {"action": "add-sort-order", "sort-order": order},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    )
    assert ([o["order-id"] for o in result["sort-orders"]], result["default-sort-order-id"]) == ([0, 1], 1)


# --- snapshots and logs ----------------------------------------------------------------------------------------------


def test_snapshots_that_were_current_only_inside_a_commit_are_not_in_the_log() -> None:
    result = apply(table(), add(1), main(1), add(2, parent=1), main(2))
    assert [e["snapshot-id"] for e in result["snapshot-log"]] == [2]
    assert len(result["snapshots"]) == 2


def test_history_starts_after_a_snapshot_that_was_removed() -> None:
    base = table()
    for number in (1, 2, 3):
        base = apply(base, add(number, parent=number - 1 or None), main(number))
    result = apply(base, {"action": "remove-snapshots", "snapshot-ids": [2]})
    assert [e["snapshot-id"] for e in result["snapshot-log"]] == [3]


def remove(snapshot_id: int) -> Json:
    return {"action": "remove-snapshots", "snapshot-ids": [snapshot_id]}


def remove_ref(name: str) -> Json:
    return {"action": "remove-snapshot-ref", "ref-name": name}


V1 = {"action": "set-snapshot-ref", "ref-name": "v1", "type": "tag", "snapshot-id": 1}


@pytest.mark.parametrize("refs", [(), ("main",), ("v1",)])
def test_a_snapshot_that_a_ref_points_at_is_not_removed(refs: tuple[str, ...]) -> None:
    base = apply(table(), add(1), main(1), V1)
    with raises(CommitConflict, snapshot=1):
        apply(base, *(remove_ref(name) for name in refs), remove(1))


def test_a_snapshot_is_removed_with_its_refs_whichever_is_named_first() -> None:
    base = apply(table(), add(1), main(1), V1)
    moved = apply(base, remove(1), add(2, parent=1), main(2), remove_ref("v1"))
    assert ([s["snapshot-id"] for s in moved["snapshots"]], moved["refs"].keys()) == ([2], {"main"})


def test_removing_a_snapshot_takes_its_statistics_along() -> None:
    file = {
        "snapshot-id": 1,
        "statistics-path": "x",
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }
    base = apply(table(), add(1), main(1), V1, {"action": "set-statistics", "statistics": file})
    result = apply(base, remove_ref("main"), remove_ref("v1"), remove(1))
    assert (result["current-snapshot-id"], result["refs"], result["snapshot-log"], result["statistics"]) == (
        -1,
        {},
        [],
        [],
    )


def test_a_rollback_is_logged_at_the_time_of_the_commit() -> None:
    base = apply(table(), add(1), main(1))
    base = apply(base, add(2, parent=1), main(2))
    result = apply(base, main(1), now_ms=9000)
    assert result["snapshot-log"][-1] == {"timestamp-ms": 9000, "snapshot-id": 1}


def test_the_log_never_goes_back_in_time() -> None:
    base = apply(table(), add(1, **{"timestamp-ms": 8_000_000}), main(1))
    result = apply(base, add(2, parent=1, **{"timestamp-ms": 10}), main(2), now_ms=20)
    assert [e["timestamp-ms"] for e in result["snapshot-log"]] == [8_000_000, 8_000_000]
    assert result["last-updated-ms"] >= 8_000_000


def test_the_metadata_log_keeps_as_many_as_the_table_says() -> None:
    base = table(**{"write.metadata.previous-versions-max": "2"})
    for number in range(4):
        change = Change(NAME, (), [{"action": "set-properties", "updates": {"n": str(number)}}])
        base = decide(base, change, base_location=f"v{number}", now_ms=5000, new_uuid="") or base
    assert [e["metadata-file"] for e in base["metadata-log"]] == ["v2", "v3"]


def test_a_stale_sequence_number_is_a_conflict_and_not_an_error() -> None:
    base = apply(table(), add(5), main(5))
    with pytest.raises(
        CommitConflict, match="Cannot add snapshot with sequence number 3 older than last sequence number 5"
    ):
        apply(base, add(3, parent=5))


def test_a_snapshot_whose_parent_has_expired_is_refused() -> None:
    base = apply(apply(table(), add(1), main(1), add(2, parent=1), main(2)), remove(1))
    with raises(CommitConflict, snapshot=3, problem="expired"):
        apply(base, add(3, parent=1), main(3))
    with raises(CommitConflict, snapshot=3, problem="expired"):
        apply(base, add(3, parent=1))  # staged, on no ref


def test_the_parent_may_be_added_or_removed_by_the_same_commit() -> None:
    base = apply(table(), add(1), main(1))
    assert [s["snapshot-id"] for s in apply(base, add(2, parent=1), add(3, parent=2), main(3))["snapshots"]] == [
        1,
        2,
        3,
    ]
    assert [s["snapshot-id"] for s in apply(base, remove(1), add(2, parent=1), main(2))["snapshots"]] == [2]


def test_version_three_counts_rows() -> None:
    base = apply(table(3), add(1, **{"first-row-id": 0, "added-rows": 10}), main(1))
    assert base["next-row-id"] == 10
    with pytest.raises(CommitConflict, match="first-row-id is behind table next-row-id: 4 < 10"):
        apply(base, add(2, parent=1, **{"first-row-id": 4, "added-rows": 1}))
    with pytest.raises(InvalidChange, match="first-row-id is null"):
        apply(base, add(2, parent=1))


def test_an_upgrade_keeps_everything_and_starts_counting_rows() -> None:
    base = apply(table(1), add(1), main(1))
    result = apply(base, {"action": "upgrade-format-version", "format-version": 3})
    assert (result["format-version"], result["next-row-id"], result["snapshots"]) == (3, 0, base["snapshots"])


def test_encryption_keys_are_added_once_and_removed() -> None:
    key = {"action": "add-encryption-key", "encryption-key": {"key-id": "k", "encrypted-key-metadata": "AA=="}}
    base = apply(table(), key, key)
    assert [k["key-id"] for k in base["encryption-keys"]] == ["k"]
    assert apply(base, {"action": "remove-encryption-key", "key-id": "k"})["encryption-keys"] == []


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        ({"type": "assert-table-uuid", "uuid": "other"}, "UUID does not match: expected uuid-1 != other"),
        (
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
            "branch main was created concurrently",
        ),
        (
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7},
            "branch main has changed: expected id 7 != 1",
        ),
        (
            {"type": "assert-ref-snapshot-id", "ref": "gone", "snapshot-id": 7},
            "branch or tag gone is missing, expected 7",
        ),
        (
            {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 9},
            "last assigned field id changed: expected id 9 != 4",
        ),
        ({"type": "assert-current-schema-id", "current-schema-id": 9}, "current schema changed: expected id 9 != 0"),
        (
            {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 9},
            "last assigned partition id changed: expected id 9 != 999",
        ),
        (
            {"type": "assert-default-spec-id", "default-spec-id": 9},
            "default partition spec changed: expected id 9 != 0",
        ),
        (
            {"type": "assert-default-sort-order-id", "default-sort-order-id": 9},
            "default sort order changed: expected id 9 != 0",
        ),
        ({"type": "assert-create"}, "table already exists"),
    ],
)
def test_a_requirement_that_fails_says_which_in_the_words_of_the_java_library(requirement: Json, message: str) -> None:
    base = apply(table(), add(1), main(1))
    with pytest.raises(CommitConflict) as raised:
        apply(base, {"action": "set-location", "location": "x"}, requirements=[requirement])
    assert raised.value.message == f"Requirement failed: {message}"


@pytest.mark.parametrize("action", [*TABLE_UPDATES, "add-view-version", "nonsense", None, 7])
def test_an_update_without_its_fields_names_itself_and_the_field(action: object) -> None:
    base = apply(table(), add(1), main(1))
    with pytest.raises(BadRequest) as raised:
        apply(base, {"action": action})
    assert "Commit of ns.t: update 0" in raised.value.message
    assert repr(action) in raised.value.message or f"({action})" in raised.value.message


@pytest.mark.parametrize("kind", [*TABLE_REQUIREMENTS, "assert-view-uuid", "nonsense", None])
def test_a_requirement_without_its_fields_names_itself(kind: object) -> None:
    with pytest.raises(BadRequest, match=r"Commit of table ns.t: requirement 0"):
        apply(table(), requirements=[{"type": kind}])


def test_a_create_may_assert_nothing_else() -> None:
    both = [{"type": "assert-create"}, {"type": "assert-table-uuid", "uuid": "x"}]
    with pytest.raises(BadRequest, match="Invalid create requirements: assert-table-uuid"):
        apply(None, requirements=both)


@pytest.mark.parametrize(
    "update",
    [
        {"action": "set-current-schema", "schema-id": "0"},
        {"action": "set-current-schema", "schema-id": True},
        {"action": "set-current-schema", "schema-id": 2**40},
        {"action": "add-snapshot", "snapshot": {"snapshot-id": 2**70}},
        {"action": "add-snapshot", "snapshot": snapshot(2) | {"summary": {"operation": 1}}},
        {"action": "set-properties", "updates": {"a": 1}},
        {"action": "set-properties", "updates": {"a": None}},
        {"action": "remove-properties", "removals": "a"},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "tag", "snapshot-id": 1},
        {"action": "set-snapshot-ref", "ref-name": "t", "type": "tag", "snapshot-id": 1, "min-snapshots-to-keep": 3},
        {"action": "set-snapshot-ref", "ref-name": "t", "type": "leaf", "snapshot-id": 1},
        {"action": "add-spec", "spec": {"fields": [{"source-id": 2, "transform": "century", "name": "c"}]}},
        {"action": "add-spec", "spec": {"fields": [{"source-id": 1, "transform": "day", "name": "c"}]}},
        {"action": "add-spec", "spec": {"fields": [{"source-id": 3, "transform": "identity", "name": "c"}]}},
        {"action": "add-spec", "spec": {"fields": [{"source-id": 77, "transform": "identity", "name": "c"}]}},
        {"action": "add-spec", "spec": {"fields": [{"source-id": 2, "transform": "day", "name": "id"}]}},
        {"action": "assign-uuid", "uuid": "another"},
        {"action": "remove-schemas", "schema-ids": [0]},
        {"action": "remove-partition-specs", "spec-ids": [0]},
    ],
)
def test_an_update_that_cannot_be_applied_is_refused(update: Json) -> None:
    base = apply(table(), add(1), main(1))
    with pytest.raises(BadRequest):
        apply(base, update)


@pytest.mark.parametrize(
    "fields",
    [
        [{"id": 1, "name": "a", "type": "int"}, {"id": 1, "name": "b", "type": "int"}],
        [{"id": 1, "name": "a", "type": "int"}, {"id": 2, "name": "a", "type": "int"}],
        [{"id": 1, "name": "a", "type": "integer"}],
        [{"id": 1, "name": "a", "type": "decimal(39,0)"}],
        [{"id": 1, "name": "a", "type": {"type": "list", "element": "int"}}],
        [{"id": 1, "name": "a", "type": {"type": "tuple"}}],
        [{"id": 1, "name": "a", "type": None}],
        [{"id": 1, "name": "a", "type": "variant"}],
        [{"id": 1, "name": "a", "type": "int", "initial-default": 5}],
        "a int",
    ],
)
def test_a_schema_that_is_wrong_is_refused(fields: Any) -> None:
    with pytest.raises(BadRequest):
        new_table({"schema": {"type": "struct", "fields": fields}}, location="x", now_ms=0, uuid="u")


def test_types_nested_without_end_are_refused() -> None:
    kind: Any = "int"
    for number in range(500):
        kind = {"type": "list", "element-id": number + 2, "element": kind, "element-required": False}
    with raises(BadRequest, problem="too-deep"):
        new_table(
            {"schema": {"type": "struct", "fields": [{"id": 1, "name": "a", "type": kind}]}},
            location="x",
            now_ms=0,
            uuid="u",
        )


def test_identifier_fields_must_exist_be_required_and_not_be_floats() -> None:
    for ids, column in (([9], "9"), ([2], "day"), ([4], "x")):
        request = {"schema": {"type": "struct", "fields": FIELDS, "identifier-field-ids": ids}}
        with raises(BadRequest, column=column):
            new_table(request, location="x", now_ms=0, uuid="u")
    good = new_table(
        {"schema": {"type": "struct", "fields": FIELDS, "identifier-field-ids": [1]}}, location="x", now_ms=0, uuid="u"
    )
    assert good["schemas"][0]["identifier-field-ids"] == [1]


def test_a_body_without_updates_is_refused() -> None:
    with raises(BadRequest, option="updates", got=None):
        parse_change({"requirements": []}, NAME)
