"""Signs requests to an object store with the server's own keys (AWS Signature Version 4, through botocore).

A signature is worth what the store checks. Three things are asked of it before the first request is signed, with
requests that change nothing: a store that accepts headers which the signature does not cover would copy foreign
objects, one that does not compare a body with its signed hash would delete other objects than those that were checked,
and one that takes another header for the host would open other buckets.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from frazil.catalog.files.access import S3Access
from frazil.catalog.locations import Place
from frazil.catalog.storage.s3_request import bases_of
from frazil.catalog.storage.signing import COPY_SOURCE, EMPTY_SHA256, FORWARDED_HOST, Signable
from frazil.catalog.storage.sts import check_installed
from frazil.errors import ConfigError, NotSigned, Unavailable

if TYPE_CHECKING:
    from frazil.catalog.warehouse import Warehouse, Warehouses

CONNECT_SECONDS, READ_SECONDS = 5, 10
_WRITES = ("PutObject", "UploadPart")  # with a copy source they would be copies


@dataclass(frozen=True, slots=True)
class StoreChecks:
    """What a store verifies about a signed request."""

    headers: bool  # it refuses `x-amz-` headers that are not signed
    bodies: bool  # it compares the body with the signed hash
    empty_host: bool = False  # X-Forwarded-Host can be signed as empty: no proxy on the way fills it


class Signer:
    """Signs requests to the store of one warehouse."""

    def __init__(self, access: S3Access, root: Place, *, unchecked_deletes: bool = False) -> None:
        self.access = access
        self.root = root  # of the warehouse
        self._unchecked_deletes = unchecked_deletes
        self._lock = Lock()
        self._keys: Any = None  # of botocore
        self._checks: StoreChecks | None = None

    def __repr__(self) -> str:
        return f"Signer({self.root.key})"

    def sign(self, request: Signable) -> dict[str, str]:
        """The headers to send with the request: those that are signed, and the signature. Raises NotSigned for a
        request that this store would not hold to.
        """
        self._check_store(request)
        headers = {**request.headers, **({FORWARDED_HOST: ""} if self.checks().empty_host else {})}
        return self.headers_of(request.method, request.url, headers=headers, payload_hash=request.payload_hash)

    def checks(self) -> StoreChecks:
        """What the store verifies; asked once."""
        with self._lock:
            if self._checks is None:
                self._checks = _ask(self)
            return self._checks

    def _check_store(self, request: Signable) -> None:
        if request.operation in _WRITES and not self.checks().headers:
            raise NotSigned("the store accepts headers that are not signed, so that a write could become a copy")
        if request.operation == "DeleteObjects" and not self._unchecked_deletes and not self.checks().bodies:
            raise NotSigned(
                "the store does not compare the body of a batch delete with its signed hash",
                hint="delete files one by one, through the catalog, or set unchecked_batch_deletes for the warehouse",
            )

    def headers_of(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, payload_hash: str = EMPTY_SHA256
    ) -> dict[str, str]:
        """The headers of a request, and its signature. Nothing is checked here."""
        from botocore.awsrequest import AWSRequest

        request = AWSRequest(method, url, headers=dict(headers or {}))
        request.context["payload_hash"] = payload_hash
        _auth()(self._frozen_keys(), "s3", self.access.region).add_auth(request)
        return {"Host": urlsplit(url).netloc, **dict(request.headers.items())}

    def _frozen_keys(self) -> Any:
        """The keys as they are now: those of a role are renewed by botocore before they end."""
        if self._keys is None:
            self._keys = _find_keys(self.access)
        return self._keys.get_frozen_credentials()


class Signers(Mapping[str, Signer]):
    """The signers of all warehouses that sign, by name; one is opened when it is first asked for, and again when its
    warehouse has changed.
    """

    def __init__(self, warehouses: Warehouses) -> None:
        self._warehouses = warehouses
        self._opened: dict[str, tuple[Warehouse, Signer]] = {}
        self._lock = Lock()

    def __contains__(self, name: object) -> bool:
        return name in self._warehouses.signing

    def __iter__(self) -> Iterator[str]:
        return iter(self._warehouses.signing)

    def __len__(self) -> int:
        return len(self._warehouses.signing)

    def __getitem__(self, name: str) -> Signer:
        warehouse = self._warehouses.find(name)
        if warehouse is None or not warehouse.signs:
            raise KeyError(name)
        with self._lock:
            opened = self._opened.get(name)
            if opened is None or opened[0] != warehouse:
                opened = self._opened[name] = (warehouse, _open(warehouse))
            return opened[1]


def _open(warehouse: Warehouse) -> Signer:
    unchecked = warehouse.profile.unchecked_batch_deletes
    return open_signer(warehouse.access, warehouse.place, unchecked_deletes=unchecked)


@cache
def _auth() -> Any:
    from botocore.auth import S3SigV4Auth

    class Auth(S3SigV4Auth):  # type: ignore[misc]  # botocore has no types
        def payload(self, request: Any) -> str:
            return str(request.context["payload_hash"])

    return Auth


def can_sign(endpoint: str | None) -> bool:
    """Whether requests to an endpoint can be signed remotely: with a path of its own, keys would have two meanings.

    >>> can_sign(None), can_sign("http://store:8333/"), can_sign("https://gateway/s3")
    (True, True, False)
    """
    return endpoint is None or not urlsplit(endpoint).path.strip("/")


def open_signer(access: S3Access, root: Place, *, unchecked_deletes: bool = False) -> Signer:
    """The signer of a warehouse. botocore is loaded with the first signature."""
    check_installed()
    if not can_sign(access.endpoint):
        raise ConfigError(
            f"the endpoint {access.endpoint} has a path: requests to it cannot be signed remotely",
            hint="use an endpoint of scheme, host and port",
            option="server.storage",
        )
    return Signer(access, root, unchecked_deletes=unchecked_deletes)


def _find_keys(access: S3Access) -> Any:
    from botocore.credentials import Credentials
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    if access.access_key_id is not None:
        return Credentials(access.access_key_id, access.secret_access_key, access.session_token)
    try:
        keys = Session().get_credentials()
    except BotoCoreError as exc:
        keys, reason = None, type(exc).__name__
    else:
        reason = "none were found"
    if keys is None:
        raise Unavailable(
            f"cannot sign: the server has no keys of the object store ({reason})",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role",
            lasting=True,
            reason=reason,
        )
    return keys


# --- what the store verifies -----------------------------------------------------------------------------------------


def _ask(signer: Signer) -> StoreChecks:
    """Asks the store twice for what changes nothing, as signed and otherwise: only the first may be carried out. AWS is
    known to verify both, and to know no other host.
    """
    if signer.access.endpoint is None:
        return StoreChecks(headers=True, bodies=True)
    root = signer.root
    folder = "/".join(part for part in (root.path.strip("/"), f"frazil-check-{uuid.uuid4().hex[:12]}") if part)
    source = {COPY_SOURCE: f"/{root.bucket}/{folder}/missing"}
    signed, added = (_try_copy(signer, f"{folder}/copy", source, signs=signs) for signs in (True, False))
    same, other = (_try_delete(signer, f"{folder}/missing", signs=signs) for signs in (True, False))
    # Other answers prove nothing: a store may be busy (429, 503) with one of the two.
    return StoreChecks(
        headers=added == 403 and signed in (400, 404),
        bodies=same == 200 and other in (400, 403),
        empty_host=_try_empty_host(signer, folder) != 403,  # if the store is busy, the safe side
    )


def _try_copy(signer: Signer, key: str, source: Mapping[str, str], *, signs: bool) -> int:
    """The status of a copy whose source does not exist, with the source signed or added afterwards."""
    url = url_of(signer.access, signer.root.bucket, key)
    headers = signer.headers_of("PUT", url, headers=source if signs else {})
    return send("PUT", url, {**headers, **source})


def _try_delete(signer: Signer, key: str, *, signs: bool) -> int:
    """The status of a batch delete of what does not exist, with the hash of its body or of another one."""
    url = f"{url_of(signer.access, signer.root.bucket, '')}?delete"
    body = f"<Delete><Object><Key>{key}</Key></Object></Delete>".encode()
    digest = sha256(body if signs else b"another").hexdigest()
    return send("POST", url, signer.headers_of("POST", url, payload_hash=digest), body)


def _try_empty_host(signer: Signer, folder: str) -> int:
    """The status of the listing of a folder that does not exist, with X-Forwarded-Host signed as empty."""
    url = f"{url_of(signer.access, signer.root.bucket, '')}?list-type=2&prefix={quote(f'{folder}/', safe='')}"
    return send("GET", url, signer.headers_of("GET", url, headers={FORWARDED_HOST: ""}))


def send(method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> int:
    """The status that a store answers to a request that is signed."""
    from botocore.awsrequest import AWSRequest
    from botocore.exceptions import BotoCoreError
    from botocore.httpsession import URLLib3Session

    try:
        request = AWSRequest(method, url, headers=dict(headers), data=body).prepare()
        return int(URLLib3Session(timeout=(CONNECT_SECONDS, READ_SECONDS)).send(request).status_code)
    except BotoCoreError as exc:
        reason = type(exc).__name__
        raise Unavailable(f"cannot reach the object store: {reason}", reason=reason) from None


def url_of(access: S3Access, bucket: str, key: str) -> str:
    """The address of an object, or of the bucket, as the server itself reaches it.

    >>> url_of(S3Access("x", "http://store:1", path_style=True), "lake", "a b"), url_of(S3Access("eu"), "lake", "a")
    ('http://store:1/lake/a%20b', 'https://lake.s3.eu.amazonaws.com/a')
    """
    base = max(bases_of(access))  # https, where both are known
    path = f"/{quote(key, safe='/-_.~')}" if key else ""
    if access.path_style:
        return f"{base}/{bucket}{path}"
    return f"{base.replace('://', f'://{bucket}.', 1)}{path or '/'}"
