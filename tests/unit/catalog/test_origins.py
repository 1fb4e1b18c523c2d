"""Which Host, Origin and Content-Type headers a server accepts."""

from __future__ import annotations

import re

import pytest

from frazil.catalog.origins import HostGuard, check_type, local_uri
from frazil.errors import BadRequest, HostRefused, OriginRefused, UnsupportedBody
from tests.kit.raising import raises

LOOPBACK = HostGuard("127.0.0.1")
EVERYWHERE = HostGuard("0.0.0.0", host="0.0.0.0")
NAMED = HostGuard("10.1.2.3", ["catalog.example.org", "*.internal"])
ANY = HostGuard("0.0.0.0", ["*"])


@pytest.mark.parametrize(
    ("guard", "host"),
    [
        *(
            (LOOPBACK, host)
            for host in ("localhost", "LOCALHOST:8181", "localhost.", "127.0.0.1:1", "127.5.5.5", "[::1]:8181")
        ),
        *((EVERYWHERE, host) for host in ("localhost", "10.9.8.7:8181", "[fe80::1]:80", "0.0.0.0:8181")),
        *(
            (NAMED, host)
            for host in ("10.1.2.3", "catalog.example.org", "Catalog.Example.org:443", "a.b.internal", "localhost")
        ),
        (ANY, "attacker.example"),
    ],
)
def test_a_server_answers_to_its_names(guard: HostGuard, host: str) -> None:
    for _ in range(2):  # the second time from memory
        guard.check({b"host": host.encode()})


@pytest.mark.parametrize(
    ("guard", "host"),
    [
        *(
            (LOOPBACK, host)
            for host in ("attacker.example", "localhost.attacker.example", "10.1.2.3", "127.0.0.1.nip.io", "2130706433")
        ),
        *((EVERYWHERE, host) for host in ("attacker.example:8181", "catalog", "10.1.2.3.nip.io")),
        *(
            (NAMED, host)
            for host in ("example.org", "internal", "xinternal", "10.1.2.4", "catalog.example.org.attacker.example")
        ),
    ],
)
def test_a_server_does_not_answer_to_other_names(guard: HostGuard, host: str) -> None:
    with raises(HostRefused, host=host, hint=re.compile("--allowed-host")):
        guard.check({b"host": host.encode()})


@pytest.mark.parametrize(
    "host", ["", "a b", "a/b", "user@localhost", "localhost:port", "[::1", "localhost:8181:1", "\xff\x00"]
)
def test_a_host_that_is_none_is_malformed(host: str) -> None:
    with pytest.raises(BadRequest):
        ANY.check({b"host": host.encode("latin-1")})


def test_a_request_without_host_is_for_http_one_point_zero_only() -> None:
    LOOPBACK.check({}, version="1.0")
    with pytest.raises(BadRequest):
        LOOPBACK.check({}, version="1.1")


@pytest.mark.parametrize(
    ("guard", "host", "origin"),
    [
        (LOOPBACK, "localhost:8181", "http://localhost:8181"),
        (NAMED, "10.1.2.3:8181", "https://catalog.example.org"),
        (NAMED, "10.1.2.3:8181", "https://console.internal:8443"),
        (ANY, "localhost", "https://attacker.example"),
    ],
)
def test_pages_of_the_server_may_ask(guard: HostGuard, host: str, origin: str) -> None:
    guard.check({b"host": host.encode(), b"origin": origin.encode()})


@pytest.mark.parametrize(
    "origin",
    [
        "http://attacker.example",
        "null",
        "http://localhost:3000",
        "file://",
        "http://127.0.0.1:8181",
        "chrome-extension://localhost:8181",
    ],
)
def test_pages_of_others_may_not(origin: str) -> None:
    with pytest.raises(OriginRefused):
        LOOPBACK.check({b"host": b"localhost:8181", b"origin": origin.encode()})


@pytest.mark.parametrize("origin", ["http://127.0.0.1:9999", "http://127.0.0.1", "http://catalog.local:3000"])
def test_pages_of_another_port_of_the_servers_own_address_may_not(origin: str) -> None:
    guard = HostGuard("127.0.0.1", host="catalog.local")
    guard.check({b"host": b"catalog.local:8181", b"origin": b"http://catalog.local:8181"})
    with pytest.raises(OriginRefused):
        guard.check({b"host": b"127.0.0.1:8181", b"origin": origin.encode()})


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json", "application/jsonp"],
)
def test_a_body_must_be_json_by_its_own_account(kind: str) -> None:
    with pytest.raises(UnsupportedBody):
        check_type({b"content-type": kind.encode()} if kind else {})


@pytest.mark.parametrize(
    ("guard", "host", "uri"),
    [
        (EVERYWHERE, "10.9.8.7:443", "https://10.0.0.5:8181"),  # any address passes: the caller has chosen it
        (EVERYWHERE, "[fe80::1]", "https://10.0.0.5:8181"),
        (EVERYWHERE, "localhost:1", "https://localhost:8181"),
        (NAMED, "Catalog.Example.org:443", "https://catalog.example.org:8181"),
        (NAMED, "a.b.internal", "https://a.b.internal:8181"),
        (NAMED, "127.9.9.9", "https://10.0.0.5:8181"),
        (ANY, "attacker.example", "https://10.0.0.5:8181"),
    ],
)
def test_a_process_of_the_server_connects_to_no_address_that_a_caller_has_chosen(
    guard: HostGuard, host: str, uri: str
) -> None:
    guard.check({b"host": host.encode()})
    assert local_uri(("10.0.0.5", 8181), guard.own_name(host), tls=True) == uri
