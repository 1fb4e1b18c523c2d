"""What a caller names of a table: columns by their names, and a filter in SQL's words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField
from pyparsing import ParseException

from frazil.errors import ScanError
from frazil.pyiceberg_compat import ids_by_name
from frazil.scan.planning.filters import check_column

NO_EXTRAS: Mapping[str, NestedField] = {}


def select_fields(
    schema: Schema,
    columns: Sequence[str] | None,
    *,
    table: str,
    case_sensitive: bool = True,
    extras: Mapping[str, NestedField] = NO_EXTRAS,
) -> tuple[NestedField, ...]:
    """The columns in the order in which they were named; `person.name` is a struct with that part alone. Where the
    table itself has no column of that name, `extras` may have it.
    """
    if columns is None:
        return tuple(schema.fields)
    fields = {name: extras[name] for name in columns if name in extras and name not in ids_by_name(schema)}
    names = [
        name if name in fields else check_column(name, schema, table=table, case_sensitive=case_sensitive)
        for name in columns
    ]
    own = [name for name in names if name not in fields]
    chosen = ({field.name: field for field in schema.select(*own).fields} if own else {}) | fields
    tops = dict.fromkeys(_top(name, chosen) for name in names)
    return tuple(chosen[top] for top in tops)


def _top(name: str, chosen: dict[str, NestedField]) -> str:
    return name if name in chosen else next(top for top in chosen if name.startswith(f"{top}."))


# The type before a literal, outside of quotes: the column's own type says what the text is.
_TYPED = re.compile(r"('(?:[^']|'')*')|\b(?:DATE|TIMESTAMP|TIMESTAMPTZ|TIME|DECIMAL|UUID)\s*(?=')", re.IGNORECASE)


def parse_filter(text: str, *, table: str) -> BooleanExpression:
    """A filter from SQL's words; an error shows where it stops making sense."""
    text = _TYPED.sub(lambda match: match[1] or "", text)
    try:
        return parse(text)
    except ParseException as exc:
        near = text[exc.loc : exc.loc + 30] or text[-30:]
        hint = "write, for example: country = 'NO' AND amount > 10 OR note IS NULL, id IN (1, 2), name LIKE 'a%'"
        raise ScanError(
            f"the filter on {table} cannot be understood at: {near}", hint=hint, table=table, got=near
        ) from exc
    except (ValueError, TypeError) as exc:
        raise ScanError(f"the filter on {table} cannot be understood: {exc}", reason=str(exc), table=table) from exc
