"""Vector indexes of a declared table: `Table(..., indexes=[vector_index("embedding", metric="cosine")])`. Each becomes
a property of the table; `frazil maintain` builds and refreshes what the properties say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from frazil.errors import DeclarationError
from frazil.names import index_name
from frazil.protocol import INDEX_NAME, METRICS, PROPERTY_INDEX_PREFIX
from frazil.tables.types import Column, ListOf

Embedder = Callable[[list[str]], Any]  # a vector, or a row of a matrix, for each text
MOST_LISTS = 65_536


@dataclass(frozen=True)
class VectorIndex:
    """An index of a column of vectors."""

    column: str
    metric: str
    name: str
    lists: int | None = None
    embed: Embedder | None = field(default=None, compare=False)


def vector_index(
    column: str,
    *,
    metric: str = "cosine",
    name: str | None = None,
    lists: int | None = None,
    embed: Embedder | None = None,
) -> VectorIndex:
    """A vector index of a column, a list of floats, for `Table(..., indexes=[...])`.

    `metric` is `cosine`, `l2` or `ip`; the name is that of the column and the metric, unless said here; `lists` is how
    many lists the vectors are sorted into, by default four times the square root of the rows. `embed` makes vectors of
    a list of texts, with the model that made those of the column: searches of the project then take text.
    """
    return VectorIndex(column, metric, name or index_name(column, metric), lists, embed)


def index_properties(indexes: Sequence[VectorIndex], columns: Sequence[Column], *, table: str) -> dict[str, str]:
    """The indexes as properties of the table.

    >>> columns = [Column("embedding", ListOf("float"))]
    >>> index_properties([vector_index("embedding")], columns, table="lake.t")
    {'vector.index.embedding_cosine': '{"column": "embedding", "metric": "cosine"}'}
    """
    values: dict[str, str] = {}
    for index in indexes:
        if not isinstance(index, VectorIndex):
            raise _wrong(table, f"{index!r:.60} is no index", 'write vector_index("embedding")')
        _check(index, columns, table)
        key = f"{PROPERTY_INDEX_PREFIX}{index.name}"
        if key in values:
            raise _wrong(table, f"'{index.name:.60}' is there twice", "give one of them another name")
        lists = {} if index.lists is None else {"lists": index.lists}
        values[key] = json.dumps({"column": index.column, "metric": index.metric, **lists})
    return values


def check_properties(properties: Mapping[str, str], columns: Sequence[Column], *, table: str) -> None:
    """Refuses properties that declare an index and say none that can be: they may be written by hand."""
    for key, value in properties.items():
        if key.startswith(PROPERTY_INDEX_PREFIX):
            try:
                facts = json.loads(value)
                name = key.removeprefix(PROPERTY_INDEX_PREFIX)
                index = VectorIndex(facts["column"], facts["metric"], name, facts.get("lists"))
            except (ValueError, KeyError, TypeError, AttributeError) as exc:
                raise _wrong(
                    table, f"property '{key}' is {value!r:.60}", 'write indexes=[vector_index("embedding")]'
                ) from exc
            _check(index, columns, table)


def _check(index: VectorIndex, columns: Sequence[Column], table: str) -> None:
    kinds = {column.name: column.type for column in columns}
    if index.column not in kinds:
        raise _wrong(table, f"an index is of column '{index.column}'", f"there are: {', '.join(kinds)}")
    kind = kinds[index.column]
    if not (isinstance(kind, ListOf) and kind.element in ("float", "double")):
        problem = f"an index is of column '{index.column}', which is {kind}"
        raise _wrong(table, problem, "expected a list of float or double")
    if index.metric not in METRICS:
        raise _wrong(table, f"metric of an index is {index.metric!r}", f"expected one of {', '.join(METRICS)}")
    if index.lists is not None and not (isinstance(index.lists, int) and 1 <= index.lists <= MOST_LISTS):
        raise _wrong(table, f"lists of an index are {index.lists!r}", f"expected 1 to {MOST_LISTS:,}")
    if index.embed is not None and not callable(index.embed):
        raise _wrong(table, f"embed of an index is {index.embed!r:.60}", "expected a function of a list of texts")
    if not re.fullmatch(INDEX_NAME, index.name):
        hint = "expected letters, digits, '_', '.' and '-'"
        raise _wrong(table, f"'{index.name:.60}' is no name of an index", hint)


def _wrong(table: str, problem: str, hint: str) -> DeclarationError:
    return DeclarationError(f"table '{table}': {problem}", hint=hint, table=table, option="indexes")
