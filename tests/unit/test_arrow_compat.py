"""Values that pyarrow cannot cast as they are. Without the workaround the process of these tests ends."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from frazil.arrow_compat import castable
from frazil.write.contract.conversion import convert

LARGE, SMALL = pa.map_(pa.large_string(), pa.large_string()), pa.map_(pa.string(), pa.string())
MAP = [("a", "b"), ("c", None)]


@pytest.mark.parametrize(
    ("have", "wanted", "value"),
    [
        (LARGE, SMALL, MAP),
        (pa.list_(LARGE), pa.list_(SMALL), [MAP, None]),
        (pa.large_list(pa.struct([("m", LARGE)])), pa.list_(pa.struct([("m", SMALL)])), [{"m": MAP}, None]),
        (pa.list_(LARGE, 1), pa.list_(SMALL, 1), [MAP]),
        (pa.map_(pa.large_string(), LARGE), pa.map_(pa.string(), SMALL), [("x", MAP)]),
        (pa.map_(pa.int64(), pa.large_string()), pa.map_(pa.int64(), pa.string()), [(1, "b")]),
    ],
    ids=str,
)
def test_filtered_maps_are_cast(have: pa.DataType, wanted: pa.DataType, value: Any) -> None:
    values = pa.array([value, None, value, value], have)
    for rows in (
        values,
        values.filter(pa.array([True, True, False, True])),
        values.slice(1),
        values.slice(1).take([0, 1]),
    ):
        assert castable(rows).cast(wanted).to_pylist() == rows.to_pylist()


def test_a_value_that_does_not_fit_is_found_among_maps() -> None:
    values = pa.array([[("a", 1)], [("b", 2**40)], None], pa.map_(pa.large_string(), pa.int64()))
    converted = convert(values, pa.map_(pa.string(), pa.int32()))
    assert converted.misfits.to_pylist() == [False, True, False]
    assert converted.values.to_pylist() == [[("a", 1)], None, None]
