"""Numbers of integer keys that lie close together are those that Arrow's hash kernels give."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.write.upsert.keys import CLOSE, CloseKeys, KeyIndex

MOST = {pa.int32(): 2**31 - 1, pa.int64(): 2**63 - 1}


@given(
    kind=st.sampled_from(list(MOST)),
    steps=st.lists(st.integers(0, 40), min_size=1, max_size=40, unique=True),
    end=st.sampled_from(["least", "zero", "most"]),
)
def test_close_keys_are_found_at_both_ends_of_their_type(kind: pa.DataType, steps: list[int], end: str) -> None:
    start = {"least": -MOST[kind] - 1, "zero": -20, "most": MOST[kind] - 40}[end]
    keys = pa.array([start + step for step in steps], kind)
    if (close := CloseKeys.of(keys)) is not None:
        values = pa.array([*range(start, start + 41), 0, -1, -MOST[kind] - 1, MOST[kind], None], kind)
        assert close.find(values).to_pylist() == pc.index_in(values, value_set=keys).to_pylist()
        assert close.count == len(keys)


@pytest.mark.parametrize("keys", [[], [0, CLOSE * 2], ["a", "b"], [1 << 40, -(1 << 62)]])
def test_other_keys_are_hashed(keys: list[object]) -> None:
    kind = pa.string() if keys and isinstance(keys[0], str) else pa.int64()
    assert CloseKeys.of(pa.array(keys, kind)) is None


@given(keys=st.lists(st.integers(0, 30), max_size=40))
def test_keys_are_numbered_by_first_appearance(keys: list[int]) -> None:
    rows = pa.table({"id": pa.array(keys, pa.int64())})
    first = list(dict.fromkeys(keys))
    index = KeyIndex.of(rows, ["id"])
    assert (len(index), index.find(rows).to_pylist()) == (len(first), [first.index(key) for key in keys])
