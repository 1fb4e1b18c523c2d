"""Vectors as 1-bit codes (RaBitQ) for the first look and as bytes (SQ8) for the second, in the rotated space.

A vector x of a list with centroid c is kept as the signs s of its residual r = x - c and two numbers. With
f = |r|² / |r|₁, f (s · y) estimates the product of r with any vector y without bias, so that for a query q

    |q - x|²  =  |q - c|² + |r|² - 2 r·(q - c)   is about   |q - c|² + a - 2 f (s · q),   a = |r|² + 2 f (s · c)
    -(q · x)  =  -(q · c) - q·r                  is about   -(q · c) + a -   f (s · q),   a = f (s · c) - r · c

A product may also leave out t c instead of c, for any t: then it is about -(q · c) + t a - f (s · q), with an error
that grows with |q - t c|. It is smallest for t = q·c / |c|², which matters where vectors have lengths of all sizes.

One product of signs with the query is all that a vector costs. The query's numbers are rounded to four bits for it, so
that the product is a sum of counts of bits that two words share. The bytes keep the vector itself: x is about
low + step * byte.

What all vectors have in common would take up most of these few bits. So vectors, centroids and queries are given
without the centre m of the codebook, which changes no distance; only the product -(q · x) = -(q · m) - q·(x - m) needs
the query and the centroids as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from frazil.vector.metric import Bytes, Matrix, Metric, Numbers, all_products, row_products, row_squares

QUERY_BITS = 4  # of each number of a query, for the first look
CHUNK = 16_384  # rows that are counted at a time: they fit the cache of a core


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


@dataclass(frozen=True, slots=True)
class Words:
    """Codes as they are compared: the signs in words of 64, word by word, and the factors with the sum of the signs."""

    signs: Numbers  # words x rows, of uint64
    scale: Matrix  # f
    rest: Matrix  # a
    ones: Matrix  # f times the number of positive signs

    @classmethod
    def empty(cls, rows: int, dimension: int) -> Words:
        numbers = (np.empty(rows, np.float32) for _ in range(3))
        return cls(np.empty((-(-dimension // 64), rows), np.uint64), *numbers)

    def put(self, rows: slice, part: Words) -> None:
        """Some rows get their codes."""
        self.signs[:, rows] = part.signs
        self.scale[rows], self.rest[rows], self.ones[rows] = part.scale, part.rest, part.ones

    def take(self, rows: Numbers) -> Words:
        """The codes of some rows."""
        return Words(self.signs.take(rows, axis=1), *(each.take(rows) for each in (self.scale, self.rest, self.ones)))


def as_words(codes: Codes) -> Words:
    """Codes as they are compared. Signs beyond the last are zeros, in vectors and in queries."""
    scale, rest = (np.ascontiguousarray(column) for column in codes.factors.T)
    signs = _words(codes.signs)
    ones = np.bitwise_count(signs).sum(axis=0, dtype=np.uint32).astype(np.float32)
    return Words(signs, scale, rest, scale * ones)


def _words(signs: Bytes) -> Numbers:
    """Rows of bytes as rows of words, transposed."""
    missing = -signs.shape[1] % 8
    whole = np.pad(signs, ((0, 0), (0, missing))) if missing else np.ascontiguousarray(signs)
    return np.ascontiguousarray(whole.view(np.uint64).T)


def encode_signs(vectors: Matrix, centroids: Matrix, metric: Metric, center: Matrix | None = None) -> Codes:
    """The codes of rotated vectors, each with the centroid of its list, both without the centre."""
    residuals = vectors - centroids
    positive = residuals >= 0
    signs = np.where(positive, np.float32(1), np.float32(-1))
    squares = row_squares(residuals)
    sums = row_products(residuals, signs)
    scale = np.divide(squares, sums, out=np.zeros_like(squares), where=sums > 0)
    towards = row_products(signs, centroids)
    if metric == "ip":
        rest = scale * towards - row_products(residuals, centroids if center is None else centroids + center)
    else:
        rest = squares + 2 * scale * towards
    return Codes(np.packbits(positive, axis=1), np.stack([scale, rest], axis=1).astype(np.float32))


def encode_bytes(vectors: Matrix) -> Refined:
    """Rotated vectors without the centre, with a byte for each number, in 255 steps from the lowest to the highest of
    the vector.
    """
    low, high = vectors.min(axis=1), vectors.max(axis=1)
    step = np.maximum((high - low) / 255, np.finfo(np.float32).tiny)
    values = np.rint((vectors - low[:, None]) / step[:, None]).astype(np.uint8)
    squares = row_squares(vectors)
    return Refined(values, np.stack([low, step, squares], axis=1).astype(np.float32))


class Query:
    """One query in the rotated space, with what all lists share."""

    def __init__(self, vector: Matrix, metric: Metric, center: Matrix | None = None) -> None:
        vector, self.metric = np.ascontiguousarray(vector, dtype=np.float32), metric
        self._shifted = vector if center is None else vector - center
        self.vector = vector if metric == "ip" else self._shifted  # that centroids and bytes are compared with
        self._base = float(vector @ center) if metric == "ip" and center is not None else 0.0
        self.square, self._sum = float(self.vector @ self.vector), float(self.vector.sum())
        self._shifted_sum = float(self._shifted.sum())

    @cached_property
    def _bits(self) -> tuple[float, float, Numbers]:
        """The query as low + step * n, with the bits of all n in words, the highest bits first."""
        low, most = float(self._shifted.min()), (1 << QUERY_BITS) - 1
        step = max((float(self._shifted.max()) - low) / most, float(np.finfo(np.float32).tiny))
        numbers = np.rint((self._shifted - np.float32(low)) / np.float32(step)).astype(np.uint8)
        planes = np.arange(QUERY_BITS - 1, -1, -1, dtype=np.uint8)[:, None]
        return low, step, _words(np.packbits((numbers >> planes) & 1, axis=1)).T

    def estimate(self, words: Words, from_centroid: Matrix, weight: Matrix | None = None) -> Matrix:
        """About how far vectors are, each with the number that its list has from `from_centroids`, and the weight t of
        its list.
        """
        low, step, planes = self._bits
        factor = -1 if self.metric == "ip" else -2
        # f (s · q) = f (2 Σ q over the positive signs - Σ q), and that sum is low * ones + step * shared
        estimates = _shared(words.signs, planes).astype(np.float32)
        estimates *= np.float32(2 * step)
        estimates -= np.float32(self._shifted_sum)
        estimates *= words.scale
        estimates += np.float32(2 * low) * words.ones
        estimates *= np.float32(factor)
        estimates += words.rest if weight is None else words.rest * weight
        estimates += from_centroid
        return estimates

    def refine(self, refined: Refined) -> Matrix:
        """How far vectors are by their bytes, as `_distance` says it."""
        low, step, squares = refined.scales.T
        # Row by row, so that a distance does not depend on the rows next to it, as it would in a product of matrices.
        sums = np.einsum("ij,j->i", refined.values.astype(np.float32), self.vector)
        products: Matrix = low * self._sum + step * sums
        if self.metric == "ip":
            return -products - np.float32(self._base)
        apart: Matrix = np.maximum(squares - 2 * products + self.square, 0)
        # Of vectors of length 1, 1 minus the cosine is half the square of how far they are apart.
        return np.sqrt(apart) if self.metric == "l2" else apart / 2


def from_centroids(queries: Sequence[Query], centroids: Matrix, squares: Matrix) -> Matrix:
    """How far each list is from each query: the square of the distance of its centroid, or the negative product."""
    products = all_products(np.stack([query.vector for query in queries]), centroids)
    if queries[0].metric == "ip":
        return -products
    products *= -2
    products += squares
    products += np.array([query.square for query in queries], np.float32)[:, None]
    return products


def _shared(signs: Numbers, planes: Numbers) -> Numbers:
    """For each row the sum of the query's numbers where the row has a 1."""
    rows = signs.shape[1]
    totals = np.zeros(rows, np.uint32 if signs.shape[0] * 64 << QUERY_BITS > 0xFFFF else np.uint16)
    both, counts = np.empty(min(rows, CHUNK), np.uint64), np.empty(min(rows, CHUNK), np.uint8)
    for start in range(0, rows, CHUNK):
        part = signs[:, start : start + CHUNK]
        total, room, count = totals[start : start + CHUNK], both[: part.shape[1]], counts[: part.shape[1]]
        for plane in planes:
            total <<= 1
            for word, bits in zip(part, plane, strict=True):
                np.bitwise_and(word, bits, out=room)
                np.bitwise_count(room, out=count)
                total += count
    return totals
