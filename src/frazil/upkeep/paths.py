"""One file, many spellings: paths as they are compared, and whether one lies below another."""

from __future__ import annotations

import re
from urllib.parse import unquote

_SCHEME = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*):(//)?")
_S3 = ("s3", "s3a", "s3n")


def comparable(path: str) -> str:
    """The path without what engines spell in different ways. Two files may share it: then both are spared, never the other way round.

    >>> comparable("file:///a//b.parquet") == comparable("file:/a/b.parquet") == comparable("/a/b.parquet")
    True
    >>> comparable("s3a://lake/t/day=2024-01-18T09%3A00/f") == comparable("s3://lake/t/day=2024-01-18T09:00/f")
    True
    """
    found = _SCHEME.match(path)
    scheme, rest = (found[1].lower(), path[found.end() :]) if found else ("file", path)
    if scheme in _S3:
        scheme = "s3"
    if scheme == "file":
        rest = "/" + rest.removeprefix("localhost/")
    if "%" in rest:
        rest = _decoded(rest)
    return f"{scheme}:{re.sub('/+', '/', rest) if '//' in rest else rest}"


def _decoded(text: str) -> str:
    """Until nothing changes: one engine encodes a name that another has encoded before."""
    while (once := unquote(text)) != text:
        text = once
    return text


def is_below(path: str, folder: str) -> bool:
    """Whether a path lies in a folder, or is it.

    >>> is_below("s3://lake/t/data/f", "s3a://lake/t"), is_below("s3://lake/t2/f", "s3://lake/t")
    (True, False)
    """
    inner, outer = comparable(path).rstrip("/"), comparable(folder).rstrip("/")
    return inner == outer or inner.startswith(outer + "/")
