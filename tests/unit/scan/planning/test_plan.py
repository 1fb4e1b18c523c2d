"""Plans: what they report, how they are cut into pages, which deletes go with which files, and what happens to damaged
metadata.
"""

from __future__ import annotations

import io
import re
from datetime import date
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, MonthTransform, UnknownTransform, VoidTransform, YearTransform
from pyiceberg.types import DateType, LongType, NestedField, StringType
from rich.console import Console

from frazil.errors import ManifestUnreadable, ScanError
from frazil.scan.planning.compiled import ScanCache
from frazil.scan.planning.deletes import EQUALITY, POSITIONS, DeleteFile, DeleteIndex
from frazil.scan.planning.plan import Planner, ScanRequest
from frazil.scan.rest.pages import Span, make_page
from tests.kit.metadata_tables import MadeFile, MadeTable, Stats
from tests.kit.raising import raises

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "country", StringType()))
BY_COUNTRY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "country"))


def make(folder: Path, countries: str = "NO SE DK NO", *, version: int = 2, stats: Stats | None = None) -> MadeTable:
    """A table with a file of ten ids for each country."""
    table = MadeTable(folder, SCHEMA, [BY_COUNTRY], format_version=version)
    files = []
    for at, country in enumerate(countries.split()):
        rows = [{"id": 10 * at + n, "country": country} for n in range(10)]
        files.append(MadeFile(f"f{at}", rows, BY_COUNTRY, (country,), stats or Stats()))
    table.append(files, per_manifest=2)
    return table


def plan(table: MadeTable, expr: Any = None, **more: Any) -> Any:
    return Planner(
        table.state, table.cache(), ScanRequest(filter=AlwaysTrue() if expr is None else expr, **more)
    ).plan()


@pytest.mark.parametrize(
    ("compare", "day"),
    [(LessThan, date.min), (LessThanOrEqual, date.max), (GreaterThan, date.max), (GreaterThanOrEqual, date.min)],
)
@pytest.mark.parametrize("transform", [YearTransform(), MonthTransform()])
def test_the_first_and_the_last_day_of_all_are_compared_with_partitions(
    tmp_path: Path, compare: Any, day: date, transform: Any
) -> None:
    schema = Schema(NestedField(1, "day", DateType()))
    spec = PartitionSpec(PartitionField(1, 1000, transform, "part"))
    ends = [(end - date(1970, 1, 1)).days for end in (date.min, date.max)]
    files = [
        MadeFile(f"f{at}", [{"day": at}], spec, (transform.transform(DateType())(at),), Stats(bounds=False))
        for at in ends
    ]
    table = MadeTable(tmp_path, schema, [spec])
    table.append(files)
    # Of the day before the first and the day after the last, partitions say nothing.
    assert len(list(plan(table, compare("day", day)).tasks())) == 2
    assert [task.path for task in plan(table, EqualTo("day", day)).tasks()] == [f"f{(day - date(1970, 1, 1)).days}"]


def test_the_report_says_which_term_skipped_what(tmp_path: Path) -> None:
    result = plan(make(tmp_path), And(EqualTo("country", "NO"), GreaterThan("id", 12)))
    manifests, partitions, bounds = (layer.to_json() for layer in result.report.layers.values())
    assert result.paths() == ["f3"]
    assert (manifests["total"], manifests["skipped"]) == (2, 0)
    assert (partitions["total"], partitions["skipped-by"]) == (4, {"country = 'NO'": 2})
    assert (bounds["total"], bounds["skipped-by"], bounds["bytes-skipped"]) == (2, {"id > 12": 1}, 1010)
    assert result.report.to_json()["kept"] == {"files": 1, "rows": 10, "bytes": 1010, "delete-files": 0}


def test_manifests_are_skipped_by_their_summaries_and_not_read(tmp_path: Path) -> None:
    result = plan(make(tmp_path, "NO NO SE SE"), EqualTo("country", "SE"))
    layer = result.report.to_json()["layers"][0]
    assert (layer["skipped"], layer["skipped-by"]) == (1, {"country = 'SE'": 1})
    assert 0 < layer["bytes-skipped"] < layer["bytes"]
    assert result.report.manifests_read == 1


def test_the_report_is_a_tree_in_the_terminal(tmp_path: Path) -> None:
    text = io.StringIO()
    Console(file=text, width=120).print(plan(make(tmp_path), In("country", ["SE", "DK"])).report.tree())
    assert "data files by partition: 2 of 4 skipped" in text.getvalue()
    assert "2 by country IN ('DK', 'SE')" in text.getvalue()
    assert "to read: 2 files, 20 rows" in text.getvalue()


@pytest.mark.parametrize("size", [1, 2, 3, 10])
@pytest.mark.parametrize("look", [1, 3, 100])
@pytest.mark.parametrize("expr", [AlwaysTrue(), GreaterThan("id", 25), EqualTo("country", "NO")], ids=str)
def test_pages_have_every_file_once_in_any_order(tmp_path: Path, size: int, look: int, expr: Any) -> None:
    table = make(tmp_path, "NO SE DK NO SE NO DK")
    cache, pending, result = table.cache(), [Span()], []
    while pending:
        page = make_page(
            Planner(table.state, cache, ScanRequest(filter=expr)), pending.pop(), page_files=size, look_files=look
        )
        assert len(page) <= size
        result += [path for group in page.groups for path in group.column("path").to_pylist()]
        pending += page.rest
    assert sorted(result) == sorted(plan(table, expr).paths())


def test_format_1_without_counts_is_planned(tmp_path: Path) -> None:
    table = make(tmp_path, version=1, stats=Stats(counts=False))
    assert plan(table, EqualTo("id", 5)).paths() == ["f0"]
    assert plan(table, IsNull("id")).paths() == [
        "f0",
        "f1",
        "f2",
        "f3",
    ]  # the metadata does not say that there are no nulls


@pytest.mark.parametrize("transform", [VoidTransform(), UnknownTransform("zorder[3]")], ids=str)
def test_partitions_that_say_nothing_prune_nothing(tmp_path: Path, transform: Any) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, transform, "p"))
    table = MadeTable(tmp_path, SCHEMA, [PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))])
    table.append([MadeFile("f", [{"id": 1, "country": "NO"}], table.specs[0], (None,), Stats(bounds=False))])
    table.specs = [spec]
    assert plan(table, EqualTo("country", "NO")).paths() == ["f"]


def test_appends_between_two_snapshots(tmp_path: Path) -> None:
    table = make(tmp_path, "NO SE")
    for number in (1, 2):
        table.append([MadeFile(f"g{number}", [{"id": 1, "country": "NO"}], BY_COUNTRY, ("NO",))])
    assert plan(table, start_snapshot_id=1, end_snapshot_id=3).paths() == ["g1", "g2"]
    assert plan(table, start_snapshot_id=2, end_snapshot_id=3).paths() == ["g2"]
    with raises(ScanError, snapshot=9, problem="expired"):
        plan(table, start_snapshot_id=9, end_snapshot_id=3)


def test_a_table_without_snapshots_has_no_files(tmp_path: Path) -> None:
    assert plan(MadeTable(tmp_path, SCHEMA, [BY_COUNTRY])).paths() == []


def test_a_second_plan_reads_nothing(tmp_path: Path) -> None:
    table = make(tmp_path)
    read: list[str] = []
    cache = ScanCache(lambda path: read.append(path) or Path(path).read_bytes())  # type: ignore[func-returns-value]
    for _ in range(2):
        Planner(table.state, cache, ScanRequest(filter=EqualTo("id", 5))).plan()
    assert len(read) == len(set(read)) == 3


def test_a_page_asks_for_several_manifests_at_a_time(tmp_path: Path) -> None:
    table = make(tmp_path, "NO SE DK NO SE NO DK")  # two files a manifest
    together = Barrier(4)

    def read(path: str) -> bytes:
        if not path.endswith("snap-1.avro"):
            together.wait(20)  # no thread goes on before all four manifests are asked for
        return Path(path).read_bytes()

    page = make_page(Planner(table.state, ScanCache(read), ScanRequest()), Span())
    assert len(page) == 7


def test_the_cache_keeps_to_its_size(tmp_path: Path) -> None:
    table = make(tmp_path, "NO SE DK NO SE NO DK")
    cache = ScanCache(lambda path: Path(path).read_bytes(), max_bytes=1)
    paths = Planner(table.state, cache, ScanRequest()).plan().paths()
    assert len(paths) == 7
    assert len(cache._kept) == 1


@pytest.mark.parametrize("keep", [0, 3, 40, 200, -1, -20])
def test_a_damaged_manifest_is_named(tmp_path: Path, keep: int) -> None:
    table = make(tmp_path)
    broken = tmp_path / "m1.avro"
    broken.write_bytes(broken.read_bytes()[:keep])
    with raises(ManifestUnreadable, path=re.compile(r"m1\.avro$")):
        plan(table)


# --- deletes ---------------------------------------------------------------------------------------------------------


def delete(path: str, content: int, sequence: int, country: str | None = "NO", **more: Any) -> DeleteFile:
    partition = () if country is None else (country,)
    return DeleteFile(None, 0, path, content, sequence, 0, partition, global_=country is None, **more)  # type: ignore[arg-type]


def names(index: DeleteIndex, path: str = "f", sequence: int = 5, country: str = "NO") -> set[str]:
    return {file.path for file in index.of(path, sequence, 0, (country,))}


def test_position_deletes_concern_their_partition_and_what_is_not_younger() -> None:
    index = DeleteIndex(
        [delete("older", POSITIONS, 4), delete("same", POSITIONS, 5), delete("other", POSITIONS, 9, "SE")]
    )
    assert names(index) == {"same"}


def test_position_deletes_that_name_their_file_concern_that_file_alone() -> None:
    by_bounds = delete("bounds", POSITIONS, 6, lower_path=b"f", upper_path=b"f")
    index = DeleteIndex([by_bounds, delete("named", POSITIONS, 6, referenced="g")])
    assert (names(index, "f"), names(index, "g"), names(index, "h")) == ({"bounds"}, {"named"}, set())


def test_position_deletes_are_left_out_where_their_paths_cannot_reach() -> None:
    index = DeleteIndex([delete("d", POSITIONS, 6, lower_path=b"b", upper_path=b"d")])
    assert [bool(names(index, path)) for path in ("a", "b", "c", "d-long", "e")] == [False, True, True, True, False]


def test_equality_deletes_concern_what_is_strictly_older_in_their_partition_or_everywhere() -> None:
    index = DeleteIndex(
        [delete("same", EQUALITY, 5), delete("newer", EQUALITY, 6), delete("global", EQUALITY, 6, None)]
    )
    assert names(index) == {"newer", "global"}
    assert names(index, country="SE") == {"global"}


def test_a_deletion_vector_replaces_the_position_deletes_of_its_file() -> None:
    vector = delete("vector", POSITIONS, 7, referenced="f", is_vector=True)
    index = DeleteIndex([delete("older", POSITIONS, 6), delete("equal", EQUALITY, 6), vector])
    assert names(index, "f") == {"vector", "equal"}
    assert names(index, "g") == {"older", "equal"}
