"""Metadata between its file, plain JSON and the bytes of a reply; and the cache."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson
import pytest

from frazil.catalog.cache import VersionCache
from frazil.catalog.commit import new_table
from frazil.catalog.metadata import Version, normalise, parse_file, parse_like, table_version
from frazil.errors import MetadataCorrupt
from tests.kit.raising import raises

Json = dict[str, Any]


def metadata(version: int = 2, snapshots: int = 0) -> Json:
    schema = {"type": "struct", "fields": [{"id": 1, "name": "a", "type": "int", "required": False}]}
    table = new_table(
        {"schema": schema, "properties": {"format-version": str(version)}}, location="file:///w/t", now_ms=1, uuid="u"
    )
    return {**table, "snapshots": [snapshot(n) for n in range(1, snapshots + 1)]}


def snapshot(number: int) -> Json:
    return {
        "snapshot-id": number,
        "timestamp-ms": number,
        "manifest-list": f"m{number}",
        "summary": {"operation": "append"},
    }


def location(number: int) -> str:
    return f"file:///w/t/metadata/{number:05d}-x.metadata.json"


@pytest.mark.parametrize("snapshots", [0, 1, 3])
def test_a_reply_holds_the_file_and_says_where_it_is(snapshots: int) -> None:
    version = table_version(location(0), metadata(snapshots=snapshots))
    reply = json.loads(version.reply)
    assert (reply["metadata-location"], reply["config"]) == (location(0), {})
    assert orjson.loads(version.file_bytes) == reply["metadata"]
    assert normalise(reply["metadata"], "x") == version.metadata


@pytest.mark.parametrize(
    "after",
    [
        [1, 2, 3],  # nothing new
        [1, 2, 3, 4],  # an append
        [1, 2, 3, 4, 5],
        [2, 3],  # expired from the front
        [1, 3],
        [],
        [9, 2, 3],
    ],
)
def test_bytes_of_snapshots_are_lent_only_when_they_are_the_same(after: list[int]) -> None:
    base = metadata(snapshots=3)
    previous = table_version(location(0), base)
    known = {s["snapshot-id"]: s for s in base["snapshots"]}
    changed = {**base, "snapshots": [known.get(n) or snapshot(n) for n in after]}
    lent, whole = table_version(location(1), changed, previous), table_version(location(1), changed)
    assert lent.reply == whole.reply


@pytest.mark.parametrize("after", [[1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5, 6]])
def test_a_file_that_continues_a_known_version_is_read_without_parsing_what_is_known(after: list[int]) -> None:
    like = table_version(location(0), metadata(snapshots=3))
    file = table_version(location(1), {**metadata(), "snapshots": [snapshot(n) for n in after]})
    result = parse_like(bytes(file.file_bytes), like)
    assert result == json.loads(bytes(file.file_bytes))
    assert all(result["snapshots"][n] is like.metadata["snapshots"][n] for n in range(3))


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b'{"snapshots":[]}',
        # shorter than what is known
        bytes(table_version("file:///w/m/0-x.metadata.json", metadata(snapshots=2)).file_bytes),
        bytes(table_version("file:///w/m/0-x.metadata.json", metadata(snapshots=3)).file_bytes)[:-1],  # cut short
        bytes(table_version("file:///w/m/0-x.metadata.json", metadata(snapshots=3)).file_bytes)[:-2] + b"x]}",
        bytes(table_version("file:///w/m/0-x.metadata.json", metadata(snapshots=3)).file_bytes)[:-2] + b",]}",
        b'{"a":{"b":1' + bytes(table_version("file:///w/m/0-x.metadata.json", metadata(snapshots=3)).file_bytes)[-260:],
    ],
)
def test_any_other_file_is_parsed_whole(content: bytes) -> None:
    like = table_version(location(0), metadata(snapshots=3))
    assert parse_like(content, like) is None


def test_a_list_of_snapshots_below_the_top_is_not_taken_for_the_tables() -> None:
    like = table_version(location(0), metadata(snapshots=1))
    inner = bytes(like.snapshot_bytes)
    content = b'{"x":{"y":1,"snapshots":[' + inner + b"]}}"
    assert parse_like(content, like) is None
    assert json.loads(content)["x"]["snapshots"] == like.metadata["snapshots"]


def test_refs_only_has_another_tag_and_only_their_snapshots() -> None:
    result = {**metadata(snapshots=3), "refs": {"main": {"snapshot-id": 3, "type": "branch"}}, "current-snapshot-id": 3}
    version = table_version(location(0), result)
    assert [s["snapshot-id"] for s in json.loads(version.refs_reply())["metadata"]["snapshots"]] == [3]
    assert version.refs_etag != version.etag
    assert json.loads(version.reply)["metadata"]["snapshots"] == result["snapshots"]


def test_version_one_keeps_what_old_readers_need_and_reads_what_old_writers_left() -> None:
    written = json.loads(bytes(table_version(location(0), metadata(1)).file_bytes))
    assert (written["schema"]["fields"], written["partition-spec"]) == (written["schemas"][0]["fields"], [])
    assert "last-sequence-number" not in written
    oldest = {
        k: v
        for k, v in written.items()
        if k not in ("schemas", "current-schema-id", "partition-specs", "default-spec-id")
    }
    oldest = {
        k: v
        for k, v in oldest.items()
        if k not in ("sort-orders", "default-sort-order-id", "last-partition-id", "refs")
    }
    oldest["partition-spec"] = [{"source-id": 1, "transform": "identity", "name": "a"}]
    result = normalise(oldest, "x")
    assert result["partition-specs"] == [{"spec-id": 0, "fields": [{"field-id": 1000, **oldest["partition-spec"][0]}]}]
    assert (result["last-partition-id"], result["sort-orders"], result["refs"]) == (
        1000,
        [{"order-id": 0, "fields": []}],
        {},
    )


def test_main_follows_from_the_current_snapshot_when_refs_are_missing() -> None:
    old = {**metadata(snapshots=2), "current-snapshot-id": 2}
    del old["refs"]
    assert normalise(old, "x")["refs"] == {"main": {"snapshot-id": 2, "type": "branch"}}


@pytest.mark.parametrize(
    "damage",
    [
        {"format-version": 4},
        {"format-version": "2"},
        {"current-schema-id": 7},
        {"default-spec-id": 7},
        {"current-snapshot-id": 5},
        {"location": None, "last-updated-ms": "x"},
        {"snapshots": 3},
    ],
)
def test_damaged_metadata_is_distinguished_from_good(damage: Json) -> None:
    with raises(MetadataCorrupt, location=location(0), reason=re.compile("not table metadata")):
        normalise({**metadata(), **damage}, location(0))


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\x1f\x8bnot gzip"])
def test_a_file_that_is_no_json_object_is_corrupt(content: bytes) -> None:
    with pytest.raises(MetadataCorrupt):
        parse_file(location(0), content)


def versions(count: int) -> list[Version]:
    return [table_version(location(number), metadata()) for number in range(count)]


def test_the_cache_keeps_what_was_used_last_within_its_bytes() -> None:
    result = versions(4)
    cache = VersionCache(result[0].bytes_held * 3)
    for version in result[:3]:
        cache.put(version)
    cache.get(location(0))
    cache.put(result[3])
    assert [cache.get(location(number)) is not None for number in range(4)] == [True, False, True, True]
    assert cache.bytes_held <= cache.max_bytes


def test_one_version_is_kept_even_when_it_is_larger_than_the_cache() -> None:
    cache = VersionCache(1)
    for version in versions(2):
        cache.put(version)
    assert (cache.get(location(0)), cache.get(location(1)) is not None) == (None, True)
    cache.drop(location(1))
    assert cache.bytes_held == 0
