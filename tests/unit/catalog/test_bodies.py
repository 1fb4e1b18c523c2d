"""Unpacking in steps, the budget of requests in flight, and the count of JSON values."""

from __future__ import annotations

import gzip
import os
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.catalog.bodies import STEP_BYTES, Budget, Share, TooLong, Unpackable, count_values, unpack_gzip
from frazil.errors import TooBusy

SIZES = [0, 1, STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1, 3 * STEP_BYTES + 5]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["noise", "zeros"])
def test_what_was_packed_is_unpacked(size: int, kind: str) -> None:
    plain = random.Random(size).randbytes(size) if kind == "noise" else bytes(size)
    assert unpack_gzip(gzip.compress(plain), max_bytes=10 * STEP_BYTES, max_ratio=10_000) == plain


def test_a_bomb_is_stopped_after_the_step_that_exceeds_the_limit() -> None:
    taken: list[int] = []
    with pytest.raises(TooLong, match="more than 3145728 bytes"):
        unpack_gzip(
            gzip.compress(bytes(100 * STEP_BYTES)), max_bytes=3 * STEP_BYTES, max_ratio=10_000, take=taken.append
        )
    assert sum(taken) <= 3 * STEP_BYTES
    with pytest.raises(TooLong, match="more than 100 times"):
        unpack_gzip(gzip.compress(bytes(100 * STEP_BYTES)), max_bytes=1000 * STEP_BYTES, max_ratio=100)


@pytest.mark.parametrize(
    "packed",
    [b"", b"\x1f\x8b", b"nonsense", gzip.compress(b"x" * 999)[:-1], gzip.compress(b"a") + b"b"],
    # the bytes hold the time: other names in each worker
    ids=["empty", "only the mark", "nonsense", "cut", "followed by more"],
)
def test_what_is_not_one_whole_gzip_is_refused(packed: bytes) -> None:
    with pytest.raises(Unpackable):
        unpack_gzip(packed, max_bytes=1000, max_ratio=100)


def test_two_members_are_refused_wherever_the_second_begins() -> None:
    first = gzip.compress(os.urandom(STEP_BYTES - 200), 0)
    padding = STEP_BYTES - len(first)
    assert 0 < padding < 200
    for more in (padding, padding + 1):
        with pytest.raises(Unpackable):
            unpack_gzip(first + bytes(more), max_bytes=10 * STEP_BYTES, max_ratio=100)


def test_the_budget_is_given_back_once_and_never_exceeded() -> None:
    budget = Budget(1000)

    def use(number: int) -> bool:
        share = Share(budget)
        try:
            for _ in range(4):
                share.take(50 + number % 7)
                assert budget.taken <= 1000
        except TooBusy:
            return False
        finally:
            share.release()
            share.release()
        return True

    with ThreadPoolExecutor(8) as threads:
        assert any(threads.map(use, range(500)))
    assert budget.taken == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=40,
)


@given(JSON)
def test_the_count_is_never_below_the_number_of_values(value: Any) -> None:
    assert count_values(orjson.dumps(value), 10**9) >= _count(value)


def _count(value: Any) -> int:
    """Values, an object's keys not counted."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(_count(part) for part in parts)
