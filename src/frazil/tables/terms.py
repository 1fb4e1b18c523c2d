"""What a table is partitioned or sorted by, as text: `day(ts)`, `bucket(16, id) as shard`, `ts desc nulls last`.

The functions give this text for a column: `transforms.bucket(16, "id")`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from frazil.errors import DeclarationError
from frazil.tables.types import quote_name

WITHOUT_WIDTH = ("identity", "year", "month", "day", "hour", "void")
WITH_WIDTH = ("bucket", "truncate")


@dataclass(frozen=True)
class Term:
    """A column under a transform; the transform is spelled as Iceberg spells it, `bucket[16]`."""

    transform: str
    source: str

    def __str__(self) -> str:
        source = quote_path(self.source)
        kind, _, width = self.transform.rstrip("]").partition("[")
        return source if kind == "identity" else f"{kind}({width}, {source})" if width else f"{kind}({source})"

    def field_name(self) -> str:
        """The partition field's name that Spark and Trino give when they create a table.

        >>> [Term(t, "id").field_name() for t in ("identity", "day", "bucket[16]", "truncate[4]", "void")]
        ['id', 'id_day', 'id_bucket', 'id_trunc', 'id_null']
        """
        kind = self.transform.partition("[")[0]
        suffixes = {"identity": "", "truncate": "_trunc", "void": "_null"}
        return self.source + suffixes.get(kind, f"_{kind}")


@dataclass(frozen=True)
class PartitionTerm:
    """A partition field; without a name it has the usual one, and a live field of any name is the same."""

    term: Term
    name: str | None = None

    def __str__(self) -> str:
        return str(self.term) + (f" as {quote_name(self.name)}" if self.name else "")


@dataclass(frozen=True)
class SortTerm:
    """A field of a sort order."""

    term: Term
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        nulls = "" if self.nulls_first is not self.descending else f" nulls {'first' if self.nulls_first else 'last'}"
        return f"{self.term}{' desc' if self.descending else ''}{nulls}"


_NAME = r'(?:[^\W\d][\w.]*|"(?:[^"]|"")+")'
_PATH = rf"{_NAME}(?:\.{_NAME})*"
_CALL = re.compile(rf"(?P<kind>[a-zA-Z]+)\s*\(\s*(?:(?P<width>\d+)\s*,)?\s*(?P<source>{_PATH})\s*\)")
_PARTITION = re.compile(rf"(?P<term>.+?)(?:\s+as\s+(?P<name>{_NAME}))?", re.IGNORECASE)
_SORT = re.compile(r"(?P<term>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.IGNORECASE)


def parse_partition(text: str) -> PartitionTerm:
    """The partition field that a text means.

    >>> str(parse_partition("DAY( ts )")), str(parse_partition("bucket(16,id) as shard")), str(parse_partition("identity(day)"))
    ('day(ts)', 'bucket(16, id) as shard', 'day')
    """  # noqa: E501
    match = _PARTITION.fullmatch(text.strip())
    if match is None:
        raise _not_understood("partition", text)
    return PartitionTerm(
        _parse_term(match["term"], "partition", text), _unquote(match["name"]) if match["name"] else None
    )


def parse_sort(text: str) -> SortTerm:
    """The sort field that a text means; NULLs come first when ascending and last when descending, unless it says
    otherwise.

    >>> str(parse_sort("ts DESC")), str(parse_sort("ts desc nulls first")), str(parse_sort("bucket(16, id) asc nulls first"))
    ('ts desc', 'ts desc nulls first', 'bucket(16, id)')
    """  # noqa: E501
    match = _SORT.fullmatch(text.strip())
    if match is None:
        raise _not_understood("sort field", text)
    descending = (match["direction"] or "asc").lower() == "desc"
    nulls_first = match["nulls"].lower() == "first" if match["nulls"] else not descending
    return SortTerm(_parse_term(match["term"], "sort field", text), descending, nulls_first)


def _parse_term(text: str, what: str, whole: str) -> Term:
    if re.fullmatch(_PATH, text):
        return Term("identity", _unquote(text))
    call = _CALL.fullmatch(text)
    kind = call["kind"].lower() if call else ""
    if call is None or kind not in (*WITHOUT_WIDTH, *WITH_WIDTH):
        raise _not_understood(what, whole)
    if (kind in WITH_WIDTH) is not (call["width"] is not None) or call["width"] == "0":
        example = f"{kind}(16, {call['source']})" if kind in WITH_WIDTH else f"{kind}({call['source']})"
        raise DeclarationError(f"{what} '{whole}' is not understood", hint=f"write {example}")
    return Term(f"{kind}[{int(call['width'])}]" if call["width"] else kind, _unquote(call["source"]))


def _unquote(path: str) -> str:
    """
    >>> _unquote('device."my site"')
    'device.my site'
    """
    return re.sub(r'"((?:[^"]|"")+)"', lambda match: match[1].replace('""', '"'), path)


def quote_path(path: str) -> str:
    """A column's full name as text that is read back as the same.

    >>> quote_path("device.site"), quote_path("my site")
    ('device.site', '"my site"')
    """
    return path if re.fullmatch(_PATH, path) else '"' + path.replace('"', '""') + '"'


def _not_understood(what: str, text: str) -> DeclarationError:
    return DeclarationError(
        f"{what} '{text}' is not understood",
        hint="write a column, identity, year, month, day, hour or void(column), bucket(16, column) or truncate(4, "
        "column)" + (", with desc and nulls last" if what == "sort field" else ""),
    )
