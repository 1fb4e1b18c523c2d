"""Checks the options that a caller gives a sink, before the table is opened and another writer is fenced."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import pyarrow as pa

from frazil.errors import SinkError
from frazil.names import TABLE_NAME, name_parts


def check_names(options: Mapping[str, Any], allowed: Collection[str], *, others: Iterable[str] = ()) -> None:
    """Raises SinkError for an option that does not exist. `others` are parameters of the call that the hint may name,
    too.

    >>> check_names({"check": ["id > 0"]}, ["checks", "threads"])
    Traceback (most recent call last):
    frazil.errors.SinkError: a sink has no option 'check'
      did you mean 'checks'? The options are checks, threads
    """
    for name in options:
        if name not in allowed:
            near = difflib.get_close_matches(name, [*allowed, *others], n=3, cutoff=0.6)
            meant = f"did you mean {' or '.join(repr(candidate) for candidate in near)}? " if near else ""
            known = f"the options are {', '.join(sorted(allowed))}"
            raise SinkError(
                f"a sink has no option '{name}'",
                hint=meant + (known[0].upper() + known[1:] if near else known),
                option=name,
            )


def check_word(name: str, value: object, allowed: Sequence[str]) -> None:
    """Raises SinkError if the value is none of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        raise _wrong(name, value, f"one of {', '.join(allowed)}")


def check_values(options: Mapping[str, Any]) -> None:
    """Raises SinkError for a number, check or folder of the wrong type or out of range; words are checked by
    `SinkOptions`.
    """
    for name, (is_right, expected) in _RULES.items():
        if name in options and not is_right(options[name]):
            raise _wrong(name, options[name], expected)


def check_table(table: object) -> tuple[str, ...]:
    """The parts of the name of a table in a catalog; raises SinkError unless it has a namespace."""
    parts = name_parts(table)
    if parts is None or len(parts) < 2:
        error = _wrong("table", table, f"{TABLE_NAME}, or the location of a Delta table")
        error.hint = f"a Delta table in a folder: './{table}' or 'delta:{table}'" if parts else None
        raise error
    return parts


def check_stream(name: object, part: object = 0) -> None:
    """Raises SinkError if the name or the part cannot be those of a stream."""
    if not isinstance(name, str) or not name:
        raise _wrong("name", name, "the name of the stream, a text that is not empty")
    if not _is_whole(part, least=0):
        raise _wrong("part", part, "a whole number from 0")


def as_checks(checks: str | Iterable[str]) -> tuple[str, ...]:
    """The checks as a tuple; a single text is one check.

    >>> as_checks("id > 0"), as_checks(["id > 0", "id < 9"])
    (('id > 0',), ('id > 0', 'id < 9'))
    """
    return (checks,) if isinstance(checks, str) else tuple(checks)


def as_position(position: Any, *, only_source: str) -> dict[str, int]:
    """The position as an offset for each source partition; raises SinkError unless offsets are whole numbers.

    >>> as_position(5, only_source="0"), as_position({"events/0": 7}, only_source="0"), as_position(None, only_source="0")
    ({'0': 5}, {'events/0': 7}, {})
    """  # noqa: E501
    if position is None:
        return {}
    offsets = position if isinstance(position, Mapping) else {only_source: position}
    for source, offset in offsets.items():
        if not isinstance(source, str) or not _is_offset(offset):
            expected = "a whole number, or one for each source partition: {'events/0': 120}"
            raise SinkError(
                f"position is {position!r:.100}: expected {expected}",
                expected=expected,
                option="position",
                got=position,
            )
    return {source: int(offset) for source, offset in offsets.items()}


def as_offsets(offsets: Any, *, source: object) -> pa.Array:
    """The offsets of rows as an Arrow array, None as NULL; raises SinkError unless the others are whole numbers."""
    if not isinstance(source, str):
        raise SinkError(
            f"source is {source!r:.100}: expected the name of a source partition, such as 'events/0'", option="source"
        )
    if isinstance(offsets, pa.ChunkedArray):
        offsets = pa.concat_arrays(offsets.chunks) if offsets.num_chunks else pa.array([], offsets.type)
    if isinstance(offsets, pa.Array):
        if not (pa.types.is_integer(offsets.type) or pa.types.is_null(offsets.type)):
            raise _no_offsets(source, f"an array of type {offsets.type}")
        return offsets if pa.types.is_integer(offsets.type) else offsets.cast(pa.int64())
    if not isinstance(offsets, Iterable) or isinstance(offsets, str | bytes | Mapping):
        raise _no_offsets(source, f"{offsets!r:.100}")
    numbers = list(offsets)
    if set(map(type, numbers)) != {int}:
        for number in numbers:
            if number is not None and not _is_offset(number):
                raise _no_offsets(source, f"{number!r:.100}")
    try:
        return pa.array([None if number is None else int(number) for number in numbers], pa.int64())
    except (OverflowError, pa.ArrowException) as exc:
        raise _no_offsets(source, "a number that is out of range") from exc


def as_names(done: Any) -> tuple[str, ...]:
    """The source partitions that are finished; raises SinkError unless they are a list of names."""
    if isinstance(done, Iterable) and not isinstance(done, str | bytes):
        names = tuple(done)
        if all(isinstance(name, str) for name in names):
            return names
    raise SinkError(
        f"done is {done!r:.100}: expected a list of source partitions, such as ['a.csv']", option="done", got=done
    )


def _no_offsets(source: str, got: str) -> SinkError:
    return SinkError(
        f"offsets of source partition '{source}': expected a whole number for each row, got {got}",
        source=source,
        got=got,
    )


def _is_offset(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral)


def _is_whole(value: object, *, least: int) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least


def _is_count(value: object) -> bool:
    return _is_whole(value, least=1)


def _is_count_or_none(value: object) -> bool:
    return value is None or _is_count(value)


def _is_seconds_or_none(value: object) -> bool:
    # NaN is not
    return value is None or (not isinstance(value, bool) and isinstance(value, Real) and float(value) >= 0)


def _is_switch(value: object) -> bool:
    return isinstance(value, bool)


def _is_path_or_none(value: object) -> bool:
    return value is None or isinstance(value, str | os.PathLike)


def _are_checks(value: object) -> bool:
    if isinstance(value, str):
        return True
    is_list = isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | Mapping)
    return is_list and (not isinstance(value, Collection) or all(isinstance(check, str) for check in value))


_RULES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "flush_rows": (_is_count_or_none, "a whole number from 1, or None"),
    "flush_bytes": (_is_count_or_none, "a whole number from 1, or None"),
    "flush_seconds": (_is_seconds_or_none, "a number of seconds from 0, or None"),
    "budget_bytes": (_is_count, "a whole number from 1"),
    "threads": (_is_count, "a whole number from 1"),
    "spool_folder": (_is_path_or_none, "a folder, or None"),
    "nested_as_json": (_is_switch, "True or False"),
    "checks": (_are_checks, "an SQL condition, or a list of them"),
}


def _wrong(name: str, value: object, expected: str) -> SinkError:
    message = f"option '{name}' is {value!r:.100}: expected {expected}"
    return SinkError(message, option=name, expected=expected, got=value)
