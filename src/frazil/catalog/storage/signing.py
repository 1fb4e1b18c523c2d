"""Which requests to the object store are signed for a table: a list of what is allowed; everything else is refused.
Pure.

The list has what Iceberg clients send: objects are read, written, also in parts, copied, deleted and listed. A request
must lie in the table's own folders with all that it names: its path, the source of a copy, the prefix of a listing, and
each key in the body of a batch delete.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from frazil.catalog.files.access import S3Access
from frazil.catalog.locations import Place
from frazil.catalog.storage.batch_delete import keys_of_delete
from frazil.catalog.storage.policy import Rights
from frazil.catalog.storage.s3_request import (
    Described,
    S3Request,
    check_key,
    decode_copy_source,
    parse_request,
)
from frazil.errors import NotSigned

EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
UNSIGNED_PAYLOAD, STREAMED_PAYLOAD = "UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
COPY_SOURCE, CONTENT_SHA256 = "x-amz-copy-source", "x-amz-content-sha256"
# SeaweedFS (4.48) puts the value of this header, signed or not, before the path when it checks a signature: a signature
# for `/bucket/own/bucket/foreign` would open `/bucket/foreign`. Signed as empty, it cannot be filled.
FORWARDED_PREFIX = "x-forwarded-prefix"
# Likewise this one takes the place of Host: a signature for one bucket would open another one, if the bucket is in the
# host. Proxies fill it, so it is signed as empty only where it arrives so (`Signer.checks`).
FORWARDED_HOST = "x-forwarded-host"
_SHA256 = re.compile(r"[0-9a-f]{64}")

# They say nothing that a store acts on, and programs on the way change them.
_NOT_SIGNED = frozenset(
    (
        *("accept", "accept-encoding", "accept-language", "connection", "expect", "user-agent"),
        *("amz-sdk-invocation-id", "amz-sdk-request", "amz-sdk-retry"),
        *("x-amzn-trace-id", "traceparent", "tracestate", "baggage"),
    )
)
_COMMON = frozenset(
    ("host", "content-type", "content-length", CONTENT_SHA256, "x-amz-user-agent", "x-amz-expected-bucket-owner")
)
_CONDITIONS = frozenset(("if-match", "if-none-match", "if-modified-since", "if-unmodified-since"))
_READS = _CONDITIONS | {"range", "x-amz-checksum-mode", "x-amz-te"}
_CHECKSUMS = frozenset(
    (
        *("content-md5", "x-amz-sdk-checksum-algorithm", "x-amz-checksum-algorithm", "x-amz-checksum-type"),
        *(f"x-amz-checksum-{name}" for name in ("crc32", "crc32c", "crc64nvme", "sha1", "sha256")),
    )
)
_WRITES = _CHECKSUMS | _CONDITIONS | {"content-encoding", "x-amz-decoded-content-length", "x-amz-trailer"}
_COPIES = frozenset(
    (
        *(COPY_SOURCE, "x-amz-copy-source-range", "x-amz-metadata-directive"),
        *(f"x-amz-copy-source-{condition}" for condition in _CONDITIONS),
    )
)
_KINDS = frozenset(("x-amz-storage-class",))
# Query parameters that make another operation of the same method and path.
_MARKS = frozenset(("uploads", "uploadId", "partNumber", "delete", "list-type"))


@dataclass(frozen=True, slots=True)
class _Operation:
    name: str  # as S3 calls it
    method: str
    rights: Rights
    on_bucket: bool = False
    marks: frozenset[str] = frozenset()  # query parameters that it has
    optional: frozenset[str] = frozenset()  # that it may have
    headers: frozenset[str] = frozenset()
    copies: bool = False
    has_body: bool = False


_READ, _WRITE, _DELETE = Rights.READ, Rights.WRITE, Rights.DELETE
_PART = frozenset(("uploadId", "partNumber"))
_LISTING = ("delimiter", "continuation-token", "encoding-type", "fetch-owner", "max-keys", "start-after")
OPERATIONS = (
    _Operation("GetObject", "GET", _READ, headers=_READS),
    _Operation("HeadObject", "HEAD", _READ, headers=_READS),
    _Operation("PutObject", "PUT", _WRITE, headers=_WRITES | _KINDS, has_body=True),
    _Operation("CopyObject", "PUT", _READ | _WRITE, headers=_COPIES | _CHECKSUMS | _CONDITIONS | _KINDS, copies=True),
    _Operation("CreateMultipartUpload", "POST", _WRITE, marks=frozenset(("uploads",)), headers=_CHECKSUMS | _KINDS),
    _Operation("UploadPart", "PUT", _WRITE, marks=_PART, headers=_WRITES, has_body=True),
    _Operation("UploadPartCopy", "PUT", _READ | _WRITE, marks=_PART, headers=_COPIES, copies=True),
    _Operation(
        "CompleteMultipartUpload",
        "POST",
        _WRITE,
        marks=frozenset(("uploadId",)),
        headers=_CHECKSUMS | _CONDITIONS | {"x-amz-mp-object-size"},
        has_body=True,
    ),
    _Operation("AbortMultipartUpload", "DELETE", _WRITE, marks=frozenset(("uploadId",))),
    _Operation(
        "ListParts",
        "GET",
        _WRITE,
        marks=frozenset(("uploadId",)),
        optional=frozenset(("max-parts", "part-number-marker")),
    ),
    _Operation("DeleteObject", "DELETE", _DELETE, headers=frozenset(("if-match",))),
    _Operation(
        "ListObjectsV2",
        "GET",
        _READ,
        on_bucket=True,
        marks=frozenset(("list-type",)),
        optional=frozenset(("prefix", *_LISTING)),
    ),
    _Operation(
        "DeleteObjects",
        "POST",
        _DELETE,
        on_bucket=True,
        marks=frozenset(("delete",)),
        headers=_CHECKSUMS,
        has_body=True,
    ),
)
_VALUES = {
    "list-type": re.compile("2"),
    "delimiter": re.compile("/?"),
    "encoding-type": re.compile("url"),
    "fetch-owner": re.compile("true|false"),
    "max-keys": re.compile("[0-9]{1,5}"),
    "max-parts": re.compile("[0-9]{1,5}"),
    "part-number-marker": re.compile("[0-9]{1,5}"),
    "partNumber": re.compile("[0-9]{1,5}"),
    # Without `/` and `..`: some stores take it for the name of a folder, as SeaweedFS did until 2026.
    "uploadId": re.compile(r"(?!.*\.\.)[A-Za-z0-9._~=+-]{1,1024}"),
    "uploads": re.compile(""),
    "delete": re.compile(""),
    "continuation-token": re.compile(r"[^\x00-\x1f\x7f]{1,2048}"),
    "x-id": re.compile("|".join(operation.name for operation in OPERATIONS)),
    # of headers
    "x-amz-storage-class": re.compile("[A-Z_]{1,40}"),
    "x-amz-metadata-directive": re.compile("COPY|REPLACE"),
    "content-encoding": re.compile("aws-chunked"),
    "x-amz-te": re.compile("append-md5"),
}


@dataclass(frozen=True, slots=True)
class Signable:
    """A request that may be signed."""

    operation: str
    method: str
    url: str
    headers: Mapping[str, str]  # all of them are signed
    payload_hash: str


def decide(wanted: Described, places: Collection[Place], rights: Rights, store: S3Access) -> Signable:
    """What is signed for a caller with these rights on a table with these folders; raises NotSigned."""
    request = parse_request(wanted, store, {place.bucket for place in places})
    operation = _operation_of(request)
    if rights & operation.rights != operation.rights:
        raise NotSigned(f"{operation.name} needs a privilege that the caller lacks")
    _check_values(operation, request)
    _check_names(operation, request, places, wanted.body)
    payload_hash = _payload_hash(operation, request, wanted.body)
    headers = {name: value for name, value in request.headers.items() if name not in _NOT_SIGNED | {"host"}}
    if store.endpoint is not None:
        headers[FORWARDED_PREFIX] = ""
    return Signable(operation.name, request.method, request.url(), headers, payload_hash)


def _operation_of(request: S3Request) -> _Operation:
    marks, copies = _MARKS & request.query.keys(), COPY_SOURCE in request.headers
    wanted = (request.method, not request.key, marks, copies)
    for operation in OPERATIONS:
        if (operation.method, operation.on_bucket, operation.marks, operation.copies) == wanted:
            return operation
    what = "the bucket" if not request.key else "an object"
    raise NotSigned(f"{request.method[:10]!r} of {what} with these query parameters is not allowed")


def _check_values(operation: _Operation, request: S3Request) -> None:
    known = operation.marks | operation.optional | {"x-id"}
    if unknown := next((name for name in request.query if name not in known), None):
        raise NotSigned(f"{operation.name} with the query parameter {unknown[:60]!r} is not allowed")
    allowed = _COMMON | _NOT_SIGNED | operation.headers
    if unknown := next((name for name in request.headers if name not in allowed), None):
        raise NotSigned(f"{operation.name} with the header {unknown[:60]!r} is not allowed")
    for name, value in (*request.query.items(), *request.headers.items()):
        if name in _VALUES and not _VALUES[name].fullmatch(value):
            raise NotSigned(f"{operation.name} with {name} = {value[:60]!r} is not allowed")


def _check_names(operation: _Operation, request: S3Request, places: Collection[Place], body: str | None) -> None:
    """Passes when everything that the request names lies in the places."""
    if not operation.on_bucket:
        check_key(request.bucket, request.key, places)
    if operation.copies:
        check_key(*decode_copy_source(request.headers[COPY_SOURCE]), places)
    if operation.name == "ListObjectsV2":
        check_key(request.bucket, request.query.get("prefix", ""), places, is_prefix=True)
        if "start-after" in request.query:
            check_key(request.bucket, request.query["start-after"], places, is_prefix=True)
    if operation.name == "DeleteObjects":
        if body is None:
            raise NotSigned("a batch delete is signed with its body only")
        for key in keys_of_delete(body):
            check_key(request.bucket, key, places)


def _payload_hash(operation: _Operation, request: S3Request, body: str | None) -> str:
    """What the signature says about the body. That of a batch delete is bound by SHA-256: of MD5 and CRC32 one can make
    two bodies with the same value.
    """
    declared = request.headers.get(CONTENT_SHA256)
    if operation.name == "DeleteObjects":
        expected = hashlib.sha256((body or "").encode()).hexdigest()
        if declared not in (None, expected):
            raise NotSigned(f"{CONTENT_SHA256} is not the hash of the body")
        return expected
    if not operation.has_body:
        if declared not in (None, EMPTY_SHA256, UNSIGNED_PAYLOAD):
            raise NotSigned(f"{CONTENT_SHA256} is not that of an empty body")
        return declared or EMPTY_SHA256
    if declared is None or declared in (UNSIGNED_PAYLOAD, STREAMED_PAYLOAD) or _SHA256.fullmatch(declared):
        return declared or UNSIGNED_PAYLOAD
    raise NotSigned(f"{CONTENT_SHA256} = {declared[:60]!r} is not supported")
