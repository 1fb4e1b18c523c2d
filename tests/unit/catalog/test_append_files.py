"""Manifest lists and manifests that clients wrote: read within limits, compared, and refused if they lie."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS, MANIFEST_LIST_FILE_SCHEMAS
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from frazil.catalog.appends.avro import AvroFile, Reader, encode_long, open_avro, read_records
from frazil.catalog.appends.entries import read_added, read_paths
from frazil.catalog.appends.files import Kept
from frazil.catalog.appends.lists import (
    PACK_FROM_BYTES,
    Listed,
    ManifestList,
    _describe,
    describe,
    encode,
    find_added,
    read_list,
    write_list,
)
from frazil.catalog.appends.problems import NotRebased
from frazil.scan.manifests import AvroError
from tests.kit.avro_files import write_avro
from tests.unit.catalog.test_append_rebase import listed, manifests

Json = dict[str, Any]
MOST = 1 << 20
LISTS = {
    version: AvroSchemaConversion().iceberg_to_avro(MANIFEST_LIST_FILE_SCHEMAS[version], schema_name="manifest_file")
    for version in (1, 2, 3)
}
ENTRIES = AvroSchemaConversion().iceberg_to_avro(MANIFEST_ENTRY_SCHEMAS[2], schema_name="manifest_entry")


def list_file(*entries: Listed, version: int = 2) -> AvroFile:
    return open_avro(write_list(manifests(*entries, version=version), version, {}), most_bytes=MOST)


# --- lists -----------------------------------------------------------------------------------------------------------

PARTITION = {"contains_null": True, "contains_nan": None, "lower_bound": b"a", "upper_bound": None}
RECORD = {
    "manifest_path": "file:///w/t/metadata/m1.avro", "manifest_length": 100, "partition_spec_id": 0, "content": 0,
    "sequence_number": 2, "min_sequence_number": 2, "added_snapshot_id": 9, "added_files_count": 1,
    "existing_files_count": 0, "deleted_files_count": 0, "added_rows_count": 10, "existing_rows_count": 0,
    "deleted_rows_count": 0, "partitions": [PARTITION, PARTITION], "key_metadata": None, "first_row_id": 7,
}  # fmt: skip


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_a_list_in_another_order_of_fields_becomes_the_common_one(version: int, codec: str) -> None:
    schema = LISTS[version]
    turned = {**schema, "fields": list(reversed(schema["fields"]))}
    files = [open_avro(write_avro(each, {}, [RECORD] * 3, codec=codec), most_bytes=MOST) for each in (schema, turned)]
    straight, other = (read_list(file, version) for file in files)
    assert straight == other
    assert straight.records == (straight.records[0],) * 3
    entry = describe(straight.records[0], version)
    assert (entry.path, entry.added_rows, entry.snapshot_id) == (RECORD["manifest_path"], 10, 9)
    assert entry.first_row_id == (7 if version == 3 else None)
    assert encode(entry, version) == straight.records[0]


def test_a_list_of_format_1_counts_as_one_without_sequence_numbers() -> None:
    file = open_avro(write_avro(LISTS[1], {}, [RECORD]), most_bytes=MOST)
    assert describe(read_list(file, 2).records[0], 2)[3:6] == (0, 0, 0)


def test_a_list_without_counts_is_refused() -> None:
    file = open_avro(write_avro(LISTS[1], {}, [{**RECORD, "added_files_count": None}]), most_bytes=MOST)
    with pytest.raises(AvroError):
        read_list(file, 2)


def test_a_long_list_is_packed_and_reads_the_same() -> None:
    long = manifests(*(listed(number) for number in range(2000)))
    content = write_list(long, 2, {"snapshot-id": "9"})
    assert len(long.raw) > PACK_FROM_BYTES > len(content)
    assert read_list(open_avro(content, most_bytes=MOST), 2) == long


OLD, OLDER, DEAD = (
    listed(1, sequence=1, snapshot_id=1),
    listed(2, sequence=1, snapshot_id=2),
    listed(3, snapshot_id=3, added_files=0, deleted_files=1),
)
NEW = listed(9)


def test_new_manifests_are_found_before_behind_and_between_those_of_the_parent() -> None:
    parent = manifests(OLD, OLDER)
    for entries in ((NEW, OLD, OLDER), (OLD, OLDER, NEW), (OLDER, NEW, OLD)):
        assert find_added(list_file(*entries), parent, 2) == (encode(NEW, 2),)


def test_a_parent_without_manifests_gives_all() -> None:
    assert find_added(list_file(NEW), ManifestList((), b""), 2) == (encode(NEW, 2),)


def test_a_manifest_without_live_files_may_be_left_out() -> None:
    assert find_added(list_file(NEW, OLD), manifests(OLD, DEAD), 2) == (encode(NEW, 2),)


@pytest.mark.parametrize(
    "entries",
    [(NEW,), (NEW, OLD), (NEW, OLD, OLDER._replace(length=7)), (NEW, OLD, OLDER._replace(sequence=2))],
    ids=["all merged", "one merged", "one replaced", "one moved in time"],
)
def test_a_list_that_lacks_or_changes_a_manifest_of_the_parent_is_refused(entries: tuple[Listed, ...]) -> None:
    with pytest.raises(NotRebased):
        find_added(list_file(*entries), manifests(OLD, OLDER), 2)


# --- manifests -------------------------------------------------------------------------------------------------------

HEAD = {"format-version": "2", "partition-spec-id": "0", "content": "data"}


def entry(path: str = "f", **more: Any) -> Json:
    data_file = {"content": 0, "file_path": path, "file_format": "PARQUET", "partition": {}, "record_count": 10}
    data_file |= {"file_size_in_bytes": 1000, **more.pop("file", {})}
    return {"status": 1, "snapshot_id": None, "data_file": data_file, **more}


def entries_schema() -> Any:
    """With a partition of no fields, as an unpartitioned table has it."""
    schema: Json = json.loads(json.dumps(ENTRIES))
    data_file = next(field for field in schema["fields"] if field["name"] == "data_file")
    fields = [field for field in data_file["type"]["fields"] if field["name"] != "partition"]
    partition = {"name": "partition", "field-id": 102, "type": {"type": "record", "name": "r102", "fields": []}}
    row_id = {"name": "first_row_id", "field-id": 142, "type": ["null", "long"]}
    data_file["type"]["fields"] = [*fields, partition, row_id]
    return schema


def manifest(*entries: Json, **head: str) -> AvroFile:
    properties = HEAD | {key.replace("_", "-"): value for key, value in head.items()}
    return open_avro(write_avro(entries_schema(), properties, list(entries), codec="deflate"), most_bytes=MOST)


def read(file: AvroFile, **claims: int) -> Any:
    return read_added(file, listed(1, **claims), snapshot_id=9, version=2)


def test_the_files_of_a_new_manifest() -> None:
    files = read(manifest(entry("a"), entry("b", snapshot_id=9)), added_files=2, added_rows=20)
    assert (files.paths, files.rows, files.bytes) == ({"a", "b"}, 20, 2000)


FORGED: dict[str, tuple[list[Json], dict[str, str]]] = {
    "an existing entry": ([entry(status=0, sequence_number=1)], {}),
    "a deleted entry": ([entry(status=2)], {}),
    "an entry of another snapshot": ([entry(snapshot_id=4)], {}),
    "a sequence number": ([entry(sequence_number=1)], {}),
    "a file sequence number": ([entry(file_sequence_number=1)], {}),
    "position deletes": ([entry(file={"content": 1})], {}),
    "equality deletes": ([entry(file={"content": 2})], {}),
    "row ids": ([entry(file={"first_row_id": 5})], {}),
    "a negative number of rows": ([entry(file={"record_count": -1})], {}),
    "a file twice": ([entry("a"), entry("a")], {}),
    "more files than it says": ([entry("a"), entry("b")], {}),
    "other rows than it says": ([entry(file={"record_count": 11})], {}),
    "no entries": ([], {}),
    "another spec": ([entry()], {"partition_spec_id": "1"}),
    "another format": ([entry()], {"format_version": "1"}),
    "deletes by its head": ([entry()], {"content": "deletes"}),
}


@pytest.mark.parametrize(("entries", "head"), FORGED.values(), ids=FORGED.keys())
def test_a_manifest_with_anything_else_is_refused(entries: list[Json], head: dict[str, str]) -> None:
    with pytest.raises(NotRebased):
        read(manifest(*entries, **head))


def test_all_paths_of_a_manifest_count_whatever_their_status() -> None:
    assert read_paths(manifest(entry("a", status=2), entry("b", status=0))) == {"a", "b"}


# --- hostile files ---------------------------------------------------------------------------------------------------

WHOLE = write_avro(entries_schema(), HEAD, [entry("a"), entry("b")], codec="deflate")


@pytest.mark.parametrize("end", range(0, len(WHOLE) - 1, 37))
def test_a_file_that_ends_too_early_is_refused(end: int) -> None:
    with pytest.raises((AvroError, NotRebased)):
        read(open_avro(WHOLE[:end], most_bytes=MOST))


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_a_byte_that_is_changed_never_reads_past_the_end(at: int, byte: int) -> None:
    changed = WHOLE[:at] + bytes([byte]) + WHOLE[at + 1 :]
    try:
        read(open_avro(changed, most_bytes=MOST), added_files=2, added_rows=20)
    except (AvroError, NotRebased):
        return


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader_of_a_list(noise: bytes) -> None:
    file = AvroFile({"avro.schema": json.dumps(LISTS[2]).encode()}, 1, noise)
    try:
        assert len(read_list(file, 2).records) == 1
    except AvroError:
        return


PAD = {"name": "pad", "type": {"type": "fixed", "name": "p", "size": 16}}  # so that a record has bytes enough
WANTED = frozenset((500, 501))


def bomb(schema: Any, records: bytes, count: int = 1) -> Callable[[], object]:
    """Reads these records of a schema."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    file = AvroFile({"avro.schema": text.encode()}, count, bytes(16) + records)
    return lambda: list(read_records(file, WANTED))


def record(*kinds: Any, field_id: Any = 500) -> Json:
    fields = [{"name": f"f{at}", "field-id": field_id, "type": kind} for at, kind in enumerate(kinds)]
    return {"type": "record", "name": "r", "fields": [PAD, *fields]}


def doubled(times: int) -> list[Json]:
    """Records of which each has the one before twice: the last of them has 2 ** times numbers."""
    kinds: list[Json] = [{"type": "record", "name": "r0", "fields": [{"name": "a", "type": "long"}]}]
    for number in range(1, times + 1):
        fields = [{"name": name, "type": f"r{number - 1}"} for name in "ab"]
        kinds.append({"type": "record", "name": f"r{number}", "fields": fields})
    return [["null", kind] for kind in kinds]


def nested(times: int) -> list[Json]:
    """Records of which each has the one before."""
    kinds: list[Json] = [{"type": "record", "name": "r0", "fields": [{"name": "a", "type": "long"}]}]
    for number in range(1, times + 1):
        fields = [{"name": "a", "type": f"r{number - 1}"}]
        kinds.append({"type": "record", "name": f"r{number}", "fields": fields})
    return [["null", kind] for kind in kinds]


def items(*kinds: Any) -> Json:
    """A list of records with these fields."""
    fields = [{"name": f"i{at}", "field-id": 501, "type": kind} for at, kind in enumerate(kinds)]
    return {"type": "array", "items": {"type": "record", "name": "i", "fields": fields}}


HUGE = encode_long(2**40)
MILLION = encode_long(1_000_000) + bytes(1_000_000) + b"\x00"
EMPTY: Json = {"type": "record", "name": "e", "fields": []}
BOMBS: dict[str, Callable[[], object]] = {
    "a list of nothings": bomb(record({"type": "array", "items": "null"}), HUGE),
    "a list of empty records": bomb(record({"type": "array", "items": EMPTY}), HUGE),
    "a list longer than the file": bomb(record({"type": "array", "items": "long"}), HUGE),
    "a list of millions of items": bomb(record({"type": "array", "items": "long"}), MILLION),
    "records of a byte": bomb({**record(), "fields": [{"name": "a", "type": "boolean"}]}, bytes(MOST), count=MOST),
    "records of nothing": bomb(record(*["null"] * 900), bytes(16 * 99_999), count=100_000),
    "items of nothing": bomb(record(items("boolean", *["null"] * 900), field_id=9), MILLION),
    "a schema of types that double": bomb(record(*doubled(60)), bytes(61)),
    "a schema of types in types": bomb(record(*nested(300)), bytes(301)),
    "a text longer than the file": bomb(record("string"), HUGE),
    "a text of a negative length": bomb(record("string"), encode_long(-5)),
    "a text that is none": bomb(record("string"), encode_long(1) + b"\xff"),
    "a number without an end": lambda: Reader(b"\x80" * 10_000_000).long(),
    "a number of more than 64 bits": lambda: Reader(b"\xff" * 9 + b"\x7f").long(),
    "a schema of megabytes": bomb({**record("long"), "doc": "x" * 2_000_000}, b"\x02"),
    "a branch that is not there": bomb(record(["null", "long"]), encode_long(7)),
    "a schema in itself": bomb(record("r"), b""),
    "a schema that is none": bomb([], b""),
    "a schema that is deep": bomb("[" * 100_000, b""),
    "a size without an end": bomb(
        json.dumps(record({"type": "fixed", "name": "x", "size": 7})).replace("7", "1e999"), b""
    ),
    "a field id that is a list": bomb(record("long", field_id=[500]), b"\x02"),
    "records that are left": bomb(record("long"), b"\x02\x02"),
    "a block that unpacks to gigabytes": lambda: open_avro(
        with_block(zlib.compress(b"\x00" * 50_000_000)[2:-4]), most_bytes=MOST
    ),
    "an unknown codec": lambda: open_avro(WHOLE.replace(b"deflate", b"defl8te"), most_bytes=MOST),
    "no Avro at all": lambda: open_avro(b"PAR1", most_bytes=MOST),
}


def test_what_the_bombs_are_made_of_is_read() -> None:
    """If this were refused, they would prove nothing."""
    pairs = encode_long(3) + encode_long(7) * 6 + b"\x00"
    assert bomb(record("long", ["null", "string"]), b"\x02" + b"\x02\x02x")() == [{500: "x"}]
    assert bomb(record(items("long", "long")), pairs)() == [{500: [{501: 7}] * 3}]
    assert bomb(record(items("long", "long"), field_id=9), pairs)() == [{}]
    assert bomb(record(*doubled(3)), bytes(4))() == [{500: None}]
    assert bomb(record({"type": "fixed", "name": "x", "size": 7}), bytes(7))() == [{500: bytes(7)}]


def with_block(block: bytes) -> bytes:
    head = {"avro.schema": json.dumps(record("long")), "avro.codec": "deflate"}
    pairs = b"".join(encode_long(len(part)) + part.encode() for pair in head.items() for part in pair)
    sync = bytes(16)
    return (
        b"Obj\x01" + encode_long(2) + pairs + b"\x00" + sync + encode_long(1) + encode_long(len(block)) + block + sync
    )


@pytest.mark.parametrize("open_it", BOMBS.values(), ids=BOMBS.keys())
def test_a_file_that_lies_about_its_size_costs_nothing(open_it: Callable[[], object]) -> None:
    with pytest.raises(AvroError):
        open_it()


def test_a_record_of_a_megabyte_is_read_and_not_kept() -> None:
    before = _describe.cache_info().currsize
    long = encode(listed(1, path="p" * 1_000_000), 2)
    assert describe(long, 2).path == "p" * 1_000_000
    assert _describe.cache_info().currsize == before


def test_what_was_read_is_kept_up_to_a_size() -> None:
    kept: Kept[int] = Kept(max_bytes=10)
    for number in range(3):
        kept.put(str(number), number, 4)
    assert [kept.get(str(number)) for number in range(3)] == [None, 1, 2]
    kept.put("large", 9, 100)
    assert kept.get("large") == 9
    assert kept.get("2") is None
