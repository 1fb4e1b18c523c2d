"""Quick reads that a caller has made before and may make again, by the bytes of the request: their route, their
variables and what they need.

A load of a small table takes a few dozen microseconds. To find its route, its warehouse and the gate's decision one by
one is a fifth of that; here it is one lookup.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from frazil.catalog.access.privileges import Need
from frazil.catalog.http import Request
from frazil.catalog.routing import Route

if TYPE_CHECKING:
    from frazil.catalog.access.gate import Gate

MOST_READS, MOST_URL_BYTES = 20_000, 512


class _Read(NamedTuple):
    """A read that was allowed at one version of keys, roles and grants."""

    route: Route
    variables: dict[str, str]
    needs: Sequence[Need]
    version: int


class AdmittedReads:
    """What one server process remembers, by a hash of the caller's token, method and URL."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._reads: dict[tuple[bytes, str, bytes], _Read] = {}

    def admit(self, request: Request, url: bytes) -> Route | None:
        """The route of a read that is allowed by what is remembered; the operation confirms it (`Gate.confirm`). None
        if nothing is remembered: then the request is as it was.
        """
        if not self._gate.recognise(request):
            return None
        read = self._reads.get((request.fingerprint_of_key, request.method, url))
        if read is None or read.version != request.access_version:
            request.caller, request.expires_ms, request.assumed = None, None, False
            return None
        request.operation, request.warehouse = read.route.operation, read.variables["prefix"]
        request.variables, request.needs, request.authorised = read.variables, read.needs, True
        return read.route

    def keep(self, request: Request, route: Route, url: bytes) -> None:
        """Remembers a read that the gate allows by what it remembers itself. Only with a warehouse that is named by its
        name: where a path names none, or a location, it may be another one later.
        """
        if len(url) > MOST_URL_BYTES or request.warehouse != request.variables.get("prefix"):
            return
        if len(self._reads) >= MOST_READS:
            self._reads = {}
        read = _Read(route, request.variables, request.needs, request.access_version)
        self._reads[request.fingerprint_of_key, request.method, url] = read
