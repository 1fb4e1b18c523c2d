"""One file, many spellings: paths as they are compared, and whether one lies below another."""

from __future__ import annotations

from frazil.scan.manifests import comparable

__all__ = ["comparable", "is_below"]


def is_below(path: str, folder: str) -> bool:
    """Whether a path lies in a folder, or is it.

    >>> is_below("s3://lake/t/data/f", "s3a://lake/t"), is_below("s3://lake/t2/f", "s3://lake/t")
    (True, False)
    """
    inner, outer = comparable(path).rstrip("/"), comparable(folder).rstrip("/")
    return inner == outer or inner.startswith(outer + "/")
