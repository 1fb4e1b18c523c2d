"""The three distances: what is stored of a vector for each of them, and what `_distance` says.

| metric | `_distance` | vectors without one |
| --- | --- | --- |
| `cosine` | 1 - cosine of the angle, 0 to 2 | zero vectors |
| `l2` | Euclidean distance | none |
| `ip` | the negative inner product: the nearest has the largest product | none |
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from frazil.protocol import METRICS, Metric

__all__ = [
    "METRICS",
    "Bytes",
    "Mask",
    "Matrix",
    "Metric",
    "Numbers",
    "prepare",
    "row_products",
    "row_squares",
    "usable",
]

FEW_ROWS, MANY_ROWS = 4, 128  # that are multiplied without BLAS; and with all of its threads
ALONE = 262_144  # multiplications up to which BLAS uses one thread
# numpy's functions lose the type of the elements too often to check it.
Matrix: TypeAlias = "np.ndarray[Any, Any]"  # of float32; also a column of such numbers
Mask: TypeAlias = "np.ndarray[Any, Any]"  # of bool
Numbers: TypeAlias = "np.ndarray[Any, Any]"  # of whole numbers
Bytes: TypeAlias = "np.ndarray[Any, Any]"  # of uint8


def row_products(left: Matrix, right: Matrix) -> Matrix:
    """The product of each row with the row of the other."""
    numbers: Matrix = np.einsum("ij,ij->i", left, right)
    return numbers


def all_products(left: Matrix, right: Matrix) -> Matrix:
    """The product of each row with each row of the other, in blocks that BLAS multiplies with one thread: its threads
    wait for each other, which costs far more than the products where others use the cores.
    """
    if len(left) <= FEW_ROWS:
        few: Matrix = np.einsum("ij,kj->ik", left, right)
        return few
    if len(left) > MANY_ROWS:
        many: Matrix = left @ right.T
        return many
    size = max(8, int((ALONE / left.shape[1]) ** 0.5))
    products = np.empty((len(left), len(right)), left.dtype)
    for row in range(0, len(left), size):
        rows = left[row : row + size]
        for start in range(0, len(right), size):
            products[row : row + size, start : start + size] = rows @ right[start : start + size].T
    return products


def row_squares(vectors: Matrix) -> Matrix:
    """The square of the length of each row."""
    return row_products(vectors, vectors)


def usable(vectors: Matrix, metric: Metric) -> Mask:
    """Which vectors have a distance: all numbers finite, and for the cosine not all of them zero."""
    with np.errstate(over="ignore"):
        sums = row_squares(vectors)  # infinite or NaN if one number is
    good: Mask = np.isfinite(sums)
    return good & (sums > 0) if metric == "cosine" else good


def prepare(vectors: Matrix, metric: Metric) -> Matrix:
    """The vectors as they are compared: of length 1 for the cosine."""
    if metric != "cosine":
        return vectors
    directions: Matrix = np.divide(vectors, np.sqrt(row_squares(vectors))[:, None], dtype=np.float32)
    return directions
