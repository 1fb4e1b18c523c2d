"""Many writers at once: the number of snapshots is the number of acknowledgements, on one server and on three."""

from __future__ import annotations

import contextlib
import itertools
import threading
from pathlib import Path

import pytest

from frazil.catalog.embedded import running_catalog
from tests.conftest import Campaign
from tests.kit.catalog_databases import Client
from tests.kit.catalog_writers import Writer, check_account, running, wait_for
from tools.own_server import own_server

WRITERS = 16


@pytest.mark.parametrize("tables", [1, WRITERS], ids=["one table", "many tables"])
def test_sixteen_writers_get_as_many_snapshots_as_acknowledgements(
    database: str, tmp_path: Path, tables: int, campaign: Campaign
) -> None:
    enough = campaign.size(short=60, full=2000)
    with running_catalog(tmp_path, database=database) as server:
        names = [f"t{number}" for number in range(tables)]
        for name in names:
            Client(server.uri).create(name)
        clients = [Client(server.uri) for _ in range(WRITERS)]
        writers = [Writer(names[n % tables], lambda n=n: clients[n], keyed=False) for n in range(WRITERS)]
        with running(writers):
            wait_for(lambda: sum(len(writer.acknowledged) for writer in writers) >= enough, seconds=240)
        check_account(Client(server.uri), writers)
    assert not any(writer.unheard for writer in writers)
    assert tables == 1 or not any(writer.conflicts for writer in writers)


@pytest.mark.requirement("flow.backends")
def test_three_servers_share_one_database_and_lose_nothing(database: str, tmp_path: Path, campaign: Campaign) -> None:
    enough = campaign.size(short=60, full=2000)
    with contextlib.ExitStack() as stack:
        # One warehouse for all: the first server's folder.
        options = ["--warehouse", f"default={tmp_path / 'shared'}"]
        uris = [
            stack.enter_context(own_server(tmp_path / f"server{n}", database=database, options=options))[0]
            for n in range(3)
        ]
        Client(uris[0]).create("a")
        Client(uris[0]).create("b")
        turns = [itertools.cycle([Client(uri) for uri in uris]) for _ in range(WRITERS)]
        writers = [Writer("ab"[n % 2], lambda n=n: next(turns[n]), keyed=n % 2 == 0) for n in range(WRITERS)]
        with running(writers):
            wait_for(lambda: sum(len(writer.acknowledged) for writer in writers) >= enough, seconds=240)
        for uri in uris:
            check_account(Client(uri), writers)


def test_changes_that_do_not_collide_all_go_through_on_two_servers(database: str, tmp_path: Path) -> None:
    """Property changes assert nothing: a request that loses the race for the pointer is retried by its server."""
    warehouses = {"default": str(tmp_path / "warehouse")}
    with (
        running_catalog(tmp_path, database=database, warehouses=warehouses) as catalog,
        running_catalog(tmp_path, database=database, warehouses=warehouses) as two,
    ):
        Client(catalog.uri).create()
        refusals: list[object] = []

        def change(number: int) -> None:
            client = Client((catalog, two)[number % 2].uri)
            for turn in range(10):
                answer = client.commit({"action": "set-properties", "updates": {f"p{number}-{turn}": "x"}})
                refusals.extend([answer.error] if answer.status != 200 else [])

        threads = [threading.Thread(target=change, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        properties = Client(two.uri).load()["metadata"]["properties"]
    assert refusals == []
    assert {f"p{number}-{turn}" for number in range(6) for turn in range(10)} <= set(properties)


def test_one_of_many_creators_wins_and_the_others_get_an_error(database: str, tmp_path: Path) -> None:
    from tests.kit.catalog_databases import SCHEMA

    with running_catalog(tmp_path, database=database) as server:
        Client(server.uri).post("/namespaces", {"namespace": ["ns"]})
        statuses: list[int] = []

        def create() -> None:
            statuses.append(Client(server.uri).post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}).status)

        threads = [threading.Thread(target=create) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        files = list((tmp_path / "warehouse").rglob("*.metadata.json"))
    assert sorted(statuses) == [200] + [409] * 7
    assert len(files) == 1  # the losers' files are known to be theirs, and are gone


def test_transactions_over_the_same_tables_on_two_servers_neither_block_nor_tear(
    database: str, tmp_path: Path, campaign: Campaign
) -> None:
    """Each transaction appends to both tables, named in either order: in the end both tables have the
    same snapshots.
    """
    from tests.kit.catalog_databases import append_change

    with contextlib.ExitStack() as stack:
        options = ["--warehouse", f"default={tmp_path / 'shared'}"]
        uris = [
            stack.enter_context(own_server(tmp_path / f"server{n}", database=database, options=options))[0]
            for n in range(2)
        ]
        for table in "ab":
            Client(uris[0]).create(table)
        committed: list[int] = []

        def transact(number: int) -> None:
            client = Client(uris[number % 2])
            for turn in range(campaign.size(short=10, full=100)):
                metadata = client.load("a")["metadata"]
                parent = None if metadata["current-snapshot-id"] == -1 else metadata["current-snapshot-id"]
                snapshot_id = 1 + number * 1000 + turn
                change = append_change(snapshot_id, parent=parent, sequence=metadata["last-sequence-number"] + 1)
                order = "ab" if turn % 2 else "ba"
                changes = [{"identifier": {"namespace": ["ns"], "name": table}, **change} for table in order]
                status = client.post("/transactions/commit", {"table-changes": changes}).status
                assert status in (204, 409)
                if status == 204:
                    committed.append(snapshot_id)

        threads = [threading.Thread(target=transact, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        result = [[s["snapshot-id"] for s in Client(uris[1]).load(table)["metadata"]["snapshots"]] for table in "ab"]
    assert result[0] == result[1]
    assert sorted(result[0]) == sorted(committed)
    assert committed
