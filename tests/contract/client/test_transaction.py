"""Several tables in one commit: all or nothing."""

from __future__ import annotations

import pytest

from frazil.client import FrazilCatalog
from frazil.errors import CommitConflict
from tests.contract.client.conftest import SCHEMA, ids, rows
from tests.kit.lossy_proxy import LossyProxy
from tests.kit.raising import raises


def test_two_tables_change_together(catalog: FrazilCatalog) -> None:
    with catalog.transaction() as tx:
        tx.table("ns.a").append(rows(1, 2))
        tx.table("ns.b").append(rows(3))
        tx.table("ns.b").set_properties(source="a")
    assert (ids(catalog, "ns.a"), ids(catalog, "ns.b")) == ([1, 2], [3])
    assert catalog.load_table("ns.b").properties["source"] == "a"


def test_nothing_is_visible_before_the_block_ends(catalog: FrazilCatalog) -> None:
    with catalog.transaction() as tx:
        with tx.table("ns.a") as a:
            a.append(rows(1))
        assert ids(catalog, "ns.a") == []
    assert ids(catalog, "ns.a") == [1]


def test_a_conflict_on_one_table_leaves_both_as_they_were(catalog: FrazilCatalog) -> None:
    tx = catalog.transaction()
    tx.table("ns.a").append(rows(1))
    tx.table("ns.b").append(rows(2))
    catalog.load_table("ns.b").append(rows(99))
    with raises(CommitConflict, table="ns.a, ns.b"), tx:
        pass
    assert (ids(catalog, "ns.a"), ids(catalog, "ns.b")) == ([], [99])


def test_an_error_inside_the_block_sends_nothing(catalog: FrazilCatalog) -> None:
    tx = catalog.transaction()
    tx.table("ns.a").append(rows(1))
    with pytest.raises(ZeroDivisionError), tx:
        _ = 1 / 0
    assert ids(catalog, "ns.a") == []


def test_a_table_is_created_and_filled_with_the_others(catalog: FrazilCatalog) -> None:
    with catalog.transaction() as tx:
        tx.table("ns.a").append(rows(1))
        tx.create_table("ns.new", SCHEMA, properties={"owner": "me"}).append(rows(7, 8))
        assert not catalog.table_exists("ns.new")
    assert (ids(catalog, "ns.a"), ids(catalog, "ns.new")) == ([1], [7, 8])
    assert catalog.load_table("ns.new").properties["owner"] == "me"


def test_a_created_table_that_somebody_else_created_first_is_a_conflict(catalog: FrazilCatalog) -> None:
    tx = catalog.transaction()
    tx.table("ns.a").append(rows(1))
    tx.create_table("ns.new", SCHEMA)
    catalog.create_table("ns.new", SCHEMA)
    with pytest.raises(CommitConflict), tx:
        pass
    assert ids(catalog, "ns.a") == []


def test_a_given_table_is_guarded_as_the_caller_read_it(catalog: FrazilCatalog) -> None:
    read = catalog.load_table("ns.a")
    catalog.load_table("ns.a").append(rows(1))
    with pytest.raises(CommitConflict), catalog.transaction() as tx:
        tx.table(read).append(rows(2))
    assert ids(catalog, "ns.a") == [1]


def test_every_branch_of_a_table_is_guarded(catalog: FrazilCatalog) -> None:
    table = catalog.load_table("ns.a")
    table.append(rows(1))
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()
    tx = catalog.transaction()
    tx.table("ns.a").append(rows(2))
    tx.table("ns.a").append(rows(3), branch="audit")
    catalog.load_table("ns.a").append(rows(99), branch="audit")
    with pytest.raises(CommitConflict), tx:
        pass
    assert ids(catalog, "ns.a") == [1]


def test_a_block_without_changes_asks_the_server_nothing(
    catalog: FrazilCatalog, shaky: FrazilCatalog, proxy: LossyProxy
) -> None:
    with shaky.transaction() as tx:
        tx.table("ns.a")
    assert not any(head.startswith(b"POST") for head in proxy.requests)


def test_an_ended_transaction_takes_no_further_table(catalog: FrazilCatalog) -> None:
    with catalog.transaction() as tx:
        pass
    with pytest.raises(ValueError, match="has ended"):
        tx.table("ns.a")


def test_a_lost_reply_to_a_transaction_is_found_committed_once(
    catalog: FrazilCatalog, shaky: FrazilCatalog, proxy: LossyProxy
) -> None:
    path = shaky.url("transactions/commit").removeprefix(shaky.uri.rstrip("/"))
    with shaky.transaction() as tx:
        tx.table("ns.a").append(rows(1))
        tx.table("ns.b").append(rows(2))
        proxy.lose_reply(f"POST {path}".encode())
    assert (ids(catalog, "ns.a"), ids(catalog, "ns.b")) == ([1], [2])
