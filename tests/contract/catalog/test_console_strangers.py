"""Pages of other sites, names that lead to this machine, and odd requests, against every route of the console: with
authentication off, where a request's headers are all that tells a page from a program. Each new route is asked by
itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests

from frazil.catalog import running_catalog
from frazil.catalog.embedded import EmbeddedCatalog
from frazil.catalog.routing import Route
from frazil.console import ROUTES
from tests.contract.catalog.test_access_console import DATA, NAMES, OTHER_SITES, name_of
from tests.kit.catalog_databases import Client

HOSTS = ("evil.test", "evil.test:8181", "localhost.evil.test", "192.0.2.1")
# what a form of another site can send without permission, and a body without a type
FORMS = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "")
WRONG_BODIES = (b"", b"null", b"[]", b"1", b'"x"', b"{", b"\xff", b'{"a": NaN}', b"[" * 100_000, b'{"a":' * 1_000)
# instead of a name in the path: decoded, they are paths, control characters, or too long
ODD_NAMES = ("..", ".", "%2e%2e", "..%2F..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd", "a%00b", "%1F", "a%1F", "%0D%0Ax")
LONG_NAMES = ("x" * 3_000, "%F0%9F%92%A9" * 300)
ODD_VALUES = ("-1", "1e9", "9" * 40, "..%2F..%2Fetc%2Fpasswd", "%00", "%1F", "%27%20OR%201=1--", "true", "x" * 3_000)
CHANGES = [route for route in DATA if route.method == "POST"]
PARAMETERS = ("snapshot", "limit", "after", "before", "from", "to", "id", "since", "until", "offset", "path", "file")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCatalog]:
    """A catalog with the console and one table, as `frazil serve` runs it without options."""
    with running_catalog(tmp_path_factory.mktemp("open"), routes_of=["frazil.console"]) as running:
        Client(running.uri).create(NAMES["table"], NAMES["namespace"])
        yield running


def ask(
    server: EmbeddedCatalog, route: Route, *, query: str = "", body: bytes | None = None, **more: str
) -> requests.Response:
    """The answer of a route about names of which some are given here, encoded; other keywords are headers."""
    names = {name: more.pop(name, value) for name, value in NAMES.items()} | {"file": more.pop("file", "index.html")}
    path = "/".join(names.get(part[1:-1], part) if part[:1] == "{" else part for part in route.template.split("/"))
    headers = {"content-type": "application/json"} | {key.replace("_", "-"): value for key, value in more.items()}
    request = requests.Request(route.method, server.uri, headers={key: text for key, text in headers.items() if text})
    prepared = request.prepare()
    prepared.url = f"{server.uri}{path}{query}"  # as it is: a client would take `..` out of the path
    prepared.prepare_body(body, None)
    with requests.Session() as session:
        return session.send(prepared, timeout=60, allow_redirects=False)


@pytest.mark.parametrize("route", ROUTES, ids=name_of)
def test_a_name_that_someone_else_points_here_reaches_nothing(server: EmbeddedCatalog, route: Route) -> None:
    assert [ask(server, route, host=host).status_code for host in HOSTS] == [403] * len(HOSTS)


@pytest.mark.parametrize("route", DATA, ids=name_of)
def test_a_page_of_another_site_is_refused(server: EmbeddedCatalog, route: Route) -> None:
    valid = b"{}" if route.method != "GET" else None
    for name, value in (*OTHER_SITES, ("Origin", "null"), ("Origin", "http://localhost:3000")):
        answer = ask(server, route, body=valid, **{name: value})
        assert (answer.status_code, "access-control-allow-origin" in answer.headers) == (403, False), (name, value)


def test_a_form_of_another_site_is_no_request(server: EmbeddedCatalog) -> None:
    """A page may send a form to any address; routes that take a body take JSON, which it may not."""
    for route in CHANGES:
        for kind in FORMS:
            answer = ask(server, route, body=b'{"a": 1}', content_type=kind)
            assert answer.status_code == 415, (route.operation, kind)


def test_a_malformed_body_is_no_server_error(server: EmbeddedCatalog) -> None:
    for route in CHANGES:
        for body in WRONG_BODIES:
            answer = ask(server, route, body=body)
            assert answer.status_code < 500, (route.operation, body[:40], answer.text[:300])


@pytest.mark.parametrize("route", [route for route in DATA if "{" in route.template], ids=name_of)
def test_an_odd_name_leads_to_no_file(server: EmbeddedCatalog, route: Route) -> None:
    body = b"{}" if route.method == "POST" else None
    for name in (part[1:-1] for part in route.template.split("/") if part[:1] == "{"):
        for odd in (*ODD_NAMES, *LONG_NAMES):
            answer = ask(server, route, body=body, **{name: odd})
            assert answer.status_code < 500, (route.operation, name, odd[:40], answer.text[:300])
            assert str(server.folder) not in answer.text
            assert "root:" not in answer.text


@pytest.mark.parametrize("route", [route for route in DATA if route.method == "GET"], ids=name_of)
def test_an_odd_query_is_no_server_error(server: EmbeddedCatalog, route: Route) -> None:
    for value in ODD_VALUES:
        query = "?" + "&".join(f"{name}={value}" for name in PARAMETERS)
        assert ask(server, route, query=query).status_code < 500, (route.operation, value[:40])
    assert ask(server, route, query="?%ff=%ff").status_code < 500
