"""Rows that an engine has deleted from a quarantine table stay out of it, whatever kind of delete names them."""

from __future__ import annotations

import json
import uuid

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.update import AssertTableUUID, UpgradeFormatVersionUpdate
from pyiceberg.types import LongType, NestedField

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.client.changes import Change
from frazil.quarantine.held import Choice
from frazil.quarantine.replay import IcebergQuarantine, Rules
from frazil.scan.reading import scan_rows
from frazil.write.commit.quarantine_table import quarantine_of
from tests.contract.upkeep_format3 import Kept3
from tests.kit.delete_files import delete_equal, delete_positions

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))


@pytest.fixture
def quarantine(catalog: FrazilCatalog) -> IcebergQuarantine:
    """Ids 1 to 5, in one file of the quarantine."""
    name = ("lake", f"q{uuid.uuid4().hex[:8]}")
    catalog.create_table(name, SCHEMA)
    with frazil.sinks.open(name, name="s", catalog=catalog, bad_rows="quarantine", checks=["id > 100"]) as sink:
        sink.write([{"id": number} for number in range(1, 6)], position=1)
    return IcebergQuarantine(catalog, name)


def companion(quarantine: IcebergQuarantine) -> str:
    return ".".join(quarantine_of(quarantine.identifier))


def delete_by_all_means(quarantine: IcebergQuarantine, catalog: FrazilCatalog) -> None:
    """Row 1 by its position, rows 2 and 3 by their values."""
    raw = {row.raw for row in quarantine.rows() if json.loads(row.raw)["id"] in (2, 3)}
    delete_positions(catalog, companion(quarantine), [0])
    delete_equal(catalog, companion(quarantine), "raw", sorted(raw))


def held(quarantine: IcebergQuarantine) -> list[int]:
    return [json.loads(row.raw)["id"] for row in quarantine.rows()]


def test_a_replay_brings_in_live_rows_only(quarantine: IcebergQuarantine, catalog: FrazilCatalog) -> None:
    delete_by_all_means(quarantine, catalog)
    result = quarantine.replay(Rules(checks=()))
    table = catalog.load_table(quarantine.identifier)
    assert (sorted(scan_rows(table).to_arrow()["id"].to_pylist()), result.replayed) == ([4, 5], 2)
    assert held(quarantine) == []


def test_rows_that_stay_behind_are_the_live_ones(quarantine: IcebergQuarantine, catalog: FrazilCatalog) -> None:
    delete_by_all_means(quarantine, catalog)
    assert quarantine.replay(Rules(checks=("id > 4",))).replayed == 1
    assert held(quarantine) == [4]
    quarantine.drop(Choice())
    assert held(quarantine) == []


def test_the_reasons_are_those_of_live_rows(quarantine: IcebergQuarantine, catalog: FrazilCatalog) -> None:
    delete_by_all_means(quarantine, catalog)
    holding = quarantine.holding()
    assert holding is not None
    assert (holding.rows, dict(holding.reasons)) == (2, {"check 'id > 100' failed": 2})


def upgrade(catalog: FrazilCatalog, name: str) -> Kept3:
    """The table in format 3, as an engine makes it of one in format 2."""
    table = Kept3(catalog, name)
    to_format_3 = UpgradeFormatVersionUpdate.model_validate({"format-version": 3})
    same = AssertTableUUID(uuid=table.live.metadata.table_uuid)
    catalog.commit_changes([Change(table.identifier, (same,), (to_format_3,))])
    return table


def test_rows_in_a_deletion_vector_are_not_held(quarantine: IcebergQuarantine, catalog: FrazilCatalog) -> None:
    kept3 = upgrade(catalog, companion(quarantine))
    (file,) = kept3.files()
    kept3.add_vectors([(file.file_path, [0, 2], file)])
    holding = quarantine.holding()
    assert holding is not None
    assert (held(quarantine), holding.rows) == ([2, 4, 5], 3)


@pytest.mark.parametrize("upgraded", [("table",), ("quarantine",), ("table", "quarantine")], ids=" and ".join)
def test_rows_of_tables_that_were_upgraded_to_format_3_are_replayed_and_dropped(
    quarantine: IcebergQuarantine, catalog: FrazilCatalog, upgraded: tuple[str, ...]
) -> None:
    names = {"table": quarantine.name, "quarantine": companion(quarantine)}
    in_format_3 = {name: upgrade(catalog, names[name]) for name in upgraded}
    if "quarantine" in upgraded:
        (file,) = in_format_3["quarantine"].files()
        in_format_3["quarantine"].add_vectors([(file.file_path, [0], file)])
    else:
        delete_positions(catalog, companion(quarantine), [0])
    assert quarantine.replay(Rules(checks=("id > 3",))).replayed == 2
    assert (in_table(quarantine, catalog), held(quarantine)) == ([4, 5], [2, 3])
    assert quarantine.replay(Rules(checks=("id > 2",))).replayed == 1
    assert (in_table(quarantine, catalog), held(quarantine)) == ([3, 4, 5], [2])
    assert quarantine.drop(Choice()).dropped == 1
    assert (in_table(quarantine, catalog), held(quarantine)) == ([3, 4, 5], [])
    if "table" in upgraded:
        row_ids = [row_id for row_id, _ in in_format_3["table"].lineage().values()]
        assert len(set(row_ids)) == 3
        assert in_format_3["table"].summary()["total-records"] == "3"


def in_table(quarantine: IcebergQuarantine, catalog: FrazilCatalog) -> list[int]:
    return sorted(scan_rows(catalog.load_table(quarantine.identifier)).to_arrow()["id"].to_pylist())
