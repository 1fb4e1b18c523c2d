"""What authentication costs on PostgreSQL: no round trip of its own, where requests are many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from frazil.catalog import running_catalog
from tests.kit.access import guarded_catalog, namespace
from tests.kit.catalog_databases import SCHEMA, Answer, Client, append_change, fresh_database
from tests.kit.database_proxy import CuttingProxy, cutting_proxy

WARM = 7  # psycopg prepares a statement when it is sent for the sixth time
MEASURED = 5  # the server also asks the database by itself, now and then: the least is what the request takes


def create(client: Client, number: int) -> Answer:
    return client.post("/namespaces/ns/tables", {"name": f"n{number}", "schema": SCHEMA})


def append(client: Client, number: int) -> Answer:
    parent = number - 1 or None
    return client.post("/namespaces/ns/tables/t", append_change(number, parent=parent, sequence=number))


def commit_two(client: Client, number: int) -> Answer:
    names = [{"namespace": ["ns"], "name": name} for name in ("u", "w")]
    updates = [{"action": "set-properties", "updates": {"n": str(number)}}]
    changes = [{"identifier": name, "requirements": [], "updates": updates} for name in names]
    return client.post("/transactions/commit", {"table-changes": changes})


REQUESTS: dict[str, Callable[[Client, int], Answer]] = {
    "create": create,
    "append": append,
    "two tables": commit_two,
    "load": lambda client, _: client.get("/namespaces/ns/tables/t"),
    "list": lambda client, _: client.get("/namespaces/ns/tables"),
    "page": lambda client, _: client.get("/namespaces/ns/tables", pageSize="3"),
}


@contextmanager
def proxied(postgres: str, folder: Path) -> Iterator[tuple[CuttingProxy, str]]:
    """A database, and its URL through a proxy."""
    folder.mkdir()
    with fresh_database("postgresql", folder, postgres) as url:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        with cutting_proxy(parts.hostname, parts.port) as proxy:
            yield proxy, url.replace(f":{parts.port}/", f":{proxy.port}/")


def count(proxy: CuttingProxy, client: Client) -> dict[str, int]:
    """The round trips of one request of each kind, when everything is remembered that can be."""
    for name in ("t", "u", "w"):
        client.create(name)
    counts = {}
    for kind, send in REQUESTS.items():
        trips = []
        for number in range(1, WARM + MEASURED + 1):
            before = proxy.round_trips
            assert send(client, number).status in (200, 204)
            trips.append(proxy.round_trips - before)
        counts[kind] = min(trips[WARM:])
    return counts


def test_authentication_takes_no_round_trip_of_its_own(postgres: str, tmp_path: Path) -> None:
    with proxied(postgres, tmp_path / "off") as (proxy, url), running_catalog(tmp_path / "off", database=url) as server:
        off = Client(server.uri)
        without = count(proxy, off)
        off.session.close()
    with proxied(postgres, tmp_path / "on") as (proxy, url), guarded_catalog(tmp_path / "on", url) as guarded:
        guarded.admin.post("/namespaces", {"namespace": ["ns"]})
        ann = guarded.user("ann", ("create", namespace("ns")), ("read", namespace("ns")))
        assert count(proxy, ann) == without
    assert without == {"create": 4, "append": 4, "two tables": 6, "load": 1, "list": 1, "page": 1}
