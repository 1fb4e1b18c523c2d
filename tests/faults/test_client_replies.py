"""Writers whose requests and replies get lost: every acknowledged row is there once, every refused one not at all."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.errors import CommitConflict, CommitUnknown
from tests.conftest import Campaign
from tests.kit.lossy_proxy import LossyProxy, lossy_proxy

WRITERS = 3
TABLES = [b"POST /v1/default/namespaces/ns/tables/t", b"POST /v1/default/transactions/commit"]


def append_until_in(catalog: FrazilCatalog, number: int) -> None:
    """The row is in the table, or in both; after a conflict it tries again, in doubt it looks first."""
    row = pa.table({"id": pa.array([number], pa.int64())})
    while True:
        table = catalog.load_table("ns.t")
        if number in table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist():
            return  # an attempt of ours whose fate was unknown
        try:
            if number % 2:
                table.append(row)
            else:
                with catalog.transaction() as tx:
                    tx.table(table).append(row)
                    tx.table("ns.twin").append(row)
            return
        except (CommitConflict, CommitUnknown):
            continue


def write(proxy: LossyProxy, numbers: range, chance: random.Random) -> None:
    catalog = FrazilCatalog("lake", uri=proxy.uri)
    lose: list[Callable[[bytes], None]] = [proxy.lose_reply, proxy.lose_request]
    for number in numbers:
        if chance.random() < 0.5:
            chance.choice(lose)(chance.choice(TABLES))
        append_until_in(catalog, number)
    catalog.close()


def test_rows_are_there_once_whatever_gets_lost(tmp_path: Path, campaign: Campaign) -> None:
    each = campaign.size(short=8, full=60)
    chance = campaign.random()
    with running_catalog(tmp_path) as server, lossy_proxy(server.uri) as proxy:
        catalog = FrazilCatalog("lake", uri=server.uri)
        catalog.create_namespace("ns")
        for name in ("ns.t", "ns.twin"):
            catalog.create_table(name, pa.schema([("id", pa.int64())]))
        with ThreadPoolExecutor(WRITERS) as pool:
            shares = [range(start * each, (start + 1) * each) for start in range(WRITERS)]
            seeds = [random.Random(chance.random()) for _ in shares]
            list(pool.map(write, [proxy] * WRITERS, shares, seeds))
        result = {
            name: sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist()) for name in ("ns.t", "ns.twin")
        }
        catalog.close()
    everything = list(range(WRITERS * each))
    assert result == {"ns.t": everything, "ns.twin": [number for number in everything if number % 2 == 0]}
