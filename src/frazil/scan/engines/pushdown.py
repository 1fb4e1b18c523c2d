"""A scan as an Arrow dataset, for engines that ask datasets for columns and filters (DuckDB): they get no more than
they ask for.

The engine does not look at the rows again, so its filter is applied to every batch as it is. To skip files, it is also
understood: from its text, and only if the same text, parsed again, is the same filter. What cannot be understood skips
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    Or,
)

from frazil.errors import FrazilError

if TYPE_CHECKING:
    from frazil.scan.reading import RowScan

SIGNS: dict[str, Any] = {
    "==": EqualTo,
    "!=": NotEqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
}
COMPARE: dict[str, Any] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
TERM = re.compile(r'([A-Za-z_]\w*) (==|!=|<=|>=|<|>) ("(?:[^"\\])*"|[-+.:\w ]+)')
Both = tuple[BooleanExpression, pc.Expression]


class ScanDataset(ds.InMemoryDataset):  # type: ignore[misc]  # pyarrow has no types
    """A dataset whose rows come from a scan, each time that it is asked."""

    scan: RowScan
    asked: list[RowScan]  # the scans that were made of it so far
    failed: FrazilError | None  # what went wrong: an engine tells only its text

    @classmethod
    def of(cls, scan: RowScan) -> ScanDataset:
        dataset = cls(scan.schema.empty_table())
        dataset.scan, dataset.asked, dataset.failed = scan, [], None
        return dataset

    def scanner(self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> _Asked:
        """What an engine asks for."""
        scan = self.scan if columns is None else replace(self.scan, columns=tuple(columns))
        known = None if filter is None or self.scan.limit is not None else understand(filter, self.scan.schema)
        if known is not None:
            scan = replace(scan, request=replace(scan.request, filter=And(scan.request.filter, known)))
        self.asked.append(scan)
        return _Asked(self, scan, filter)


class _Asked:
    """The rows that were asked for."""

    def __init__(self, dataset: ScanDataset, scan: RowScan, filter: pc.Expression | None) -> None:
        self._dataset, self._scan, self._filter = dataset, scan, filter

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._scan.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._scan.iter_batches():
                filter_ = batch if self._filter is None else batch.filter(self._filter)
                if filter_.num_rows:
                    yield filter_
        except FrazilError as exc:
            self._dataset.failed = exc
            raise


def understand(filter: pc.Expression, schema: pa.Schema) -> BooleanExpression | None:
    """An Arrow filter as Iceberg's, if it is made of comparisons with plain values.

    >>> understand(pc.field("id") > 5, pa.schema([("id", pa.int64())]))
    GreaterThan(term=Reference(name='id'), literal=LongLiteral(5))
    """
    try:
        ours, rebuilt = _parse(str(filter), schema)
    except (ValueError, KeyError, pa.ArrowException):
        return None
    return ours if rebuilt.equals(filter) else None


def _parse(text: str, schema: pa.Schema) -> Both:
    if not (text.startswith("(") and text.endswith(")")):
        raise ValueError(text)
    inner = text[1:-1]
    if inner.startswith("("):
        end = _closing(inner)
        word = next(word for word in (" and ", " or ", "") if inner[end:].startswith(word))
        if not word:
            raise ValueError(text)
        (left, left_arrow), (right, right_arrow) = _parse(inner[:end], schema), _parse(inner[end + len(word) :], schema)
        return (
            (And(left, right), left_arrow & right_arrow)
            if word == " and "
            else (Or(left, right), left_arrow | right_arrow)
        )
    match = TERM.fullmatch(inner)
    if match is None:
        raise ValueError(text)
    return _compare(match[1], match[2], match[3], schema)


def _closing(text: str) -> int:
    """Where the first parenthesis ends; quoted text does not count."""
    depth, quoted = 0, False
    for at, sign in enumerate(text):
        quoted ^= sign == '"'
        if not quoted:
            depth += (sign == "(") - (sign == ")")
            if depth == 0:
                return at + 1
    raise ValueError(text)


def _compare(name: str, sign: str, text: str, schema: pa.Schema) -> Both:
    kind = schema.field(name).type
    if pa.types.is_large_string(kind) or pa.types.is_string(kind):
        if not text.startswith('"'):
            raise ValueError(text)
        value: Any = text[1:-1]
        arrow = pa.scalar(value, pa.string())
    elif pa.types.is_integer(kind):
        value = int(text)
        arrow = pa.scalar(value, kind)
    elif pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        arrow = pa.scalar(text, pa.string()).cast(kind)
        value = arrow.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).as_py()
    else:
        raise ValueError(str(kind))
    return SIGNS[sign](name, value), COMPARE[sign](pc.field(name), pc.scalar(arrow))
