"""A request to the object store as a client describes it to be signed: one meaning, or a refusal. Pure.

Stores differ in how they read a path: some clean `..` and `//`, some decode twice, some take the first of two query
parameters. What could be read in two ways is refused before anything is compared. The request is then written once more
from its decoded parts, and that is what is signed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes, urlsplit

from frazil.catalog.files.access import S3Access
from frazil.catalog.locations import MAX_KEY_BYTES, Place
from frazil.errors import NotSigned

MAX_URI = 8192  # characters
MAX_HEADERS = 64
DECODED_AT_MOST = 5  # times that a key is decoded to see whether it stays what it is
_URI = re.compile(
    r"(https?)://([A-Za-z0-9._:\[\]-]+)(/[A-Za-z0-9._~!$&'()*,;=:@%/-]*)?(?:\?([A-Za-z0-9._~!$'()*,:@%/?=&-]*))?",
    re.ASCII,
)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ENCODED_SEPARATOR = re.compile(r"%(2f|5c|00)", re.IGNORECASE)
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\\\\]")
_SEPARATORS = re.compile(r"[/\\]")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}", re.ASCII)
_HEADER_VALUE = re.compile(r"[\x20-\x7e]{0,4096}")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_UNRESERVED = "-_.~"


@dataclass(frozen=True, slots=True)
class Described:
    """The request that a client wants to have signed, in its own words."""

    method: str
    region: str
    uri: str
    headers: Mapping[str, list[str]]
    body: str | None = None


@dataclass(frozen=True, slots=True)
class S3Request:
    """The same, understood."""

    method: str
    base: str  # scheme and host, with the bucket if that is where the client has it
    path: str  # decoded
    bucket: str
    key: str  # empty for the bucket itself
    query: Mapping[str, str]
    headers: Mapping[str, str]  # names in lower case

    def url(self) -> str:
        """The address that is signed. A query parameter without a value is written without `=`, as S3 writes it."""
        query = "&".join(f"{_encode(name)}={_encode(value)}" if value else name for name, value in self.query.items())
        path = quote(self.path, safe="/" + _UNRESERVED)
        return f"{self.base}{path}?{query}" if query else f"{self.base}{path}"


def parse_request(wanted: Described, store: S3Access, buckets: Collection[str]) -> S3Request:
    """The request, if it is one to this store and can be read in one way only; raises NotSigned."""
    if wanted.region != store.region:
        raise NotSigned(f"the region is {store.region}, got {wanted.region[:40]!r}")
    match = _URI.fullmatch(wanted.uri) if len(wanted.uri) <= MAX_URI else None
    if match is None:
        raise NotSigned("the URI has characters that must be encoded, or is too long")
    scheme, authority, raw_path, raw_query = match[1], match[2], match[3] or "/", match[4]
    base = f"{scheme}://{_without_default_port(scheme, authority)}"
    path = _decode(raw_path, "path")
    if _ENCODED_SEPARATOR.search(raw_path):
        raise NotSigned("the path has an encoded separator")
    bucket, key = _split(base, path, store, buckets)
    headers = _parse_headers(wanted.headers)
    if "host" in headers and f"{scheme}://{_without_default_port(scheme, headers['host'])}" != base:
        raise NotSigned("the header Host is not the host of the URI")
    query = {} if raw_query is None else _parse_query(raw_query)
    return S3Request(wanted.method, base, path, bucket, key, query, headers)


def _split(base: str, path: str, store: S3Access, buckets: Collection[str]) -> tuple[str, str]:
    """The bucket and the key. A store that expects the bucket in the path reads a path as such whatever the host says:
    only the form that the store expects is accepted. AWS takes both.
    """
    bases = bases_of(store)
    if base in bases and (store.path_style or store.endpoint is None):
        bucket, _, key = path[1:].partition("/")
        return bucket, key
    if not store.path_style:
        for bucket in buckets:
            if base in {known.replace("://", f"://{bucket.lower()}.", 1) for known in bases}:
                return bucket, path[1:]
    raise NotSigned("the host is not that of the warehouse's object store, in the form that it expects")


def bases_of(store: S3Access) -> set[str]:
    """Scheme and host of a store, without a bucket.

    >>> sorted(bases_of(S3Access("eu-west-1"))), bases_of(S3Access("x", "http://Store:80/", path_style=True))
    (['http://s3.eu-west-1.amazonaws.com', 'https://s3.eu-west-1.amazonaws.com'], {'http://store'})
    """
    if store.endpoint is not None:
        parts = urlsplit(store.endpoint)
        return {f"{parts.scheme}://{_without_default_port(parts.scheme, parts.netloc)}"}
    suffix = "amazonaws.com.cn" if store.region.startswith("cn-") else "amazonaws.com"
    hosts = [f"s3.{store.region}.{suffix}", *(["s3.amazonaws.com"] if store.region == "us-east-1" else [])]
    return {f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts}


def _parse_query(raw: str) -> dict[str, str]:
    query: dict[str, str] = {}
    for part in raw.split("&"):
        raw_name, _, raw_value = part.partition("=")
        name, value = _decode(raw_name, "query"), _decode(raw_value, "query")
        if not name or name in query:
            raise NotSigned("the query has a parameter twice, or one without a name")
        if "=" in raw_value:
            raise NotSigned("a query parameter has '=' in its value that is not encoded")
        query[name] = value
    return query


def _parse_headers(described: Mapping[str, list[str]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    if len(described) > MAX_HEADERS:
        raise NotSigned(f"more than {MAX_HEADERS} headers")
    for name, values in described.items():
        lower = name.lower()
        if not _HEADER_NAME.fullmatch(name) or lower in headers or len(values) != 1:
            raise NotSigned(f"the header {name[:60]!r} is malformed, or there twice")
        if not _HEADER_VALUE.fullmatch(values[0]):
            raise NotSigned(f"the header {lower} has a value with characters outside of printable ASCII, or a long one")
        headers[lower] = values[0].strip()
    return headers


def _decode(raw: str, what: str) -> str:
    """The text, decoded once."""
    if _BAD_ESCAPE.search(raw):
        raise NotSigned(f"the {what} has a '%' that encodes nothing")
    try:
        return unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise NotSigned(f"the {what} is not UTF-8 when decoded") from None


def decode_copy_source(value: str) -> tuple[str, str]:
    """The bucket and the key of a copy source, decoded once as S3 does.

    >>> decode_copy_source("/lake/w/a%20b"), decode_copy_source("lake/w/a%252Fb")
    (('lake', 'w/a b'), ('lake', 'w/a%2Fb'))
    """
    if "?" in value or "+" in value or _ENCODED_SEPARATOR.search(value.removeprefix("/")):
        raise NotSigned("the copy source names a version, or has a separator or a space that can be read in two ways")
    bucket, _, key = _decode(value.removeprefix("/"), "copy source").partition("/")
    return bucket, key


# --- keys ------------------------------------------------------------------------------------------------------------


def check_key(bucket: str, key: str, places: Collection[Place], *, is_prefix: bool = False) -> None:
    """Passes when an object, or every object with this prefix, lies in one of the places: as it is written, and
    however often a store decodes it. A key may have escapes in it: Iceberg writes `name=a%2Fb` for the value `a/b`.
    """
    if len(key.encode("utf-8", "surrogatepass")) > MAX_KEY_BYTES:
        raise NotSigned(f"the key has more than {MAX_KEY_BYTES} bytes")
    _check_segments(key, is_prefix=is_prefix)
    form = key
    for _ in range(DECODED_AT_MOST):
        if _leads_up(form) or not any(place.bucket == bucket and _is_below(form, place) for place in places):
            raise NotSigned("it does not lie in the folders of the table")
        decoded = unquote_to_bytes(form).decode("utf-8", "replace")
        if decoded == form:
            return
        form = decoded
    raise NotSigned("the key is encoded many times over")


def _is_below(key: str, place: Place) -> bool:
    return bool(place.path) and key.startswith(f"{place.path}/")


def _leads_up(key: str) -> bool:
    """Whether a store could leave a folder by this key. Some take compatible characters for the same: a full-width dot
    for a dot.
    """
    return any(
        segment.strip() == ".."
        for form in (key, unicodedata.normalize("NFKC", key))
        for segment in _SEPARATORS.split(form)
    )


def _check_segments(key: str, *, is_prefix: bool) -> None:
    if _UNPRINTABLE.search(key):
        raise NotSigned("the key has a backslash or a control character")
    segments = key.split("/")
    if is_prefix and not segments[-1]:
        segments.pop()
    if any(segment.strip() in ("", ".", "..") for segment in segments):
        raise NotSigned("the key has an empty segment, '.' or '..'")
    if unicodedata.normalize("NFKC", key).count("/") != key.count("/"):
        raise NotSigned("the key has a character that some stores take for '/'")


def _without_default_port(scheme: str, authority: str) -> str:
    return authority.lower().removesuffix(_DEFAULT_PORTS.get(scheme, ""))


def _encode(text: str) -> str:
    return quote(text, safe=_UNRESERVED)
