"""Which files have only rows that a filter wants: what a count need not look into."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression, Not
from pyiceberg.expressions.visitors import extract_field_ids, rewrite_not
from pyiceberg.schema import Schema

from frazil.scan.manifests import REAL, Manifest
from frazil.scan.planning.prune import Skip, both, skip_mask


def sure_mask(bound: BooleanExpression, schema: Schema, manifest: Manifest) -> Skip:
    """Where every row matches, for certain. Without nulls and NaNs, a row that does not match a filter matches its
    opposite: so the files that the opposite could skip are those.
    """
    certain: Skip = True
    columns = {field.field_id: field for field in schema.fields}
    for field_id in extract_field_ids(bound):
        field = columns.get(field_id)
        # Inside of a struct, writers differ in what they count as null.
        if field is None or not field.field_type.is_primitive:
            return False
        known = manifest.column_range(field)
        certain = both(certain, lambda known=known: _or_false(known.no_null))  # type: ignore[misc]
        if isinstance(field.field_type, REAL):
            certain = both(certain, lambda known=known: _or_false(known.no_nan))  # type: ignore[misc]
    return both(certain, lambda: skip_mask(rewrite_not(Not(bound)), manifest.column_range))


def _or_false(mask: pa.BooleanArray | None) -> Skip:
    return False if mask is None else mask


def as_list(mask: Skip, rows: pa.Array | None, count: int) -> list[bool]:
    """A mask over a manifest for some of its rows."""
    if isinstance(mask, bool):
        return [mask] * count
    kept = mask if rows is None else mask.take(rows)
    return list(pc.fill_null(kept, False).to_pylist())
