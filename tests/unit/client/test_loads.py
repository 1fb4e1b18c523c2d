"""Loading a table that has not changed costs one small request."""

from __future__ import annotations

from frazil.client import FrazilCatalog
from tests.unit.client.conftest import ids, rows
from tests.unit.client.proxy import LossyProxy


def test_an_unchanged_table_is_neither_sent_nor_parsed_again(catalog: FrazilCatalog, shaky: FrazilCatalog, proxy: LossyProxy) -> None:
    first = shaky.load_table("ns.a")
    again = shaky.load_table("ns.a")
    assert b"if-none-match" in proxy.requests[-1].lower()
    assert again.metadata is first.metadata


def test_a_change_by_somebody_else_is_seen_at_the_next_load(catalog: FrazilCatalog, uri: str) -> None:
    catalog.load_table("ns.a")
    FrazilCatalog("lake", uri=uri).load_table("ns.a").append(rows(1))
    assert ids(catalog, "ns.a") == [1]


def test_own_changes_leave_the_remembered_table_as_it_was(catalog: FrazilCatalog) -> None:
    before = catalog.load_table("ns.a")
    catalog.load_table("ns.a").append(rows(1))
    assert (before.current_snapshot(), ids(catalog, "ns.a")) == (None, [1])


def test_a_dropped_and_recreated_table_is_the_new_one(catalog: FrazilCatalog) -> None:
    old = catalog.load_table("ns.a")
    catalog.drop_table("ns.a")
    catalog.create_table("ns.a", old.schema())
    assert catalog.load_table("ns.a").metadata.table_uuid != old.metadata.table_uuid
