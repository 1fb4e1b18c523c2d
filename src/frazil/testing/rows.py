"""Rows of a test as Arrow: values as people write them, in the types that the table has."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from frazil.errors import DeclarationError

Row = Mapping[str, Any]


def typed_rows(rows: Sequence[Row], schema: pa.Schema, *, what: str) -> pa.Table:
    """The rows with all columns of the schema; columns that a row leaves out are NULL.

    >>> schema = pa.schema([("id", pa.int64()), ("amount", pa.decimal128(9, 2))])
    >>> typed_rows([{"amount": "1.5"}], schema, what="orders").to_pylist()
    [{'id': None, 'amount': Decimal('1.50')}]
    """
    for row in rows:
        if unknown := [name for name in row if name not in schema.names]:
            raise DeclarationError(
                f"{what}: there is no column '{unknown[0]}'; there are {', '.join(schema.names)}",
                column=unknown[0],
                problem="missing",
            )
    columns = [_column([row.get(field.name) for row in rows], field, what) for field in schema]
    return pa.table(columns, schema=pa.schema([field.with_nullable(True) for field in schema]))


def inferred_rows(rows: Sequence[Row], *, what: str) -> pa.Table:
    """The rows in the types of their values, where the table is declared nowhere.

    >>> inferred_rows([{"id": 1}, {"id": 2, "name": "b"}], what="orders").to_pylist()
    [{'id': 1, 'name': None}, {'id': 2, 'name': 'b'}]
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        raise DeclarationError(
            f"{what}: the table is declared nowhere, and there is no row that shows its columns",
            hint="declare the table in lakehouse.py, or give a row",
            problem="missing",
        )
    try:
        arrays = [pa.array([row.get(name) for row in rows]) for name in names]
    except (pa.ArrowInvalid, pa.ArrowTypeError) as exc:
        raise DeclarationError(f"{what}: the values of a column have several types: {exc}") from exc
    return pa.table([array.cast(pa.string()) if pa.types.is_null(array.type) else array for array in arrays], names)


def _column(values: Sequence[Any], field: pa.Field, what: str) -> pa.Array:
    converted = []
    for number, value in enumerate(values, start=1):
        try:
            converted.append(pa.scalar(convert(value, field.type), field.type).as_py())
        except (ValueError, TypeError, InvalidOperation, pa.ArrowException) as exc:
            raise DeclarationError(
                f"{what}, row {number}, {field.name}: expected {field.type}, got {value!r}",
                column=field.name,
                expected=str(field.type),
                got=value,
            ) from exc
    return pa.array(converted, field.type)


def convert(value: Any, kind: pa.DataType) -> Any:
    """A value as Arrow takes it for a type.

    >>> convert("2024-01-15", pa.date32()), convert(12.5, pa.decimal128(9, 2)), convert(7, pa.string())
    (datetime.date(2024, 1, 15), Decimal('12.50'), '7')
    """
    if value is None:
        return None
    if pa.types.is_decimal(kind):
        return _decimal(value, kind.scale)
    if pa.types.is_date(kind) and isinstance(value, str):
        return datetime.date.fromisoformat(value)
    if pa.types.is_timestamp(kind):
        return _timestamp(value, zoned=kind.tz is not None)
    if pa.types.is_time(kind) and isinstance(value, str):
        return datetime.time.fromisoformat(value)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return value.isoformat() if isinstance(value, datetime.date) else str(value)
    if pa.types.is_binary(kind) and isinstance(value, str):
        return value.encode()
    return _nested(value, kind)


def _nested(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [convert(each, kind.value_type) for each in value]
    if pa.types.is_struct(kind):
        return {field.name: convert(value.get(field.name), field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(convert(key, kind.key_type), convert(each, kind.item_type)) for key, each in dict(value).items()]
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_integer(kind) and isinstance(value, str):
        return int(value)
    return value


def _decimal(value: Any, scale: int) -> Decimal:
    number = Decimal(str(value))
    exact = number.quantize(Decimal(1).scaleb(-scale))
    if exact != number:
        raise ValueError(f"{value} has more than {scale} digits after the point")
    return exact


def _timestamp(value: Any, *, zoned: bool) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        moment = value
    elif isinstance(value, str):
        moment = datetime.datetime.fromisoformat(value)
    else:
        moment = datetime.datetime.combine(value, datetime.time())
    if zoned:
        return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    return moment.astimezone(datetime.UTC).replace(tzinfo=None) if moment.tzinfo else moment
