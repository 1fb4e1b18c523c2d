"""What metadata says about those who fill a table: who they are, how far behind, how fast."""

from __future__ import annotations

import json
from typing import Any

from frazil.console.pipelines.facts import Behind, ReadState, Writer, compare_input, find_behind, find_facts, speed
from frazil.write.commit import InputState, PartProgress, Progress, property_key
from tests.kit.console_tables import metadata, snapshot

HOUR_MS = 3_600_000


def table(*operations: str, **more: Any) -> dict[str, Any]:
    """A table with a snapshot per hour."""
    snapshots = [
        snapshot(at, at - 1 if at > 1 else None, at * HOUR_MS, operation=operation)
        for at, operation in enumerate(operations, 1)
    ]
    return metadata("file:///w/t", snapshots, {"main": len(operations)}, **{"table-uuid": "u", **more})


def progress(**parts: PartProgress) -> dict[str, str]:
    return {property_key(): Progress(parts).dump()}


def test_a_writer_is_named_by_its_part_with_inputs_and_topics() -> None:
    parts = {
        "uplink/part-0-of-2": PartProgress(offsets={"events/0": 5}),
        "uplink/part-1-of-2": PartProgress(offsets={"events/1": 7}),
        "gold.revenue/part-0-of-1": PartProgress(inputs={"silver.orders": InputState("u", 3)}),
    }
    facts = find_facts(table("append", properties={property_key(): Progress(parts).dump()}))
    writers = {writer.name: (writer.topics, dict(writer.inputs)) for writer in facts.writers}
    assert writers == {"uplink": (("events",), {}), "gold.revenue": ((), {"silver.orders": ReadState("u", 3)})}
    assert (facts.rows, facts.columns) == (1000, ("id", "note"))


def test_progress_that_means_nothing_names_no_writer() -> None:
    for text in ("", "[]", '{"v":1}', '{"v":99,"parts":{}}', '{"v":1,"parts":{"a":[]}}', '{"v":1,"parts":{"a":7}}'):
        assert find_facts(table("append", properties={property_key(): text})).writers == ()


def test_odd_offsets_and_claims_do_not_end_the_page() -> None:
    odd = '{"v":1,"parts":{"a/part-0-of-1":[1,"w",1,7]}}'
    assert find_facts(table("append", properties={property_key(): odd})).writers == (Writer("a"),)
    snapshots = [snapshot(1, None, 1, **{"frazil.commit": "[1]"}), snapshot(2, 1, 2, **{"frazil.commit": "{"})]
    properties = progress(a=PartProgress(offsets={"t/0": 1}))
    (writer,) = find_facts(metadata("file:///w/t", snapshots, {"main": 2}, properties=properties)).writers
    assert writer.commits == ()


def test_commits_that_were_not_read_are_counted_from_the_oldest_on() -> None:
    orders = table("append", "append", "replace", "overwrite")
    assert compare_input("orders", ReadState("u", 4), orders) == (None, None)
    assert compare_input("orders", ReadState("u", 1), orders) == ("orders: 2 commits not read yet", 2 * HOUR_MS)
    assert compare_input("orders", ReadState("u", None), orders)[1] == HOUR_MS
    assert compare_input("orders", ReadState("u", 9), orders)[1] is None
    assert compare_input("orders", ReadState("u", 2), table("append", "append", "replace")) == (None, None)


def test_a_commit_that_only_notes_progress_brings_no_rows() -> None:
    orders = table("append", "append")
    orders["snapshots"][1]["summary"] = {"operation": "append", "frazil.commit": "{}"}
    assert compare_input("orders", ReadState("u", 1), orders) == (None, None)


def test_parents_in_a_circle_end() -> None:
    circle = metadata("file:///w/t", [snapshot(1, 2, 1), snapshot(2, 1, 2)], {"main": 2}, **{"table-uuid": "u"})
    assert compare_input("t", ReadState("u", 7), circle) == (
        "t: snapshot 7, which was read last, is not in its history",
        None,
    )


def test_the_lag_is_that_of_the_input_that_waits_longest() -> None:
    writer = Writer("m", {"a": ReadState("u", 1), "b": ReadState("u", 2)})
    behind = find_behind(writer, {"a": table("append", "append", "append"), "b": table("append", "append", "append")})
    assert behind == Behind(("a: 2 commits not read yet", "b: 1 commit not read yet"), 2 * HOUR_MS)
    assert behind.as_json(3 * HOUR_MS)["lag_ms"] == HOUR_MS
    assert Behind().as_json(0) == {"status": "up to date", "reason": "", "lag_ms": None}


def test_the_speed_of_a_stream_is_that_of_its_last_commits() -> None:
    parts = progress(**{"uplink/part-0-of-1": PartProgress(offsets={"e/0": 1})})
    claim = {"frazil.commit": json.dumps({"part": "uplink/part-0-of-1"}), "added-records": "500"}
    other = {"frazil.commit": json.dumps({"part": "else/part-0-of-1"}), "added-records": "9"}
    snapshots = [snapshot(at, at - 1 or None, at * 10_000, **(other if at == 2 else claim)) for at in range(1, 5)]
    (writer,) = find_facts(metadata("file:///w/t", snapshots, {"main": 4}, properties=parts)).writers
    assert writer.commits == ((40_000, 500), (30_000, 500), (10_000, 500))
    assert speed(writer.commits, 45_000)["rows_per_second"] == 33.3  # type: ignore[index]
    assert speed(writer.commits, 900_000)["is_live"] is False  # type: ignore[index]
    assert speed(writer.commits[:2], 0) is None
    assert speed(((5, 1), (5, 1), (5, 1)), 5)["rows_per_second"] is None  # type: ignore[index]
