"""The inputs of a run, as it has fixed them, next to what other runs have read meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from frazil import Lake, Table, column
from frazil.catalog import running_catalog
from frazil.client import FrazilCatalog
from frazil.pipelines.models.inputs import News, current_state
from frazil.pipelines.models.run import World
from frazil.write.commit import InputState, Overtaken


@pytest.fixture
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrazilCatalog]:
    with running_catalog(tmp_path_factory.mktemp("lake")) as server:
        yield FrazilCatalog("lake", uri=server.uri)


def test_a_run_whose_input_another_one_has_read_later_begins_again(catalog: FrazilCatalog) -> None:
    orders = Lake(catalog=catalog)
    orders.apply(Table("shop.orders", column("id", "long")))
    orders.table("shop.orders").append([{"id": 1}])
    world = World(catalog)
    world.fix(["shop.orders"])
    orders.table("shop.orders").append([{"id": 2}])
    later = current_state(catalog.load_table("shop.orders").metadata)
    with pytest.raises(Overtaken):
        world.arrived("shop.orders", later)
    again = World(catalog)
    again.fix(["shop.orders"])
    assert again.arrived("shop.orders", later).news is News.NOTHING


def test_an_expired_snapshot_is_not_taken_for_a_later_one(catalog: FrazilCatalog) -> None:
    lake = Lake(catalog=catalog)
    lake.apply(Table("shop.orders", column("id", "long")))
    lake.table("shop.orders").append([{"id": 1}])
    world = World(catalog)
    world.fix(["shop.orders"])
    gone = InputState(str(catalog.load_table("shop.orders").metadata.table_uuid), 7)
    assert world.arrived("shop.orders", gone).news is News.UNKNOWN
