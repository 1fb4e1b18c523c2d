"""Delete files are read once, however many data files they concern."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from frazil.scan.planning.plan import Planner, ScanRequest
from frazil.scan.reading.datafile import FileReader
from frazil.scan.reading.read_plan import ReadPlan
from tests.kit.real_tables import MadeDelete, RealFile, RealTable

SCHEMA = Schema(NestedField(1, "id", LongType()))


def test_an_equality_delete_is_read_once_for_files_of_different_ages(tmp_path: Path) -> None:
    """Each of them has other deletes: the older it is, the more."""
    spec, opened = PartitionSpec(), Counter[str]()
    table = RealTable(tmp_path, SCHEMA, [spec])
    for number in range(4):
        table.write([RealFile(str(tmp_path / f"f{number}.parquet"), [{"id": number}, {"id": 10 + number}], spec, ())])
        table.delete([MadeDelete("equality", spec, (), 0, columns=("id",), values=({"id": 10 + number},))])

    def open_file(path: str) -> Any:
        opened[path.rsplit("/", 1)[1]] += 1
        return table.io.new_input(path).open()

    planner = Planner(table.state, table.cache(), ScanRequest())
    reader = FileReader(ReadPlan.of(planner, open_file, SCHEMA.fields))
    result = [row["id"] for task in planner.plan().tasks() for batch in reader.read(task) for row in batch.to_pylist()]
    assert sorted(result) == [0, 1, 2, 3]
    assert {name: count for name, count in opened.items() if count > 1} == {}
