"""Columns of vectors as matrices: which rows have a distance, and which queries are refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

from frazil.errors import VectorError
from frazil.vector.columns import find_dimension, is_vector, to_matrix, to_queries

ROWS = [[1.0, 2.0], None, [3.0], [0.0, 0.0], [1.0, math.nan], [math.inf, 1.0], [1.0, None], [5.0, 6.0], []]
TYPES = [pa.list_(pa.float32()), pa.list_(pa.float64()), pa.large_list(pa.float32())]


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize(("metric", "good"), [("cosine", [0, 7]), ("l2", [0, 3, 7]), ("ip", [0, 3, 7])])
def test_rows_without_a_distance_are_left_out(kind: pa.DataType, metric: Any, good: list[int]) -> None:
    for column in (pa.array(ROWS, kind), pa.chunked_array([pa.array(ROWS[:4], kind), pa.array(ROWS[4:], kind)])):
        matrix, rows = to_matrix(column, 2, metric)
        assert np.flatnonzero(rows).tolist() == good
        assert matrix.tolist() == [ROWS[row] for row in good]


def test_a_slice_and_a_list_of_fixed_size_are_read_as_they_are() -> None:
    fixed = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2))
    assert to_matrix(fixed.slice(1), 2, "l2")[0].tolist() == [[3, 4], [5, 6]]
    assert to_matrix(pa.array(ROWS, TYPES[0]).slice(7), 2, "l2")[0].tolist() == [[5, 6]]


def test_an_empty_column_has_no_vectors() -> None:
    matrix, rows = to_matrix(pa.array([], TYPES[0]), 2, "l2")
    assert (matrix.shape, rows.shape) == ((0, 2), (0,))


def test_the_dimension_is_that_of_most_vectors() -> None:
    assert find_dimension(pa.array(ROWS, TYPES[0])) == 2
    assert find_dimension(pa.array([None, []], TYPES[0])) is None


def test_lists_of_floating_point_numbers_are_vectors() -> None:
    assert all(is_vector(kind) for kind in [*TYPES, pa.list_(pa.float32(), 3)])
    assert not any(is_vector(kind) for kind in [pa.float32(), pa.list_(pa.int32()), pa.list_(pa.string())])


def test_queries_are_single_or_several() -> None:
    assert to_queries([1, 2], 2, "l2", table="l.t")[1] is True
    rows = [[1.0, 2.0], [3.0, 4.0]]
    frames = (pandas.Series(rows), pandas.Series([np.array(row) for row in rows]), polars.Series(rows))
    for several in (rows, np.array(rows), pa.array(rows, TYPES[0]), *frames):
        queries, single = to_queries(several, 2, "l2", table="l.t")
        assert (queries.tolist(), single) == ([[1, 2], [3, 4]], False)


@pytest.mark.parametrize(
    ("vectors", "problem"),
    [
        ([1.0, 2.0, 3.0], "dimension"),
        ([[1.0], [2.0]], "dimension"),
        ([], "no-vector"),
        (np.empty((0, 2)), "no-vector"),
        ([[1.0, 2.0], [3.0]], "no-vector"),
        ("text", "no-vector"),
        (None, "no-vector"),
        (5, "no-vector"),
        ([[[1.0, 2.0]]], "no-vector"),
        ([0.0, 0.0], "no-distance"),
        ([1.0, math.nan], "no-distance"),
        ([1.0, math.inf], "no-distance"),
    ],
    ids=repr,
)
def test_a_query_without_a_distance_is_refused(vectors: Any, problem: str) -> None:
    with pytest.raises(VectorError) as caught:
        to_queries(vectors, 2, "cosine", table="l.t")
    assert (caught.value.table, caught.value.problem) == ("l.t", problem)
