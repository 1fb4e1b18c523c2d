"""Values as text, whatever a file holds, and the deadline of a preview."""

from __future__ import annotations

import sys
from decimal import Decimal

import pyarrow as pa
import pytest

from frazil.catalog import Request
from frazil.catalog.http import Abandoned
from frazil.console.answers import console_json, refuse_other_sites
from frazil.console.rows import cut, deadline_check, to_text
from frazil.errors import OriginRefused, Unprocessable


def invalid_text() -> pa.Array:
    return pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0"), pa.py_buffer(b"ok\xffx")]
    )


def texts(column: pa.Array) -> list[str | None]:
    return [row[0] for row in to_text(pa.table({"a": column}), ["any"])["rows"]]


def test_a_date_beyond_pythons_years_is_text_and_the_others_stay() -> None:
    first, far, null = texts(pa.array([0, 10_000_000, None], pa.int32()).cast(pa.date32()))
    assert (first, null) == ("1970-01-01", None)
    assert far


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_timestamp_beyond_pythons_years_is_text(zone: str | None) -> None:
    first, far = texts(pa.array([0, 2**62], pa.int64()).cast(pa.timestamp("us", tz=zone)))
    assert first is not None
    assert first.startswith("1970-01-01 00:00:00")
    assert far


def test_nanoseconds_are_text_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pandas"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pandas", None)
    (text,) = texts(pa.array([1_000_000_001], pa.int64()).cast(pa.timestamp("ns")))
    assert text is not None
    assert text.startswith("1970-01-01 00:00:01.00000000")


def test_text_that_is_not_utf8_is_shown_with_a_replacement() -> None:
    assert texts(invalid_text()) == ["ok", "\ufffdx"]
    assert texts(pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), invalid_text())) == ['["ok", "\ufffdx"]']
    assert texts(pa.StructArray.from_arrays([invalid_text()], ["s"])) == ['{"s": "ok"}', '{"s": "\ufffdx"}']


def test_a_long_value_says_its_length_in_its_own_unit() -> None:
    assert cut(b"\0" * 5_000) == f"{'00' * 1_000}… (5000 bytes)"
    assert cut("y" * 5_000) == f"{'y' * 2_000}… (5000 characters)"
    assert cut(Decimal("1E-10")) == "0.0000000001"


def test_a_preview_stops_at_its_deadline_or_when_the_client_leaves() -> None:
    now, request = [0.0], Request("GET", "/", {})
    check = deadline_check(request, 10, clock=lambda: now[0])
    now[0] = 10
    check()
    now[0] = 10.1
    with pytest.raises(Unprocessable, match="longer than 10 seconds") as refused:
        check()
    assert refused.value.hint
    request.left = True
    with pytest.raises(Abandoned):
        check()


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site "])
def test_pages_of_other_sites_are_refused(site: str) -> None:
    with pytest.raises(OriginRefused):
        refuse_other_sites(Request("GET", "/", {}, headers={b"sec-fetch-site": site.encode()}))


@pytest.mark.parametrize("headers", [{}, {b"sec-fetch-site": b"same-origin"}, {b"sec-fetch-site": b"none"}])
def test_this_site_and_other_clients_pass(headers: dict[bytes, bytes]) -> None:
    refuse_other_sites(Request("GET", "/", {}, headers=headers))


def test_json_is_not_cached() -> None:
    answer = console_json({"a": 1})
    assert answer.body == console_json(b'{"a":1}').body
    assert dict(answer.headers)[b"cache-control"] == b"no-store"
