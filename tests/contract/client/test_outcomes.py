"""A commit returns, or raises CommitConflict or CommitUnknown; and each of them is the truth."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.client.transport import Transport
from frazil.errors import CommitConflict, CommitUnknown, Unavailable
from frazil.protocol import PROPERTY_REBASE_APPENDS
from tests.contract.client.conftest import ids, rows
from tests.kit.lossy_proxy import LossyProxy, lossy_proxy
from tests.kit.raising import raises

COMMIT = b"POST /v1/"


def without_keys(client: FrazilCatalog) -> FrazilCatalog:
    """The client as it would be with a server that promises nothing about repeated requests."""
    client._session.mount("http://", Transport(keys=False))
    return client


def table_path(client: FrazilCatalog, name: str) -> bytes:
    return b"POST " + client.url(f"namespaces/ns/tables/{name}").removeprefix(client.uri.rstrip("/")).encode()


def test_a_server_that_promises_to_answer_keys_gets_them(shaky: FrazilCatalog, proxy: LossyProxy) -> None:
    shaky.load_table("ns.a").append(rows(1))
    assert [b"idempotency-key" in head.lower() for head in proxy.requests] == [False, False, True]


def test_the_second_of_two_writers_gets_a_conflict_and_adds_nothing(catalog: FrazilCatalog, uri: str) -> None:
    first, second = catalog.load_table("ns.a"), FrazilCatalog("lake", uri=uri).load_table("ns.a")
    first.append(rows(1, 2))
    with raises(CommitConflict, table="ns.a", problem=None):
        second.append(rows(1, 2))
    assert ids(catalog, "ns.a") == [1, 2]


@pytest.mark.requirement("flow.errors")
def test_after_a_conflict_a_refreshed_table_takes_the_rows(catalog: FrazilCatalog) -> None:
    stale = catalog.load_table("ns.a")
    catalog.load_table("ns.a").append(rows(1))
    with pytest.raises(CommitConflict):
        stale.append(rows(2))
    stale.refresh().append(rows(2))
    assert ids(catalog, "ns.a") == [1, 2]


@pytest.mark.requirement("flow.errors")
@pytest.mark.parametrize("keys", [True, False])
def test_a_lost_reply_to_an_append_is_found_committed_and_no_row_is_doubled(
    keys: bool, catalog: FrazilCatalog, shaky: FrazilCatalog, proxy: LossyProxy
) -> None:
    table = (shaky if keys else without_keys(shaky)).load_table("ns.a")
    proxy.lose_reply(table_path(shaky, "a"))
    table.append(rows(1, 2, 3))
    table.append(rows(4))
    assert ids(catalog, "ns.a") == [1, 2, 3, 4]


def test_a_request_that_never_arrived_is_repeated_under_its_key(
    catalog: FrazilCatalog, shaky: FrazilCatalog, proxy: LossyProxy
) -> None:
    table = shaky.load_table("ns.a")
    proxy.lose_request(table_path(shaky, "a"))
    table.append(rows(1))
    keys = {
        line for head in proxy.requests for line in head.lower().split(b"\r\n") if line.startswith(b"idempotency-key")
    }
    assert (len(keys), ids(catalog, "ns.a")) == (1, [1])


def test_a_lost_reply_whose_place_was_taken_is_a_conflict(
    catalog: FrazilCatalog, shaky: FrazilCatalog, proxy: LossyProxy
) -> None:
    stale = without_keys(shaky).load_table("ns.a")
    catalog.load_table("ns.a").append(rows(1))
    proxy.lose_request(table_path(shaky, "a"))
    with raises(CommitConflict, table="ns.a", problem="overtaken"):
        stale.append(rows(2))
    assert ids(catalog, "ns.a") == [1]


@pytest.mark.parametrize("by_default", [False, True])
def test_a_lost_append_is_no_conflict_where_the_catalog_may_still_rebase_it(by_default: bool, tmp_path: Path) -> None:
    with running_catalog(tmp_path, rebase_appends=by_default) as server, lossy_proxy(server.uri) as proxy:
        catalog, shaky = (FrazilCatalog("lake", uri=uri) for uri in (server.uri, proxy.uri))
        catalog.create_namespace("ns")
        properties = {} if by_default else {PROPERTY_REBASE_APPENDS: "true"}
        catalog.create_table("ns.a", rows(1).schema, properties=properties)
        stale = without_keys(shaky).load_table("ns.a")
        catalog.load_table("ns.a").append(rows(1))
        proxy.lose_request(table_path(shaky, "a"))
        with raises(CommitUnknown, table="ns.a"):
            stale.append(rows(2))


def test_a_repeated_request_that_is_refused_is_looked_up_before_it_is_called_a_conflict(
    catalog: FrazilCatalog, shaky: FrazilCatalog, proxy: LossyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A server whose memory of keys is gone: the repetition meets the first one's commit and is refused.
    monkeypatch.setattr(Transport, "send", _with_fresh_keys(Transport.send))
    table = shaky.load_table("ns.a")
    proxy.lose_reply(table_path(shaky, "a"))
    table.append(rows(1))
    assert ids(catalog, "ns.a") == [1]


def test_a_repeated_request_about_a_table_that_was_dropped_since_is_unknown(
    catalog: FrazilCatalog, shaky: FrazilCatalog, proxy: LossyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first copy was committed; the second is answered with "no such table".
    monkeypatch.setattr(Transport, "send", _with_fresh_keys(Transport.send))
    table = shaky.load_table("ns.a")
    proxy.lose_reply(table_path(shaky, "a"), meanwhile=lambda: catalog.drop_table("ns.a"))
    with pytest.raises(CommitUnknown):
        table.append(rows(1))


@pytest.mark.requirement("flow.errors")
@pytest.mark.parametrize("keys", [True, False])
def test_when_the_catalog_is_gone_after_the_request_the_outcome_is_unknown(
    keys: bool, catalog: FrazilCatalog, shaky: FrazilCatalog, proxy: LossyProxy
) -> None:
    table = (shaky if keys else without_keys(shaky)).load_table("ns.a")
    proxy.lose_reply(table_path(shaky, "a"), then_vanish=True)
    with raises(CommitUnknown, table="ns.a") as caught:
        table.append(rows(1))
    assert "load the tables and look" in str(caught.value.hint)
    assert ids(catalog, "ns.a") == [1]  # this time it has; the client could not know


def test_a_change_of_properties_alone_cannot_be_seen_and_is_unknown_without_keys(
    catalog: FrazilCatalog, shaky: FrazilCatalog, proxy: LossyProxy
) -> None:
    table = without_keys(shaky).load_table("ns.a")
    proxy.lose_reply(table_path(shaky, "a"))
    with pytest.raises(CommitUnknown), table.transaction() as change:
        change.set_properties(colour="blue")


def test_a_change_of_properties_alone_is_answered_once_with_keys(
    catalog: FrazilCatalog, shaky: FrazilCatalog, proxy: LossyProxy
) -> None:
    table = shaky.load_table("ns.a")
    proxy.lose_reply(table_path(shaky, "a"))
    with table.transaction() as change:
        change.set_properties(colour="blue")
    assert catalog.load_table("ns.a").properties["colour"] == "blue"


def test_a_lost_reply_to_a_new_namespace_is_no_already_exists(
    catalog: FrazilCatalog, shaky: FrazilCatalog, proxy: LossyProxy
) -> None:
    proxy.lose_reply(b"POST " + shaky.url("namespaces").removeprefix(shaky.uri.rstrip("/")).encode())
    shaky.create_namespace("fresh")
    assert catalog.namespace_exists("fresh")
    catalog.drop_namespace("fresh")


def test_a_catalog_that_does_not_listen_is_certain_to_have_committed_nothing(
    shaky: FrazilCatalog, proxy: LossyProxy
) -> None:
    table = shaky.load_table("ns.a")
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    shaky.uri = f"http://127.0.0.1:{port}"
    with raises(Unavailable, lasting=False) as caught:
        table.append(rows(1))
    assert "frazil up" in str(caught.value.hint)


def test_a_load_is_repeated_when_its_reply_is_lost(shaky: FrazilCatalog, proxy: LossyProxy) -> None:
    proxy.lose_reply(b"GET /v1/default/namespaces/ns/tables/a")
    assert shaky.load_table("ns.a").name() == ("ns", "a")


def _with_fresh_keys(send):  # type: ignore[no-untyped-def]
    from requests.adapters import HTTPAdapter

    original = HTTPAdapter.send

    def forgetting(self, request, **options):  # type: ignore[no-untyped-def]
        request.headers.pop("Idempotency-Key", None)
        return original(self, request, **options)

    def patched(self, request, *args, **options):  # type: ignore[no-untyped-def]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(HTTPAdapter, "send", forgetting)
            return send(self, request, *args, **options)

    return patched
