"""Vectorized decoding gives the same entries as decoding one by one; where it is not possible, it is not used
at all.
"""

from __future__ import annotations

import io
import random
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus, write_manifest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    NestedField,
    StringType,
    UUIDType,
)

from frazil.errors import ManifestUnreadable
from frazil.scan.manifests import lanes
from frazil.scan.manifests.avro import AvroFile, open_avro, pick_bounds, read_records
from frazil.scan.manifests.avro_schema import AvroError
from frazil.scan.manifests.columns import NotVectorized, pick_vectorized, read_vectorized
from frazil.scan.manifests.entries import EntryColumns

KINDS = (LongType(), StringType(), DateType(), FloatType(), DoubleType(), BooleanType(), DecimalType(9, 2), UUIDType())
SCHEMA = Schema(*(NestedField(at, f"c{at}", kind) for at, kind in enumerate(KINDS, 1)))
PARTITIONS: tuple[Any, ...] = (2**40, "Oslo", 19_000, 0.5, -2.25, True, None, bytes(range(16)))
PLACE = "s3://lake/events/data/"
WANTED = (1, 2, 2**20, 77)  # the last is a column that no file has


@pytest.fixture(scope="module", autouse=True)
def a_few_rows_at_a_time() -> Iterator[None]:
    """Lists are looked at in slices, as those of large manifests are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes, "ROWS", 16)
        yield


def number(chance: random.Random) -> int:
    """A number of any length."""
    return int(
        chance.choice(
            [0, 1, -1, 63, 64, -65, chance.getrandbits(14), chance.getrandbits(30), -chance.getrandbits(62), 2**63 - 1]
        )
    )


def counts(chance: random.Random) -> dict[int, int] | None:
    return chance.choice(
        [None, {}, {item: number(chance) for item in chance.sample([1, 2, 3, 200, 2**20], chance.randint(1, 5))}]
    )


def bounds(chance: random.Random) -> dict[int, bytes] | None:
    result = {
        item: chance.randbytes(chance.choice([0, 1, 8, 16, 200]))
        for item in chance.sample((*WANTED[:3], 5), chance.randint(1, 4))
    }
    return chance.choice([None, {}, result])


def make_file(chance: random.Random, at: int, place: str, spec: PartitionSpec) -> DataFile:
    arguments = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{place}{'x' * chance.choice([0, 5, 60, 400])}/{at}.parquet",
        file_format=chance.choice([FileFormat.PARQUET, FileFormat.AVRO]),
        partition=Record(*(chance.choice([None, PARTITIONS[field.source_id - 1]]) for field in spec.fields)),
        record_count=abs(number(chance)),
        file_size_in_bytes=abs(number(chance)),
        column_sizes=counts(chance),
        value_counts=counts(chance),
        null_value_counts=counts(chance),
        nan_value_counts=counts(chance),
        lower_bounds=bounds(chance),
        upper_bounds=bounds(chance),
        key_metadata=chance.choice([None, b"", b"key"]),
        split_offsets=chance.choice([None, [], [4], [4, 2**33, 2**62]]),
        sort_order_id=chance.choice([None, 0, 3]),
    )
    arguments.spec_id = 0
    return arguments


def make_manifest(
    folder: Path, seed: int, *, version: int = 2, place: str = PLACE, files: int = 40, codec: str = "deflate"
) -> AvroFile:
    """A manifest in which everything that may be missing sometimes is."""
    chance = random.Random(seed)
    chosen = chance.sample(range(1, len(KINDS) + 1), chance.randint(0, 3))
    spec = PartitionSpec(*(PartitionField(item, 1000 + item, IdentityTransform(), f"p{item}") for item in chosen))
    path = folder / f"{seed}.avro"
    with write_manifest(
        version, spec, SCHEMA, PyArrowFileIO().new_output(str(path)), 7, avro_compression=codec
    ) as writer:  # type: ignore[arg-type]
        for at in range(files):
            status = chance.choice(
                [ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED]
            )
            snapshot = chance.choice([7, 2**62 + 1])
            entry = ManifestEntry.from_args(
                status=status, snapshot_id=snapshot, sequence_number=at, file_sequence_number=at
            )
            entry.data_file = make_file(chance, at, place, spec)
            writer.add_entry(entry)
    return open_avro(path.read_bytes())


def alike(folder: Path) -> AvroFile:
    """A manifest whose entries are all the same but for their paths, which packs well."""
    path, spec = folder / "alike.avro", PartitionSpec()
    with write_manifest(
        2, spec, SCHEMA, PyArrowFileIO().new_output(str(path)), 7, avro_compression="deflate"
    ) as writer:
        for at in range(100):
            file = make_file(random.Random(5), at, PLACE, spec)
            writer.add_entry(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=7, data_file=file))
    return open_avro(path.read_bytes())


def in_one_block(file: AvroFile) -> AvroFile:
    """The same manifest as Java writes it; PyIceberg makes a block of each entry."""
    packed = zlib.compress(file.records, wbits=-15)
    head = file.content[: file.content.index(file.content[-16:]) + 16]  # all ends with the mark that ends a block
    block = io.BytesIO()
    encoder = BinaryEncoder(block)  # type: ignore[arg-type]
    encoder.write_int(file.count)
    encoder.write_bytes(packed)
    return open_avro(head + block.getvalue() + file.content[-16:])


def everything(columns: EntryColumns) -> dict[Any, Any]:
    arrays = (
        dict(columns.items())
        | columns.picked
        | {("partition", value): array for value, (array, _) in columns.partition.items()}
    )
    return {key: (array.type, array.to_pylist()) for key, array in arrays.items()}


@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_entries_decoded_vectorized_are_those_read_one_by_one(tmp_path_factory: Any, version: int, seed: int) -> None:
    file = make_manifest(
        tmp_path_factory.mktemp("m"), seed, version=version, codec=["null", "deflate", "deflate"][seed % 3]
    )
    file = in_one_block(file) if seed % 3 == 2 else file
    vectorized = EntryColumns("m.avro", read_vectorized(file, bounds_of=WANTED))
    one_by_one = EntryColumns("m.avro", read_records(file, bounds_of=WANTED))
    assert everything(vectorized) == everything(one_by_one)


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_bounds_picked_vectorized_are_those_picked_one_by_one(tmp_path_factory: Any, seed: int) -> None:
    maps = EntryColumns("m.avro", read_vectorized(make_manifest(tmp_path_factory.mktemp("m"), seed, files=100)))[
        "lower"
    ]
    for part in (maps, maps.slice(11, 60)):
        for field_id in WANTED:
            assert pick_vectorized(part, field_id).to_pylist() == pick_bounds(part, field_id).to_pylist()


def test_paths_may_be_long(tmp_path: Path) -> None:
    place = "s3://lake/" + "long/" * 2000
    columns = EntryColumns("m.avro", read_vectorized(make_manifest(tmp_path, 1, place=place)))
    assert all(path.startswith(place) for path in columns["path"].to_pylist())


def test_what_is_kept_is_the_file_as_it_is_packed(tmp_path: Path) -> None:
    small = in_one_block(file := alike(tmp_path))
    kept, unpacked = (EntryColumns("m.avro", read_vectorized(item)) for item in (small, file))
    assert unpacked.nbytes - kept.nbytes == len(file.records) - len(small.content) > 0
    assert everything(kept) == everything(unpacked)


def test_columns_are_made_when_they_are_asked_for(tmp_path: Path) -> None:
    columns = EntryColumns("m.avro", read_vectorized(make_manifest(tmp_path, 1)))
    before = columns.nbytes
    assert columns["lower"].nbytes == columns.nbytes - before > 0


@pytest.mark.parametrize(("place", "more"), [("", b""), (PLACE, PLACE.encode())], ids=["unlike", "one too many"])
def test_paths_that_cannot_be_found_are_not_guessed(tmp_path: Path, place: str, more: bytes) -> None:
    file = make_manifest(tmp_path, 1, place=place)
    with pytest.raises(NotVectorized):
        read_vectorized(replace(file, records=file.records + more))


@settings(max_examples=150)
@given(data=st.data())
def test_damaged_entries_are_refused_or_are_still_entries(damage_file: AvroFile, data: st.DataObject) -> None:
    content = bytearray(damage_file.content)
    start = content.index(damage_file.records[:50])  # behind the schema
    for at in data.draw(st.lists(st.integers(start, len(content) - 1), min_size=1, max_size=3)):
        content[at] = data.draw(st.integers(0, 255))
    try:
        columns = EntryColumns("m.avro", read_vectorized(open_avro(bytes(content)), bounds_of=WANTED))
        lengths = {len(array) for array in columns.values()}
    except (AvroError, NotVectorized, ManifestUnreadable):
        return
    assert len(lengths) == 1


@pytest.fixture(scope="module")
def damage_file(tmp_path_factory: Any) -> AvroFile:
    return make_manifest(tmp_path_factory.mktemp("m"), 3, codec="null")
