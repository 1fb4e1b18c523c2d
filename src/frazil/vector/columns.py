"""A column of vectors as Arrow has it, and as a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import VectorError
from frazil.vector.metric import Mask, Matrix, Metric, usable


def is_vector(kind: pa.DataType) -> bool:
    """Whether a column of this type holds vectors: lists of floating-point numbers, of one size or not."""
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(lists and pa.types.is_floating(kind.value_type))


def to_matrix(column: pa.Array | pa.ChunkedArray, dimension: int, metric: Metric) -> tuple[Matrix, Mask]:
    """The vectors that have a distance, and which rows they are. Left out: null, of another dimension, with a null,
    infinite or NaN number inside, and for the cosine zero.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    fits = pc.equal(pc.list_value_length(array), dimension).fill_null(False)
    rows = np.asarray(fits)
    values = (array if rows.all() else array.filter(fits)).flatten()
    numbers = np.asarray(values.cast(pa.float32(), safe=False).fill_null(np.nan) if values.null_count else values)
    with np.errstate(over="ignore"):  # a double that is too large becomes infinite, and has no distance
        matrix = np.ascontiguousarray(numbers, dtype=np.float32).reshape(-1, dimension)
    good = usable(matrix, metric)
    if good.all():
        return matrix, rows
    rows = rows.copy()
    rows[np.flatnonzero(rows)[~good]] = False
    return matrix[good], rows


def find_dimension(column: pa.Array | pa.ChunkedArray) -> int | None:
    """The dimension of most vectors; None if there is none."""
    lengths = pc.value_counts(pc.drop_null(pc.list_value_length(column)))
    counts = [(entry["counts"], entry["values"]) for entry in lengths.to_pylist() if entry["values"]]
    return max(counts)[1] if counts else None


def to_queries(vectors: Any, dimension: int | None, metric: Metric, *, table: str) -> tuple[Matrix, bool]:
    """The vectors of a search as a matrix, and whether it was a single vector: lists, numpy or Arrow. Without a
    dimension any is accepted.
    """
    if isinstance(vectors, (pa.Array, pa.ChunkedArray)) and is_vector(vectors.type):
        vectors = vectors.to_pylist()
    elif hasattr(vectors, "dtype") and not np.issubdtype(np.asarray(vectors).dtype, np.number):
        vectors = list(vectors)  # a column of pandas or Polars, with a vector in each row
    expected = f"expected a vector of {dimension or 'some'} numbers, or a list of such vectors"
    try:
        with np.errstate(over="ignore"):
            queries = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as exc:
        raise VectorError(f"{table}: {expected}, got {_short(vectors)}", table=table, problem="no-vector") from exc
    single = queries.ndim == 1
    queries = np.ascontiguousarray(queries[None] if single else queries)
    if queries.ndim != 2 or not queries.size:
        raise VectorError(f"{table}: {expected}, got {_short(vectors)}", table=table, problem="no-vector")
    if dimension is not None and queries.shape[1] != dimension:
        raise VectorError(f"{table}: {expected}, got {queries.shape[1]} numbers", table=table, problem="dimension")
    if not (good := usable(queries, metric)).all():
        number = int(np.argmin(good))
        zero = not queries[number].any()
        reason = "is zero, and has no cosine" if zero else "has a number that is not finite, or too large"
        raise VectorError(f"{table}: vector {number} of the search {reason}", table=table, problem="no-distance")
    return queries, single


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
