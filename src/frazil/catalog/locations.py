"""Locations of tables and files: one meaning each, or a refusal. Pure, but for the look at symbolic links on local
files.

`file:/x`, `file:///x` and `/x` are the same place; so are `s3://b/k`, `s3a://b/k` and `s3n://b/k`. A location that
engines could read in two ways (`..`, an encoded slash, a backslash, a control character) is refused before anything is
compared.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import unicodedata
from dataclasses import dataclass

from frazil.catalog.names import Name, Namespace
from frazil.errors import MalformedLocation

MAX_LENGTH = 4096
# of local files: PATH_MAX and NAME_MAX; deeper trees are a mistake
MAX_PATH_BYTES, MAX_SEGMENT_BYTES, MAX_SEGMENTS = 4095, 255, 256
MAX_KEY_BYTES = 1024  # of S3
MAX_FOLDED_BYTES = 1300
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff\\\\]")
_ENCODED = re.compile(r"%(2e|2f|5c|00)|[?#]", re.IGNORECASE)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_S3 = ("s3", "s3a", "s3n")
_SAFE_SEGMENT = re.compile(r"[\w.=@+~-]+")  # no space: Java's URI class refuses one


@dataclass(frozen=True, slots=True)
class Place:
    """Where a location points: a path of this machine, or a key in a bucket."""

    scheme: str  # file or s3
    bucket: str
    path: str  # absolute for file; the key for s3

    def contains(self, other: Place) -> bool:
        """Whether `other` is this place or lies below it."""
        if self.scheme != other.scheme or self.bucket != other.bucket:
            return False
        return other.path == self.path or other.path.startswith(self.path.rstrip("/") + "/") or self.path in ("", "/")

    @property
    def key(self) -> str:
        """The place as text that every place below it starts with.

        >>> Place("s3", "bucket", "a/b").key, Place("s3", "bucket", "").key, Place("file", "", "/w").key
        ('s3:/bucket/a/b/', 's3:/bucket/', 'file:/w/')
        """
        parts = [part for part in (self.bucket, self.path.strip("/")) if part]
        return "/".join((f"{self.scheme}:", *parts, ""))

    @property
    def real(self) -> Place:
        """The place with symbolic links followed, as far as the path exists."""
        return Place("file", "", os.path.realpath(self.path)) if self.scheme == "file" else self


@functools.lru_cache(maxsize=8192)
def parse_location(location: str) -> Place:
    """The place that a location names.

    >>> parse_location("file:/tmp/x") == parse_location("file:///tmp/x") == parse_location("/tmp/x/")
    True
    >>> parse_location("s3a://bucket/a/b")
    Place(scheme='s3', bucket='bucket', path='a/b')
    """
    _refuse_tricks(location)
    match = _SCHEME.fullmatch(location)
    if match is None:
        if not location.startswith("/"):
            raise MalformedLocation(f"Location {location!r} is neither absolute nor has a scheme (file:// or s3://)")
        return Place("file", "", _check_path(_clean(location, location)))
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        return Place("file", "", _check_path(_clean(_file_path(rest, location), location)))
    if scheme in _S3:
        bucket, _, key = rest.removeprefix("//").partition("/")
        if not rest.startswith("//") or not re.fullmatch(r"[A-Za-z0-9._-]+", bucket):
            raise MalformedLocation(f"Location {location!r} has no valid bucket")
        return Place("s3", bucket, _check_key(_clean(key, location).lstrip("/")))
    raise MalformedLocation(f"Location {location!r}: the scheme '{scheme}' is not supported; use file:// or s3://")


def parse_key(key: str) -> Place:
    """The place of a key (`Place.key`).

    >>> parse_key("s3:/bucket/a/b/")
    Place(scheme='s3', bucket='bucket', path='a/b')
    """
    scheme, _, rest = key.partition(":/")
    return parse_location(f"{scheme}://{rest}")


@functools.lru_cache(maxsize=16)  # a create asks for them three times; those of a deep key take 256 KB
def keys_above(key: str) -> tuple[str, ...]:
    """The keys of the places that contain the place of this key.

    >>> keys_above("s3:/bucket/a/b/"), keys_above("file:/w/")
    (('s3:/bucket/', 's3:/bucket/a/'), ('file:/',))
    """
    parts = key.split("/")[:-1]
    return tuple("/".join((*parts[:count], "")) for count in range(1 + key.startswith("s3:"), len(parts)))


def fold_key(key: str) -> str:
    """The key as no store tells it from another one: more alike than letters of another case, never less. A very long
    one is cut, for an index can only hold so much.

    >>> fold_key("s3:/b/Sales/") == fold_key("s3:/b/SALES/") == fold_key("s3:/b/\u017fale\u017f/")
    True
    """
    if key.isascii():
        return key.lower()
    folded = unicodedata.normalize("NFKC", key).casefold().replace("\u0307", "")
    return folded.encode("utf-8", "surrogatepass")[:MAX_FOLDED_BYTES].decode("utf-8", "ignore")


def _check_path(path: str) -> str:
    """The path, if a file system can have it: else every write would fail, and look like a file system that is away."""
    if len(path) <= MAX_SEGMENT_BYTES and path.isascii():
        return path
    segments = path.split("/")
    if len(path.encode()) > MAX_PATH_BYTES or len(segments) > MAX_SEGMENTS:
        raise MalformedLocation(
            f"Location {path[:60]}... is longer than {MAX_PATH_BYTES} bytes or {MAX_SEGMENTS} folders"
        )
    if longest := next((segment for segment in segments if len(segment.encode()) > MAX_SEGMENT_BYTES), None):
        raise MalformedLocation(f"Location ...{longest[:60]}... has a name of more than {MAX_SEGMENT_BYTES} bytes")
    return path


def _check_key(key: str) -> str:
    if len(key.encode()) > MAX_KEY_BYTES:
        raise MalformedLocation(f"Location {key[:60]}... is a key of more than {MAX_KEY_BYTES} bytes")
    return key


def _file_path(rest: str, location: str) -> str:
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise MalformedLocation(f"Location {location!r} names the host {host!r}; write file:///path")
        rest = slash + path
    if not rest.startswith("/"):
        raise MalformedLocation(f"Location {location!r} is not absolute")
    return rest


def _refuse_tricks(location: str) -> None:
    if not location or len(location) > MAX_LENGTH:
        raise MalformedLocation(f"Location {location[:60]!r} is empty or longer than {MAX_LENGTH} characters")
    if _UNPRINTABLE.search(location):
        raise MalformedLocation(f"Location {location!r} contains a backslash or a control character")
    if _ENCODED.search(location):
        raise MalformedLocation(
            f"Location {location!r} contains an encoded separator, '?' or '#'; write the path as it is"
        )


def _clean(path: str, location: str) -> str:
    segments = path.split("/")
    if any(segment in (".", "..") for segment in segments):
        raise MalformedLocation(f"Location {location!r} contains '.' or '..'; write the path as it is")
    kept = [segment for segment in segments if segment]
    return ("/" if path.startswith("/") else "") + "/".join(kept)


def folder_name(name: str) -> str:
    """A name as one segment of a path; one with unusual characters is replaced by a readable, distinct one.

    >>> folder_name("orders"), folder_name("a/b"), folder_name("..")
    ('orders', 'a_b-c14cddc0', '__-5ec1f7e7')
    """
    if (
        _SAFE_SEGMENT.fullmatch(name)
        and name.strip(".") == name
        and len(name) <= 120
        and len(name.encode()) <= MAX_SEGMENT_BYTES
    ):
        return name
    readable = re.sub(r"[^\w=@+~-]", "_", name)[:80].encode("utf-8", "replace")[:200].decode("utf-8", "ignore")
    return f"{readable}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def default_location(root: str, name: Name, namespace_location: str | None) -> str:
    """Where a table goes when its creator does not say: below its namespace's location, if that has one."""
    folder = namespace_location or default_namespace_location(root, name.namespace)
    return f"{folder.rstrip('/')}/{folder_name(name.name)}"


def default_namespace_location(root: str, namespace: Namespace) -> str:
    """The default location of a namespace's tables."""
    return "/".join((root.rstrip("/"), *(folder_name(level) for level in namespace)))
