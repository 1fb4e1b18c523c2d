"""Proves on the real store that signed requests work inside a folder and fail outside, and that a signature is good for
nothing but its request.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from frazil.catalog.files.s3 import S3Files
from frazil.catalog.locations import Place
from frazil.catalog.storage.check import ALLOWED, DENIED, Attempt
from frazil.catalog.storage.policy import Rights
from frazil.catalog.storage.s3_request import Described
from frazil.catalog.storage.signer import Signer, send, url_of
from frazil.catalog.storage.signing import COPY_SOURCE, FORWARDED_HOST, FORWARDED_PREFIX, decide
from frazil.errors import NotSigned

_OBJECTS, _WRITTEN = ("own/a", "own2/a", "other/a"), ("own/new", "own/copy")


@dataclass(frozen=True)
class SigningOutcome:
    """All attempts in one warehouse."""

    attempts: tuple[Attempt, ...]
    batch_deletes: bool  # the store holds them to the body that was signed, so they are signed

    @property
    def passed(self) -> bool:
        return all(attempt.passed for attempt in self.attempts)


def check_signing(signer: Signer) -> SigningOutcome:
    """What is signed for a new folder below the root, and what the store then does."""
    root = signer.root
    folder = "/".join(part for part in (root.path.strip("/"), f"frazil-check-{uuid.uuid4().hex[:12]}") if part)
    own = S3Files(signer.access)
    places = {name: Place("s3", root.bucket, f"{folder}/{name}") for name in (*_OBJECTS, *_WRITTEN)}
    try:
        for name in _OBJECTS:
            own.write_new(places[name], b"written by frazil warehouse check")
        return SigningOutcome(tuple(_Check(signer, folder).attempts()), signer.checks().bodies)
    finally:
        for place in places.values():
            own.delete(place)


@dataclass(frozen=True)
class _Check:
    signer: Signer
    folder: str

    def attempts(self) -> Iterator[Attempt]:
        """One by one. What the server does not sign counts as denied."""
        source, target = {COPY_SOURCE: self._path("own/a")}, "own/copy"
        foreign = {COPY_SOURCE: self._path("other/a")}
        yield Attempt("sign: get a file of the table", ALLOWED, self._try("GET", "own/a"))
        yield Attempt("sign: put a file into the table", ALLOWED, self._try("PUT", "own/new"))
        yield Attempt("sign: list the table's folder", ALLOWED, self._list("own/"))
        yield Attempt("sign: copy a file of the table", ALLOWED, self._try("PUT", target, headers=source))
        yield Attempt("sign: get a file of a table whose name starts alike", DENIED, self._try("GET", "own2/a"))
        yield Attempt("sign: get a file of another table by '..'", DENIED, self._try("GET", "own/../other/a"))
        yield Attempt("sign: list the folder above", DENIED, self._list(""))
        yield Attempt("sign: copy a file of another table", DENIED, self._try("PUT", target, headers=foreign))
        yield Attempt("replay: delete with the signature of a get", DENIED, self._try("GET", "own/a", sent="DELETE"))
        yield Attempt("replay: add the source of a copy to a put", DENIED, self._try("PUT", target, added=foreign))
        if self.signer.access.path_style:
            yield Attempt("replay: move a request with X-Forwarded-Prefix", DENIED, self._move())
        if self.signer.access.endpoint is not None:
            yield Attempt("replay: send a request to another host with X-Forwarded-Host", DENIED, self._change_host())
        yield Attempt("sign: delete a file of the table", ALLOWED, self._try("DELETE", "own/new"))

    def _try(
        self,
        method: str,
        name: str,
        *,
        headers: dict[str, str] | None = None,
        added: dict[str, str] | None = None,
        sent: str | None = None,
    ) -> str:
        return self._send(method, self._url(name), headers=headers, added=added, sent=sent)

    def _list(self, prefix: str) -> str:
        query = f"?list-type=2&prefix={quote(f'{self.folder}/{prefix}', safe='')}"
        return self._send("GET", url_of(self.signer.access, self.signer.root.bucket, "") + query)

    def _move(self) -> str:
        inside = self._url(f"own{self._path('other/a')}")
        return self._send("GET", inside, added={FORWARDED_PREFIX: self._path("own")}, url=self._url("other/a"))

    def _change_host(self) -> str:
        url = self._url("own/a")
        host = urlsplit(url).netloc
        got = self._send("GET", url, added={"Host": f"frazil-check.{host}", FORWARDED_HOST: host})
        return DENIED if got.startswith("status 4") else got  # a proxy may know no such host

    def _send(
        self,
        method: str,
        uri: str,
        *,
        headers: dict[str, str] | None = None,
        added: dict[str, str] | None = None,
        sent: str | None = None,
        url: str | None = None,
    ) -> str:
        """What comes of a request that is signed as the first three say, and sent with what the others change."""
        access = self.signer.access
        wanted = Described(method, access.region, uri, {name: [value] for name, value in (headers or {}).items()})
        try:
            own = Place("s3", self.signer.root.bucket, f"{self.folder}/own")
            signable = decide(wanted, [own], Rights.ALL, access)
            signed = self.signer.sign(signable)
        except NotSigned:
            return DENIED
        status = send(sent or method, url or signable.url, {**signed, **(added or {})})
        return ALLOWED if status < 300 else DENIED if status == 403 else f"status {status}"

    def _url(self, name: str) -> str:
        return url_of(self.signer.access, self.signer.root.bucket, f"{self.folder}/{name}")

    def _path(self, name: str) -> str:
        return f"/{self.signer.root.bucket}/{self.folder}/{name}"
