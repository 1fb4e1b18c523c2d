"""Which commits only append, by their request: everything that is not known is a reason to refuse."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from frazil.catalog.appends.problems import NotRebased
from frazil.catalog.appends.request import read_append
from frazil.catalog.commit import Change
from frazil.catalog.names import Name

Json = dict[str, Any]
Edit = Callable[[Json], object]
NAME = Name(("ns",), "t")


def request() -> Json:
    """A fast append after snapshot 1, as PyIceberg sends it."""
    summary = {"operation": "append", "added-data-files": "1", "added-records": "10", "total-records": "20"}
    snapshot = {"snapshot-id": 2, "parent-snapshot-id": 1, "sequence-number": 2, "timestamp-ms": 5, "schema-id": 0}
    return {
        "requirements": [
            {"type": "assert-table-uuid", "uuid": "u"},
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
        ],
        "updates": [
            {"action": "add-snapshot", "snapshot": {**snapshot, "manifest-list": "l", "summary": summary}},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 2},
        ],
    }


def snapshot(**values: Any) -> Edit:
    return lambda body: body["updates"][0]["snapshot"].update({k.replace("_", "-"): v for k, v in values.items()})


def summary(**values: Any) -> Edit:
    return lambda body: body["updates"][0]["snapshot"]["summary"].update(values)


def mark(key: str, value: str = "1") -> Edit:
    return lambda body: body["updates"][0]["snapshot"]["summary"].update({key: value})


def without(key: str) -> Edit:
    return lambda body: body["updates"][0]["snapshot"].pop(key)


def moved(**values: Any) -> Edit:
    return lambda body: body["updates"][1].update({k.replace("_", "-"): v for k, v in values.items()})


def update(**update: Any) -> Edit:
    return lambda body: body["updates"].append(update)


def require(**requirement: Any) -> Edit:
    return lambda body: body["requirements"].append({k.replace("_", "-"): v for k, v in requirement.items()})


def guard(value: Any) -> Edit:
    return lambda body: body["requirements"][1].update({"snapshot-id": value})


def change(*edits: Edit) -> Change:
    body = deepcopy(request())
    for edit in edits:
        edit(body)
    return Change(NAME, body["requirements"], body["updates"])


def test_an_append_is_read_with_what_it_was_prepared_on() -> None:
    append = read_append(change(moved(max_ref_age_ms=7), require(type="assert-current-schema-id", current_schema_id=0)))
    assert (append.ref, append.parent_id, append.snapshot_id, append.sequence) == ("main", 1, 2, 2)
    assert append.ages == {"max-ref-age-ms": 7}
    assert [other["type"] for other in append.others] == ["assert-table-uuid", "assert-current-schema-id"]


@pytest.mark.parametrize(
    "key",
    [
        "engine-name",
        "engine-version",
        "spark.app.id",
        "iceberg-version",
        "app-id",
        "trino_query_id",
        "partitions.day=1",
    ],
)
def test_descriptions_of_the_engine_do_not_hold_an_append_back(key: str) -> None:
    assert read_append(change(mark(key, "text"))).snapshot_id == 2


def test_the_first_append_to_an_empty_table_has_no_parent() -> None:
    assert read_append(change(without("parent-snapshot-id"), guard(None))).parent_id is None


MARKERS = [
    "frazil.progress", "frazil.commit", "frazil.ref", "frazil.staged-by", "frazil.replay",
    "kafka.connect.offsets.control-iceberg.0", "kafka.connect.valid-through-ts", "kafka.connect.commit-id",
    "flink.max-committed-checkpoint-id", "flink.job-id", "flink.operator-id", "spark.sql.streaming.queryId",
    "spark.sql.streaming.epochId", "wap.id", "published-wap-id", "source-snapshot-id", "replace-partitions",
    "txn.appId", "dlt-load-id", "anything", "",
]  # fmt: skip


@pytest.mark.parametrize("key", MARKERS)
def test_a_mark_in_the_summary_that_is_not_known_holds_an_append_back(key: str) -> None:
    with pytest.raises(NotRebased):
        read_append(change(mark(key)))


REFUSED: dict[str, Edit] = {
    "an overwrite": summary(operation="overwrite"),
    "a replace": summary(operation="replace"),
    "no operation": lambda body: body["updates"][0]["snapshot"]["summary"].pop("operation"),
    "no summary": without("summary"),
    "a summary of numbers": mark("added-records", 5),  # type: ignore[arg-type]
    "a count that is none": mark("total-records", "many"),
    "a negative count": mark("added-records", "-1"),
    "deleted files": mark("deleted-data-files", "1"),
    "delete files": mark("added-position-deletes", "3"),
    "replaced manifests": mark("manifests-replaced", "2"),
    "properties that are set": update(action="set-properties", updates={"a": "b"}),
    "a new schema": update(action="add-schema", schema={}),
    "a second snapshot": lambda body: body["updates"].append(body["updates"][0]),
    "a second ref": lambda body: body["updates"].append(body["updates"][1]),
    "a staged snapshot": lambda body: body["updates"].pop(),
    "no snapshot": lambda body: body["updates"].pop(0),
    "updates in another order": lambda body: body["updates"].reverse(),
    "a tag": moved(type="tag"),
    "a branch that is set to another snapshot": moved(snapshot_id=9),
    "a branch without a name": moved(ref_name=None),
    "an age that is no number": moved(max_ref_age_ms="1"),
    "an id that is no number": snapshot(snapshot_id="2"),
    "an id that is true": snapshot(snapshot_id=True),
    "an id of more than 64 bits": snapshot(snapshot_id=2**63),
    "no sequence number": without("sequence-number"),
    "no schema": without("schema-id"),
    "no timestamp": without("timestamp-ms"),
    "no manifest list": without("manifest-list"),
    "manifests of format 1": snapshot(manifests=["m"]),
    "an encryption key": snapshot(key_id="k"),
    "a snapshot that is a list": lambda body: body["updates"][0].update(snapshot=[]),
    "another base than its parent": guard(7),
    "no requirement of its branch": lambda body: body["requirements"].pop(),
    "no UUID of its table": lambda body: body["requirements"].pop(0),
    "the same requirement twice": lambda body: body["requirements"].append(body["requirements"][1]),
    "a requirement of another branch": require(type="assert-ref-snapshot-id", ref="audit", snapshot_id=1),
    "an unknown requirement": require(type="assert-something"),
    "a requirement whose type is a list": require(type=[]),
    "a creation": lambda body: body.update(requirements=[{"type": "assert-create"}]),
    "a new branch": lambda body: (
        body["updates"][0]["snapshot"].pop("parent-snapshot-id"),
        body["requirements"][1].update(ref="b", **{"snapshot-id": None}),
        body["updates"][1].update({"ref-name": "b"}),
    ),
}


@pytest.mark.parametrize("edit", REFUSED.values(), ids=REFUSED.keys())
def test_a_commit_that_does_more_or_says_less_is_no_append(edit: Edit) -> None:
    with pytest.raises(NotRebased):
        read_append(change(edit))
