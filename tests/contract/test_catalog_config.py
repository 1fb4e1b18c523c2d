"""What a client learns first, on both databases."""

from __future__ import annotations

import pytest

from frazil.catalog.embedded import EmbeddedCatalog
from frazil.catalog.routes import ROUTES
from tests.kit.catalog_databases import Client


def test_a_client_that_names_no_warehouse_gets_the_default(client: Client) -> None:
    body = client.raw("GET", "/v1/config").body
    assert body["overrides"] == {"prefix": "default", "namespace-separator": "%1F"}
    assert body["idempotency-key-lifetime"] == "PT30M"


def test_a_warehouse_is_found_by_name_and_by_location(client: Client, server: EmbeddedCatalog) -> None:
    location = f"file:{server.folder}/cold/"
    prefixes = [
        client.raw("GET", "/v1/config", warehouse=name).body["overrides"]["prefix"] for name in ("cold", location)
    ]
    assert prefixes == ["cold", "cold"]


def test_an_unknown_warehouse_is_404_and_the_answer_names_those_that_exist(client: Client) -> None:
    status, kind, message = client.raw("GET", "/v1/config", warehouse="nope").error
    assert (status, kind) == (404, "NoSuchWarehouseException")
    assert "default, cold" in message


def test_every_advertised_endpoint_is_a_route_and_every_route_is_advertised(client: Client) -> None:
    advertised = client.raw("GET", "/v1/config").body["endpoints"]
    # no warehouse of this server vends credentials or signs
    hidden = {"getConfig", "getToken", "loadCredentials", "signRequest"}
    search = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/search"
    routes = [f"{route.method} {route.template}" for route in ROUTES if route.operation not in hidden]
    assert advertised == [*routes, search]


def test_paths_without_a_prefix_mean_the_default_warehouse(client: Client) -> None:
    client.create("t", "ns")
    assert client.raw("GET", "/v1/namespaces/ns/tables").body["identifiers"] == [{"namespace": ["ns"], "name": "t"}]


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/default", "/v1/default/nothing", "/v2/config", "/v1//namespaces"])
def test_a_path_that_leads_nowhere_is_404(client: Client, path: str) -> None:
    assert client.raw("GET", path).status == 404


def test_a_method_that_a_path_has_not_is_405(client: Client) -> None:
    answer = client.raw("PUT", "/v1/config")
    assert (answer.error[:2], answer.headers["allow"]) == ((405, "MethodNotAllowedException"), "GET")


def test_the_server_lives_and_is_ready(client: Client) -> None:
    assert [client.raw("GET", path).body for path in ("/livez", "/readyz")] == [{"status": "ok"}] * 2


def test_a_request_id_comes_back(client: Client) -> None:
    answer = client.raw("GET", "/livez", headers={"X-Request-ID": "abc-1"})
    assert answer.headers["x-request-id"] == "abc-1"
    assert client.raw("GET", "/livez").headers["x-request-id"]
