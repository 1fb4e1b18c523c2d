"""A row as one line of JSON, and back into the table's types without losing anything.

The text stays as plain as JSON can be: moments and dates in ISO form, decimals as their digits, bytes as base64. Read
back by the column's type, that says the same as before, nearly always; whether it does is tried while it is written.
Where it would not, the value that the table took is written instead; and a value that the table refused, though its
text could pass (the text "12.50" where a decimal was expected), is marked as unfit.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import chain
from numbers import Number, Real
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

UNFIT = "$unfit"
# what Arrow and Python say of a value that is none of a type
REFUSALS = (pa.ArrowException, ValueError, TypeError, ArithmeticError)
_PLAIN_INTEGERS = frozenset({int, type(None)})
_PLAIN_FLOATS = frozenset({float, int, type(None)})
_FLOAT_ROUNDS_TO_INFINITY = 2.0**128 - 2.0**103  # halfway between the greatest float and the next power of two
_FINER_THAN_MICROS = re.compile(r"[.,]\d{6}0*[1-9]")


@dataclass(frozen=True, repr=False)
class Unfit:
    """A value that the table has refused: Arrow takes it for no type."""

    value: Any

    def __repr__(self) -> str:
        return repr(self.value)


def as_json(row: Any) -> str:
    """A row, or a nested value, as one line of JSON; what JSON has no word for is written as text.

    >>> as_json({"id": 1, "price": Decimal("1.50"), "data": b"ab"})
    '{"id":1,"price":"1.50","data":"YWI="}'
    """
    text = json.dumps(plain(row), ensure_ascii=False, separators=(",", ":"))
    # Half of a pair of surrogates is no UTF-8, and Parquet takes no other; escaped it is.
    return text if text.isascii() or _is_utf8(text) else json.dumps(plain(row), separators=(",", ":"))


def parse_row(text: str, schema: pa.Schema) -> dict[str, Any]:
    """The row that was written as JSON, its values as the columns of the schema want them; raises ValueError if it is
    no JSON object.

    What cannot be a value of its column is left as it is: the contract will say so.
    """
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError(f"expected a JSON object, got {text:.100}")
    return {
        name: parse_value(value, schema.field(name).type) if name in schema.names else value
        for name, value in document.items()
    }


def parse_value(value: Any, kind: pa.DataType) -> Any:
    """A value out of JSON as its column wants it."""
    if isinstance(value, dict) and set(value) == {UNFIT}:
        return Unfit(value[UNFIT])
    return _parse(value, kind)


def faithful(value: Any, taken: pa.Array | None, kind: pa.DataType) -> Any:
    """A value, ready for JSON, that is read back as what the table made of it: `taken` holds that, or is None where it
    was refused.
    """
    if _speaks_for_itself(value, kind):
        return value
    text = plain(value)
    again = as_column(parse_value(text, kind), kind)
    if (taken is None and again is None) or (taken is not None and again is not None and _same(taken, again)):
        return text
    return {UNFIT: text} if taken is None else plain(_python_value(taken))


def as_column(value: Any, kind: pa.DataType) -> pa.Array | None:
    """A Python value as an Arrow array of one; None where Arrow refuses it."""
    try:
        return arrow_array([value], kind)
    except REFUSALS:
        return None


def arrow_array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Python values as an Arrow array; where Arrow would cut them, or end the process, they are refused."""
    _check_nested(values, kind)
    return pa.array(values, kind)


def _check_plain(values: Sequence[Any], kind: pa.DataType) -> None:
    """Raises ValueError for a value that Arrow would change to fit a type that is not nested."""
    if pa.types.is_integer(kind):
        if not _PLAIN_INTEGERS.issuperset(map(type, values)):
            _check_integers(values)
    elif pa.types.is_floating(kind):
        if not _PLAIN_FLOATS.issuperset(map(type, values)):
            _check_no_booleans(values)
        if kind.bit_width == 32 and pc.any(pc.is_inf(pa.array(values, kind))).as_py():
            _check_float_range(values)
    elif pa.types.is_temporal(kind):
        _check_times(values, kind)


def _check_integers(values: Iterable[Any]) -> None:
    for value in values:
        if type(value) is not int and isinstance(value, Real | Decimal) and value != value // 1:
            raise ValueError(f"{value!r} is no whole number")  # Arrow would cut 1.5 to 1 without a word
        if _is_boolean(value) or (_converts_to_int(value) and not isinstance(value, Real | Decimal)):
            raise ValueError(f"{value!r} is no number")  # Arrow would call its __int__: a UUID has one


def _check_no_booleans(values: Iterable[Any]) -> None:
    for value in values:
        if _is_boolean(value):
            raise ValueError(f"{value!r} is no number")


def _check_float_range(values: Iterable[Any]) -> None:
    for value in values:
        if value is not None and not math.isinf(value) and abs(value) >= _FLOAT_ROUNDS_TO_INFINITY:
            raise ValueError(f"{value!r} is out of the range of float")  # Arrow would store infinity


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", None) == "b"  # of numpy


def _converts_to_int(value: Any) -> bool:
    return hasattr(value, "__int__") and not isinstance(value, pa.Scalar)


def _check_times(values: Iterable[Any], kind: pa.DataType) -> None:
    """Refuses what Arrow would take for another time without a word: a moment with a zone for a wall clock or the other
    way round, the day of a moment for the moment, a number (of microseconds, of days) for a time.
    """
    is_moment, is_date = pa.types.is_timestamp(kind), pa.types.is_date(kind)
    zoned = is_moment and kind.tz is not None
    for value in values:
        if isinstance(value, dt.datetime):
            if is_moment and (value.tzinfo is not None) is not zoned:
                raise ValueError(f"{value!r} has {'no' if zoned else 'a'} zone")
            if is_date and (value.tzinfo is not None or value.time() != dt.time.min):
                raise ValueError(f"{value!r} is more than a day")
        elif isinstance(value, dt.time):
            if value.tzinfo is not None:
                raise ValueError(f"{value!r} has a zone")
        elif value is not None and (
            isinstance(value, Number) or (_converts_to_int(value) and not _is_numpy_time(value))
        ):
            raise ValueError(f"{value!r} is a number: of which unit, and since when, it does not say")


def _is_numpy_time(value: Any) -> bool:
    return getattr(getattr(value, "dtype", None), "kind", None) in ("M", "m")


def _check_nested(values: Sequence[Any], kind: pa.DataType) -> None:
    """Raises ValueError for values inside nested values that Arrow would change, for text and bytes in place of a
    nested value (Arrow takes them for a list of their characters), and for NULL in place of an entry of a map: Arrow
    aborts on it.
    """
    if not pa.types.is_nested(kind):
        return _check_plain(values, kind)
    present = [value for value in values if value is not None]
    for kind_found in set(map(type, present)):
        if issubclass(kind_found, str | bytes | bytearray | memoryview):
            raise ValueError(f"{kind_found.__name__} is no {kind}")
    if pa.types.is_struct(kind):
        for position, field in enumerate(kind):
            _check_nested(_members(present, position, field.name), field.type)
    elif pa.types.is_map(kind):
        maps = (
            value.items() if isinstance(value, Mapping) else value for value in present if isinstance(value, Collection)
        )
        entries = [_entry(entry, kind) for entry in chain.from_iterable(maps)]
        _check_nested([key for key, _ in entries], kind.key_type)
        _check_nested([item for _, item in entries], kind.item_type)
    elif pa.types.is_list(kind):
        lists = (value for value in present if isinstance(value, Collection) and not isinstance(value, Mapping))
        _check_nested(list(chain.from_iterable(lists)), kind.value_type)
    return None


def _members(structs: Iterable[Any], position: int, name: str) -> list[Any]:
    """One field of structs, which are mappings, or tuples in the order of the fields."""
    return [
        value.get(name) if isinstance(value, Mapping) else value[position]
        for value in structs
        # Arrow refuses a tuple of another length
        if isinstance(value, Mapping) or (isinstance(value, tuple) and position < len(value))
    ]


def _entry(entry: Any, kind: pa.DataType) -> tuple[Any, Any]:
    if entry is None:
        raise ValueError("an entry of a map is NULL")
    if isinstance(entry, Mapping):
        return entry.get(kind.key_field.name), entry.get(kind.item_field.name)
    key, item = entry
    return key, item


def python_value(values: pa.Array) -> Any:
    """The one value of an array for Python; as a number or a note where Python's own types have no room for it."""
    if pa.types.is_time64(values.type) and values.type.unit == "ns" and values[0].is_valid and values[0].value % 1000:
        return Unfit(f"{values[0].value} ns")  # Python would cut it
    return _python_value(values)


def _python_value(values: pa.Array) -> Any:
    try:
        return values[0].as_py()
    except (ValueError, OverflowError):
        pass
    try:
        return (
            values.cast(pa.timestamp("us", values.type.tz))[0].value
            if pa.types.is_timestamp(values.type)
            else values[0].value
        )
    except (pa.ArrowException, AttributeError):
        return Unfit(f"a value of type {values.type} that Python cannot hold")


def plain(value: Any) -> Any:
    """A value as JSON's own types."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {name if isinstance(name, str) else str(plain(name)): plain(element) for name, element in value.items()}
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, Unfit):
        return {UNFIT: plain(value.value)}
    if isinstance(value, Sequence | set | frozenset):
        return [plain(element) for element in value]
    if hasattr(value, "tolist") and getattr(value, "dtype", None) is not None and value.dtype.kind in "biuf":
        return plain(value.tolist())  # of numpy
    return str(value)


def _parse(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, str):
        return _parse_text(value, kind)
    if type(value) is int and pa.types.is_temporal(kind):
        return _parse_far_time(value, kind)
    if isinstance(value, list) and pa.types.is_map(kind):
        pairs = all(isinstance(element, list) and len(element) == 2 for element in value)
        return [(_parse(key, kind.key_type), _parse(item, kind.item_type)) for key, item in value] if pairs else value
    if isinstance(value, list) and pa.types.is_list(kind):
        return [_parse(element, kind.value_type) for element in value]
    if isinstance(value, dict) and pa.types.is_map(kind):
        return [(_parse(key, kind.key_type), _parse(item, kind.item_type)) for key, item in value.items()]
    if isinstance(value, dict) and pa.types.is_struct(kind):
        known = {field.name: field.type for field in kind}
        return {name: _parse(element, known[name]) if name in known else element for name, element in value.items()}
    return value


def _parse_far_time(value: int, kind: pa.DataType) -> Any:
    """A date or moment that Python cannot hold, which was written as its number; the number itself where it is none of
    these.
    """
    try:
        scalar = (
            pa.scalar(value, pa.timestamp("us", kind.tz)).cast(kind)
            if pa.types.is_timestamp(kind)
            else pa.scalar(value, kind)
        )
    except REFUSALS:
        return value
    try:
        scalar.as_py()
    except (ValueError, OverflowError):
        return scalar
    return value


def _parse_text(text: str, kind: pa.DataType) -> Any:
    """The text as a value of the type; the text itself where it is none. Pipelines quarantine rows as the text that
    they read.
    """
    t = pa.types
    if t.is_string(kind):
        return text
    if t.is_binary(kind) or t.is_fixed_size_binary(kind) or isinstance(kind, pa.UuidType):
        return _parse_bytes(text, kind)
    try:
        return _parse_plain(text.strip(), kind)
    except (ValueError, InvalidOperation):
        return text


def _parse_plain(text: str, kind: pa.DataType) -> Any:
    t = pa.types
    if t.is_timestamp(kind):
        moment = dt.datetime.fromisoformat(text)
        # A moment with a zone and a wall clock without one are two things.
        return text if _FINER_THAN_MICROS.search(text) or (moment.tzinfo is None) != (kind.tz is None) else moment
    if t.is_date(kind):
        return dt.date.fromisoformat(text)
    if t.is_time(kind):
        return text if _FINER_THAN_MICROS.search(text) else dt.time.fromisoformat(text)
    if t.is_decimal(kind):
        return text if "_" in text else Decimal(text)
    if t.is_integer(kind) or t.is_floating(kind) or t.is_boolean(kind):
        return pa.array([text]).cast(kind)[0].as_py()
    return text


def _parse_bytes(text: str, kind: pa.DataType) -> Any:
    try:
        if isinstance(kind, pa.UuidType) and "-" in text:
            return UUID(text)
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return Unfit(text)  # Arrow would take text for bytes: what is not base64 must not pass for them


def _speaks_for_itself(value: Any, kind: pa.DataType) -> bool:
    """Whether JSON's own types say all of it, as they do of most values; trying each would take its time."""
    if isinstance(value, str):
        return bool(pa.types.is_string(kind))
    is_number = pa.types.is_primitive(kind) and not pa.types.is_temporal(kind)
    return value is None or (isinstance(value, bool | int | float) and is_number)


def _same(left: pa.Array, right: pa.Array) -> bool:
    if left.type != right.type or left.equals(right):
        return bool(left.type == right.type)
    try:
        return repr(left.to_pylist()) == repr(right.to_pylist())  # NaN equals nothing, not even itself
    except (ValueError, OverflowError):
        return False


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
