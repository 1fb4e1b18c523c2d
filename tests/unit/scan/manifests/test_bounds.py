"""Bounds of metadata as values that can be compared."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.types import DecimalType

from frazil.scan.manifests.bounds import decode

DIGITS = "12345678901234567890123456789012345678"


@pytest.mark.parametrize("scale", [0, 10, 38])
@pytest.mark.parametrize("sign", [1, -1])
def test_decimals_of_38_digits_keep_them_all(scale: int, sign: int) -> None:
    """Python's own context rounds to 28 digits: a file whose bounds are rounded inwards would be skipped wrongly."""
    raw = (sign * int(DIGITS)).to_bytes(16, "big", signed=True)
    (result,) = decode(pa.array([raw], pa.binary()), DecimalType(38, scale)).to_pylist()
    assert result == Decimal((0 if sign > 0 else 1, tuple(map(int, DIGITS)), -scale))


def test_a_decimal_beyond_38_digits_says_nothing() -> None:
    raw = (10**38).to_bytes(16, "big", signed=True)
    assert decode(pa.array([raw], pa.binary()), DecimalType(38, 0)).to_pylist() == [None]
