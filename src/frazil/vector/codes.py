"""Vectors as 1-bit codes (RaBitQ) for the first look and as bytes (SQ8) for the second, in the rotated space.

A vector x of a list with centroid c is kept as the signs s of its residual r = x - c and two numbers. With
f = |r|² / |r|₁, f (s · y) estimates the product of r with any vector y without bias, so that for a query q

    |q - x|²  =  |q - c|² + |r|² - 2 r·(q - c)   is about   |q - c|² + a - 2 f (s · q),   a = |r|² + 2 f (s · c)
    -(q · x)  =  -(q · c) - q·r                  is about   -(q · c) + a -   f (s · q),   a = f (s · c) - r · c

One product of signs with the query is all that a vector costs. The bytes keep the vector itself: x is about
low + step * byte.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from frazil.vector.metric import Bytes, Matrix, Metric, row_products, row_squares

# The sign of each bit of each byte, the highest bit first, as numpy packs them.
_SIGNS = (np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32) * 2 - 1).T


@dataclass(frozen=True, slots=True)
class Codes:
    """What the first look needs of some vectors: signs, eight to a byte, and (f, a) of each."""

    signs: Bytes
    factors: Matrix


@dataclass(frozen=True, slots=True)
class Refined:
    """What the second look needs of some vectors: bytes, and (low, step, |x|²) of each."""

    values: Bytes
    scales: Matrix


def encode_signs(vectors: Matrix, centroids: Matrix, metric: Metric) -> Codes:
    """The codes of rotated vectors, each with the centroid of its list."""
    residuals = vectors - centroids
    positive = residuals >= 0
    signs = np.where(positive, np.float32(1), np.float32(-1))
    squares = row_squares(residuals)
    sums = row_products(residuals, signs)
    scale = np.divide(squares, sums, out=np.zeros_like(squares), where=sums > 0)
    towards = row_products(signs, centroids)
    rest = scale * towards - row_products(residuals, centroids) if metric == "ip" else squares + 2 * scale * towards
    return Codes(np.packbits(positive, axis=1), np.stack([scale, rest], axis=1).astype(np.float32))


def encode_bytes(vectors: Matrix) -> Refined:
    """Rotated vectors with a byte for each number, in 255 steps from the lowest to the highest of the vector."""
    low, high = vectors.min(axis=1), vectors.max(axis=1)
    step = np.maximum((high - low) / 255, np.finfo(np.float32).tiny)
    values = np.rint((vectors - low[:, None]) / step[:, None]).astype(np.uint8)
    squares = row_squares(vectors)
    return Refined(values, np.stack([low, step, squares], axis=1).astype(np.float32))


class Query:
    """One query in the rotated space, with what all lists share."""

    def __init__(self, vector: Matrix, metric: Metric) -> None:
        self.vector, self.metric = np.ascontiguousarray(vector, dtype=np.float32), metric
        self._square, self._sum = float(vector @ vector), float(vector.sum())
        self._table = self.vector.reshape(-1, 8) @ _SIGNS  # the product for each byte of signs and each value of it

    def from_centroids(self, centroids: Matrix, squares: Matrix) -> Matrix:
        """How far each list is: the square of the distance of its centroid, or the negative product."""
        products: Matrix = centroids @ self.vector
        return -products if self.metric == "ip" else squares - 2 * products + self._square

    def estimate(self, codes: Codes, from_centroid: Matrix) -> Matrix:
        """About how far vectors are, each with the number that its list has from `from_centroids`."""
        products = self._sign_products(codes.signs)
        factor = -1 if self.metric == "ip" else -2
        estimates: Matrix = from_centroid + codes.factors[:, 1] + factor * codes.factors[:, 0] * products
        return estimates

    def refine(self, refined: Refined) -> Matrix:
        """How far vectors are by their bytes, as `_distance` says it."""
        low, step, squares = refined.scales.T
        products: Matrix = low * self._sum + step * (refined.values.astype(np.float32) @ self.vector)
        if self.metric == "l2":
            lengths: Matrix = np.sqrt(np.maximum(squares - 2 * products + self._square, 0))
            return lengths
        return 1 - products if self.metric == "cosine" else -products

    def _sign_products(self, signs: Bytes) -> Matrix:
        products = np.zeros(len(signs), np.float32)
        for table, column in zip(self._table, signs.T, strict=True):
            products += table[column]
        return products
