"""Reading fields out of JSON that a client sent: the value in its type, or a refusal that names the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from frazil.errors import BadRequest

Json = dict[str, Any]

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


def _wrong(where: str, field: str, expected: str, value: Any) -> BadRequest:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return BadRequest(
        f"{where}: '{field}' must be {expected}, got {shown}"
        if value is not None
        else f"{where}: '{field}' is missing",
        option=field,
        expected=expected,
        got=value,
    )


def text(source: Mapping[str, Any], field: str, where: str) -> str:
    value = source.get(field)
    if not isinstance(value, str):
        raise _wrong(where, field, "text", value)
    return value


def uuid_text(source: Mapping[str, Any], field: str, where: str) -> str:
    value = text(source, field, where)
    try:
        UUID(value)
    except ValueError:
        raise _wrong(where, field, "a UUID", value) from None
    return value


def text_or_none(source: Mapping[str, Any], field: str, where: str) -> str | None:
    return None if source.get(field) is None else text(source, field, where)


def integer(source: Mapping[str, Any], field: str, where: str, *, most: int = INT_MAX) -> int:
    """A whole number that fits the specification's type: 32 bits, or 64 with `most=LONG_MAX`."""
    value = source.get(field)
    if type(value) is not int:  # bool is an int to isinstance
        raise _wrong(where, field, "an integer", value)
    if not -most - 1 <= value <= most:
        raise _wrong(where, field, f"at most {most.bit_length() + 1} bits", value)
    return value


def integer_or_none(source: Mapping[str, Any], field: str, where: str, *, most: int = INT_MAX) -> int | None:
    return None if source.get(field) is None else integer(source, field, where, most=most)


def boolean(source: Mapping[str, Any], field: str, where: str, *, default: bool | None = None) -> bool:
    value = source.get(field, default)
    if not isinstance(value, bool):
        raise _wrong(where, field, "true or false", value)
    return value


def mapping(source: Mapping[str, Any], field: str, where: str) -> Json:
    value = source.get(field)
    if not isinstance(value, dict):
        raise _wrong(where, field, "an object", value)
    return value


def objects(source: Mapping[str, Any], field: str, where: str, *, optional: bool = False) -> list[Json]:
    """A list of objects."""
    value = source.get(field)
    if value is None and optional:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise _wrong(where, field, "a list of objects", value)
    return value


def integers(source: Mapping[str, Any], field: str, where: str, *, most: int = INT_MAX) -> list[int]:
    value = source.get(field)
    if not isinstance(value, list) or not all(type(item) is int and -most - 1 <= item <= most for item in value):
        raise _wrong(where, field, "a list of integers", value)
    return value


def texts(source: Mapping[str, Any], field: str, where: str) -> list[str]:
    value = source.get(field)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(where, field, "a list of text", value)
    return value


def properties(source: Mapping[str, Any], field: str, where: str, *, optional: bool = False) -> dict[str, str]:
    """An object whose values are text."""
    value = source.get(field)
    if value is None and optional:
        return {}
    if not isinstance(value, dict):
        raise _wrong(where, field, "an object of text", value)
    for key, item in value.items():
        if not isinstance(item, str):
            raise _wrong(where, f"{field}.{key}", "text", item if item is not None else "null")
    return value
