"""Expiry and orphan removal next to other tables that lead to the same files: these stay, and the result says so."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.client import FrazilCatalog
from frazil.errors import ReferencesUnknown, UpkeepError
from frazil.upkeep.expire import Expiry, plan_expiry
from frazil.upkeep.orphans import Locations, OrphanPlan, plan_orphans, remove_orphans
from frazil.upkeep.others import find_referenced
from frazil.upkeep.policy import DAY_MS, Policy
from frazil.upkeep.steps import Keeper
from tests.contract.test_catalog_purge import register_elsewhere
from tests.contract.upkeep_lake import HURRIED, SCHEMA, Kept, as_path, compacted, rows
from tests.kit.raising import raises


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCatalog]:
    folder = tmp_path_factory.mktemp("others")
    warehouses = {"default": str(folder / "warehouse"), "cold": str(folder / "cold")}
    with running_catalog(folder, warehouses=warehouses, allow_overlap=True) as running:
        yield running


@pytest.fixture
def database_catalog(server: EmbeddedCatalog) -> FrazilCatalog:
    client = FrazilCatalog("lake", **server.properties)
    client.create_namespace_if_not_exists("lake")
    for name in client.list_tables("lake"):
        client.drop_table(name)
    return client


@pytest.fixture
def kept(database_catalog: FrazilCatalog) -> Kept:
    return compacted(database_catalog)


def later() -> int:
    return int(time.time() * 1000) + 10 * DAY_MS


def find(kept: Kept) -> OrphanPlan:
    return plan_orphans(lambda: kept.live, now_ms=later(), older_than_ms=3 * DAY_MS, locations=Locations(kept.catalog))


def borrow(kept: Kept, paths: list[str]) -> Kept:
    """A table that leads to the files of another one."""
    other_kept = Kept(kept.catalog)
    other_kept.create()
    other_kept.live.add_files(paths)
    return other_kept


def test_files_that_another_table_has_added_survive_the_expiry_of_their_snapshots(kept: Kept) -> None:
    old = kept.paths(kept.live.history()[5].snapshot_id)
    borrower = borrow(kept, old[:2])
    plan = plan_expiry(kept.live, kept.policy, now_ms=later())
    assert plan.needed == dict.fromkeys(old[:2], borrower.name)
    assert set(plan.doomed.data) == set(old[2:])
    removed = kept.expire(now_ms=later()).removed
    assert (removed.needed, removed.needed_by) == (2, (borrower.name,))
    assert len(borrower.ids()) == 2
    assert not any(Path(as_path(path)).exists() for path in old[2:])


@pytest.mark.parametrize("where", ["same warehouse", "other warehouse"])
def test_a_table_that_is_registered_twice_loses_nothing_to_the_expiry_of_the_first(
    kept: Kept, server: EmbeddedCatalog, where: str
) -> None:
    twin = kept.live.metadata_location
    before = kept.on_disk()
    if where == "same warehouse":
        kept.catalog.register_table("lake.twin", twin)
    else:
        register_elsewhere(server, twin)
    removed = kept.expire(now_ms=later()).removed
    assert removed.files == 0
    assert before <= kept.on_disk()
    if where == "other warehouse":
        FrazilCatalog("cold", **server.properties, warehouse="cold").drop_table("ns.twin")


def test_orphans_of_one_table_are_files_of_another(kept: Kept) -> None:
    """It wrote them where another table lives, before its data path was changed."""
    guest = Kept(kept.catalog)
    guest.create(properties={"write.data.path": f"{kept.live.location()}/data/guest"})
    guest.append(7)
    with guest.live.transaction() as change:
        change.remove_properties("write.data.path")
    orphan = Path(as_path(kept.live.location())) / "data" / "left.parquet"
    orphan.write_bytes(b"left")
    plan = find(kept)
    assert [as_path(orphan.path) for orphan in plan.orphans] == [str(orphan)]
    assert set(plan.needed.values()) == {guest.name}
    assert remove_orphans(kept.live, plan).files == 1
    assert guest.ids() == [7]


def test_what_another_table_adds_between_the_plan_and_the_removal_stays(kept: Kept) -> None:
    path = Path(as_path(kept.live.location())) / "data" / "late.parquet"
    pq.write_table(rows([9]), path)
    plan = find(kept)
    assert len(plan.orphans) == 1
    borrower = borrow(kept, [f"file://{path}"])
    removed = remove_orphans(kept.live, plan)
    assert (removed.files, removed.needed) == (0, 1)
    assert borrower.ids() == [9]


def test_a_table_made_anew_since_the_plan_is_left_alone(kept: Kept) -> None:
    plan, old = find(kept), kept.live.metadata.table_uuid
    location = kept.live.location()
    kept.catalog.drop_table(kept.name)
    kept.catalog.create_table(kept.name, SCHEMA, location=location)
    assert remove_orphans(kept.live, plan).files == 0
    with raises(UpkeepError, problem="recreated"):
        Expiry(kept.catalog, kept.identifier, Policy(), later, HURRIED, uuid=str(old)).run()


def test_a_table_that_cannot_be_read_may_lead_to_any_file(kept: Kept, server: EmbeddedCatalog) -> None:
    broken = Kept(kept.catalog).create()
    broken.append(1)
    for manifest in (broken.folder / "metadata").glob("*-m0.avro"):
        manifest.write_bytes(b"Obj\x01" + b"\xff" * 90)
    before = kept.on_disk()
    plan = plan_expiry(kept.live, kept.policy, now_ms=later())
    assert (len(plan.doomed), broken.name in plan.doubt) == (0, True)
    removed = kept.expire(now_ms=later()).removed
    assert (removed.files, removed.unknown > 0, broken.name in removed.doubt) == (0, True, True)
    assert before <= kept.on_disk()
    keeper = Keeper(kept.catalog, kept.identifier, clock_ms=later)
    assert broken.name in keeper.plan("orphans").lines[0]


def test_a_link_inside_the_folder_leads_no_removal_outside(kept: Kept, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f.parquet").write_bytes(b"not ours")
    (kept.folder / "data" / "link").symlink_to(outside)
    (kept.folder / "data" / "f.parquet").symlink_to(outside / "f.parquet")
    plan = find(kept)
    assert plan.orphans == ()
    assert (outside / "f.parquet").exists()


def test_the_preview_says_which_files_stay_for_whom(kept: Kept) -> None:
    borrower = borrow(kept, kept.paths(kept.live.history()[5].snapshot_id)[:1])
    keeper = Keeper(kept.catalog, kept.identifier, clock_ms=later)
    plan = keeper.plan("expire")
    assert f"leave 1 file that other tables lead to: {borrower.name}" in plan.lines
    assert f"left 1 that other tables lead to: {borrower.name}" in keeper.perform(plan).lines[0]


def test_a_catalog_that_is_not_ours_is_walked(tmp_path: Path) -> None:
    plain = SqlCatalog("plain", uri=f"sqlite:///{tmp_path}/plain.db", warehouse=f"file://{tmp_path}/plain")
    plain.create_namespace("lake")
    first, second = plain.create_table("lake.first", SCHEMA), plain.create_table("lake.second", SCHEMA)
    first.append(rows([1]))
    (path,) = [task.file.file_path for task in first.scan().plan_files()]
    second.add_files([path])
    free = f"{first.location()}/data/other.parquet"
    assert find_referenced(plain, [path, free], other_than=("lake", "first")) == {path: "lake.second"}
    shutil.rmtree(as_path(first.location()))
    with raises(ReferencesUnknown, table="lake.first"):
        find_referenced(plain, [free])


def test_a_catalog_that_does_not_answer_is_in_doubt() -> None:
    with running_catalog() as running:
        catalog = FrazilCatalog("gone", **running.properties)
    with raises(ReferencesUnknown, table="the catalog"):
        find_referenced(catalog, ["file:///t/f"])


def test_the_server_is_asked_for_a_few_tables_at_a_time(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    borrower = borrow(kept, kept.paths())
    monkeypatch.setattr("frazil.catalog.operations.references.PAGE_SECONDS", 0.0)
    assert find_referenced(kept.catalog, kept.paths(), other_than=kept.identifier) == dict.fromkeys(
        kept.paths(), borrower.name
    )
