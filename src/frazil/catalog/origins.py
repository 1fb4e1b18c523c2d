"""Keeps web pages away from the catalog: checks the Host, Origin and Content-Type headers of a request.

A page of any site can make a browser send requests to a server on the same machine or network. Three rules stop it:

- Host must name this server, so that a name that an attacker points to it (DNS rebinding) does not work;
- Origin, which browsers send, must be this server;
- a body must be `application/json`, which a page cannot send to another origin without permission.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from frazil.errors import BadRequest, HostRefused, OriginRefused, UnsupportedBody

LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")
MOST_REMEMBERED = 256  # spellings of the Host header
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\x00-\x20\x7f-\uffff:\[\]/@]+)(?::[0-9]{1,5})?")

Headers = dict[bytes, bytes]


class HostGuard:
    """The names of one server.

    `bound` is the address that it listens on: one that stands for all addresses (0.0.0.0, ::) accepts every IP address
    as Host, since only names can be pointed elsewhere; `host` is the name that it was given for it. `allowed` are the
    operator's names: exact, `*.example.org` for all names below, `*` for any.
    """

    def __init__(self, bound: str = "127.0.0.1", allowed: Iterable[str] = (), *, host: str = "") -> None:
        self._bound = bound.strip("[]").lower()
        self._own = (*LOOPBACK_NAMES, self._bound, host.strip("[]").lower())
        names = [name.strip("[]").lower() for name in allowed if name]
        self._any = "*" in names
        self._names = frozenset(name for name in names if not name.startswith("*"))
        self._suffixes = tuple(name[1:] for name in names if name.startswith("*."))
        self._known: set[bytes] = set()  # spellings that passed: the check of a request is one look here

    def check(self, headers: Headers, *, version: str = "1.1") -> None:
        """Passes when the request may be answered; `headers` have lower-case names."""
        host = headers.get(b"host")
        if host not in self._known:
            self._check_host(host, version)
        if b"origin" in headers:
            self._check_origin(headers[b"origin"], host)

    def _check_host(self, host: bytes | None, version: str) -> None:
        if host is None:
            if version == "1.0":
                return  # no browser speaks 1.0; health checks of proxies do, without a Host
            raise BadRequest("The request has no Host header")
        text = host.decode("latin-1").strip()
        name = host_name(text)
        if name is None:
            raise BadRequest(f"Invalid Host header {text[:100]!r}: expected a name or address, and a port")
        if not self._is_ours(name):
            raise HostRefused(text)
        if len(self._known) < MOST_REMEMBERED:
            self._known.add(host)

    def _is_ours(self, name: str) -> bool:
        if self._any or name in self._own or self._is_allowed(name):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or self._bound in ("0.0.0.0", "::", "")  # noqa: S104  # compared, not bound

    def _is_allowed(self, name: str) -> bool:
        return name in self._names or name.endswith(self._suffixes)

    def own_name(self, host: str) -> str | None:
        """The name in a Host header, if it is one that the operator has given to this server: no address that only
        passes since the server listens on all of them, and no name that only passes since any does.

        >>> guard = HostGuard("0.0.0.0", ["lake.example.org", "*"])
        >>> guard.own_name("lake.example.org:9"), guard.own_name("10.9.8.7"), guard.own_name("else.where")
        ('lake.example.org', None, None)
        """
        name = host_name(host)
        return name if name is not None and (name in self._own or self._is_allowed(name)) else None

    def _check_origin(self, origin: bytes, host: bytes | None) -> None:
        text = origin.decode("latin-1").strip()
        scheme, _, place = text.partition("://")
        own = host.decode("latin-1").strip().lower() if host is not None else ""
        if scheme in ("http", "https") and place.lower() == own:
            return
        name = host_name(place)
        if scheme not in ("http", "https") or name is None or not (self._any or self._is_allowed(name)):
            raise OriginRefused(text)


def host_name(text: str) -> str | None:
    """The name or address in a Host header, without the port; None when it is malformed.

    >>> host_name("LocalHost:8181"), host_name("[::1]:80"), host_name("a b"), host_name("localhost.")
    ('localhost', '::1', None, 'localhost')
    """
    match = _HOST.fullmatch(text)
    return match[1].strip("[]").rstrip(".").lower() if match else None


def local_uri(served_at: tuple[str, int], own_name: str | None, *, tls: bool) -> str:
    """Where a process of this machine reaches this server: at the address that a request came to; with TLS by the
    server's own name in the request, if it has one, for certificates hold names.

    >>> local_uri(("127.0.0.1", 8181), "localhost", tls=False), local_uri(("::1", 8181), None, tls=False)
    ('http://127.0.0.1:8181', 'http://[::1]:8181')
    >>> local_uri(("10.0.0.5", 8181), "lake.example.org", tls=True), local_uri(("10.0.0.5", 8181), None, tls=True)
    ('https://lake.example.org:8181', 'https://10.0.0.5:8181')
    """
    address, port = served_at
    name = (own_name or address) if tls else address
    return f"{'https' if tls else 'http'}://{f'[{name}]' if ':' in name else name}:{port}"


def client_address(peer: str, headers: Headers) -> str:
    """The address of the client as the proxy in front says it: the last hop, which the proxy itself has added. What
    stands before it is written by the client.

    >>> client_address("10.0.0.1", {b"x-forwarded-for": b"6.6.6.6, 192.0.2.7"}), client_address("10.0.0.1", {})
    ('192.0.2.7', '10.0.0.1')
    """
    hop = headers.get(b"x-forwarded-for", b"").rpartition(b",")[2].strip().decode("latin-1")
    try:
        return str(ipaddress.ip_address(hop))
    except ValueError:
        return peer


def check_type(headers: Headers, expected: bytes = b"application/json") -> None:
    """Passes when a body is JSON, or what else is expected, by its own account.

    >>> check_type({b"content-type": b"Application/JSON; charset=utf-8"})
    """
    kind = headers.get(b"content-type", b"").split(b";", 1)[0].strip().lower()
    if kind != expected:
        content_type = kind.decode("latin-1")[:100]
        raise UnsupportedBody(
            f"The Content-Type must be {expected.decode()}, got {content_type!r}"
            if content_type
            else "The Content-Type is missing"
        )
