"""A random rotation, which spreads what a vector says evenly over its numbers: 1-bit codes need that."""

from __future__ import annotations

import numpy as np

from frazil.vector.metric import Matrix


def make_rotation(dimension: int, seed: int) -> Matrix:
    """A rotation for vectors that are padded with zeros to a whole number of bytes of bits. The signs of the columns
    are fixed, so that the same seed gives the same rotation with every version of LAPACK, up to rounding.
    """
    size = padded(dimension)
    gaussian = np.random.default_rng(seed).standard_normal((size, size))
    orthogonal, triangular = np.linalg.qr(gaussian)
    return np.ascontiguousarray(orthogonal * np.sign(np.diag(triangular)), dtype=np.float32)


def rotate(vectors: Matrix, rotation: Matrix) -> Matrix:
    """The vectors in the rotated space, where all distances are the same."""
    return vectors @ rotation[: vectors.shape[1]]


def padded(dimension: int) -> int:
    """The next multiple of eight.

    >>> padded(384), padded(3)
    (384, 8)
    """
    return -(-dimension // 8) * 8
