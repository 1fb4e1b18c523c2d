"""Text in the table's types: the contract of landing files. What does not convert without loss is a bad row, never
NULL.

Text is converted where the files are written, by Arrow: a text is shorter than a decimal on the way there, and Arrow
reads it in less time than Spark, which goes through Java's BigDecimal.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.write.contract import Contract, Converted, convert, fits

HINT = "convert the column in the pipeline's function"
_NO_DIGIT = r"^[^0-9]*$"


class TextContract(Contract):
    """The contract of a table, for rows whose columns may be text."""

    def check_fields(self, schema: pa.Schema) -> None:
        """Refuses rows that lack a required field, or have one of a type from which the table's cannot come."""
        readable = [field for field in self.layout.arrow if _is_text(schema, field.name) and takes_text(field.type)]
        for field in readable:
            schema = schema.set(schema.get_field_index(field.name), field)
        super().check_fields(schema)

    def _convert(self, batch: pa.RecordBatch, wanted: pa.Field, faults: Any) -> pa.Array:
        position = batch.schema.get_field_index(wanted.name)
        if position < 0 or not _is_text(batch.schema, wanted.name) or pa.types.is_string(wanted.type):
            return super()._convert(batch, wanted, faults)
        values = batch.column(position)
        converted = convert_text(values, wanted.type)
        if converted.misfits is not None:
            texts = [f"{value!r:.100}" for value in values.filter(converted.misfits).to_pylist()]
            faults.add_each(
                converted.misfits, f"field '{wanted.name}': expected {self._spell(wanted.name)}, got ", texts
            )
        return converted.values


def takes_text(wanted: pa.DataType) -> bool:
    """Whether a text can say a value of the type in one way only.

    >>> takes_text(pa.decimal128(12, 2)), takes_text(pa.binary()), takes_text(pa.list_(pa.int32()))
    (True, False, False)
    """
    t = pa.types
    simple = (
        t.is_boolean(wanted)
        or t.is_integer(wanted)
        or t.is_floating(wanted)
        or t.is_decimal(wanted)
        or t.is_string(wanted)
    )
    return bool(simple or t.is_date(wanted) or t.is_timestamp(wanted) or _parser(wanted) is not None)


def convert_text(values: pa.Array, wanted: pa.DataType) -> Converted:
    """Converts texts to the type. A timestamp with a zone does not fit a type without one, nor the reverse. Surrounding
    blanks are ignored.

    >>> convert_text(pa.array(["12.50", "much", None]), pa.decimal128(12, 2)).misfits.to_pylist()
    [False, True, False]
    """
    if (parse := _parser(wanted)) is not None:
        return _parse_each(values, wanted, parse)
    try:
        return Converted(pc.cast(values, wanted))
    except pa.ArrowInvalid:
        return _without_misfits(values, wanted)


def _without_misfits(values: pa.Array, wanted: pa.DataType) -> Converted:
    """Sets apart what surely is no such value (no digit in it), converts what looks like one, and tries the few others
    exactly.

    What becomes of a text does not depend on its neighbours: the patterns only save the search among thousands.
    """
    trimmed = pc.utf8_trim_whitespace(values)
    hopeless = pc.fill_null(pc.match_substring_regex(trimmed, _NO_DIGIT), False) if _needs_digits(wanted) else None
    kept = trimmed if hopeless is None else pc.if_else(hopeless, pa.scalar(None, pa.string()), trimmed)
    try:
        return Converted(pc.cast(kept, wanted), hopeless)
    except pa.ArrowInvalid:
        pass
    likely = pc.fill_null(pc.match_substring_regex(kept, _looks_like(wanted)), True)
    doubtful = pc.invert(likely)
    sure = convert(pc.if_else(likely, kept, pa.scalar(None, pa.string())), wanted)
    tried = convert(kept.filter(doubtful), wanted)
    joined = pc.replace_with_mask(sure.values, doubtful, tried.values)
    misfits = pc.replace_with_mask(_mask(sure), doubtful, _mask(tried))
    return Converted(joined, misfits if hopeless is None else pc.or_(misfits, hopeless))


def _mask(converted: Converted) -> pa.Array:
    return pa.repeat(pa.scalar(False), len(converted.values)) if converted.misfits is None else converted.misfits


def _needs_digits(wanted: pa.DataType) -> bool:
    return not (pa.types.is_boolean(wanted) or pa.types.is_floating(wanted))  # true; nan, inf


def _looks_like(wanted: pa.DataType) -> str:
    """A pattern of texts that nearly surely convert; those that do not match may still."""
    t = pa.types
    if t.is_decimal(wanted):
        return rf"^-?[0-9]{{1,{max(wanted.precision - wanted.scale, 1)}}}(\.[0-9]{{0,{wanted.scale}}})?$"
    if t.is_integer(wanted):
        return rf"^-?[0-9]{{1,{9 if wanted.bit_width == 32 else 18}}}$"
    if t.is_floating(wanted):
        return r"^-?[0-9]+(\.[0-9]+)?$"
    if t.is_date(wanted):
        return r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])$"
    if t.is_timestamp(wanted):
        zone = "(Z|[+-][0-9]{2}:[0-9]{2})" if wanted.tz else ""
        return rf"^[0-9]{{4}}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])[ T]([01][0-9]|2[0-3])(:[0-5][0-9]){{2}}(\.[0-9]{{1,6}})?{zone}$"  # noqa: E501
    return r"^(true|false)$"


def _parser(wanted: pa.DataType) -> Callable[[str], Any] | None:
    """What reads a text of a type that Arrow reads none of."""
    if pa.types.is_time(wanted):
        return dt.time.fromisoformat
    if isinstance(wanted, pa.UuidType):
        return lambda text: uuid.UUID(text).bytes
    return None


def _parse_each(values: pa.Array, wanted: pa.DataType, parse: Callable[[str], Any]) -> Converted:
    result: list[Any] = []
    for text in values.to_pylist():
        try:
            result.append(None if text is None else parse(text.strip()))
        except ValueError:
            result.append(None)
    parsed = pa.array(result, wanted)
    misfits = pc.and_(parsed.is_null(), values.is_valid())
    return Converted(parsed, misfits if pc.any(misfits).as_py() else None)


def _is_text(schema: pa.Schema, name: str) -> bool:
    at = schema.get_field_index(name)
    return at >= 0 and fits(schema.field(at).type, pa.string()) and not pa.types.is_null(schema.field(at).type)
