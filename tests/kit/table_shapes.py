"""Random tables for the tests of declarations: all types, nested, partitioned, sorted, described."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

from frazil.tables.check import can_transform, walk
from frazil.tables.declare import Table
from frazil.tables.terms import Term
from frazil.tables.types import Column, ListOf, MapOf, Struct, Type

PLAIN = [
    "boolean", "int", "long", "float", "double", "decimal(9, 2)", "decimal(38, 10)", "date", "time", "timestamp",
    "timestamptz",
    "string", "uuid", "fixed[4]", "binary",
]  # fmt: skip
ODD_NAMES = ["my site", 'say "x"', "größe", "required", "as", "desc", "1st", "it's", "a-b", "Mixed"]
TRANSFORMS = ["identity", "year", "month", "day", "hour", "bucket[16]", "bucket[3]", "truncate[4]"]

# A loaded machine is no failure.
calmly = settings(max_examples=50)

names = st.one_of(st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True), st.sampled_from(ODD_NAMES))
docs = st.one_of(
    st.none(), st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
)
plain_types = st.sampled_from(PLAIN)


def columns(types: st.SearchStrategy[Type], *, least: int = 1, most: int = 4) -> st.SearchStrategy[tuple[Column, ...]]:
    builds = st.builds(Column, names, types, st.booleans(), docs)
    return st.lists(builds, min_size=least, max_size=most, unique_by=lambda column: column.name).map(tuple)


types: st.SearchStrategy[Type] = st.recursive(
    plain_types,
    lambda inner: st.one_of(
        st.builds(Struct, columns(inner, most=3)),
        st.builds(ListOf, inner, st.booleans()),
        st.builds(MapOf, plain_types, inner, st.booleans()),
    ),
    max_leaves=5,
)


def _dedup(term: Term) -> tuple[str, str]:
    """Two of these are never in one spec: a column has one transform of time."""
    return term.source, "time" if term.transform in ("year", "month", "day", "hour") else term.transform


@st.composite
def tables(draw: st.DrawFn, *, name: str = "l.t") -> Table:
    """A declared table with terms and a key that fit its columns."""
    result = draw(columns(types, most=6))
    sources = {path: column for path, column, single in walk(result) if single and isinstance(column.type, str)}
    terms = [
        Term(t, path) for path, column in sources.items() for t in TRANSFORMS if can_transform(t, str(column.type))
    ]
    free = [t for t in terms if t.transform == "identity" or t.field_name() not in {path for path, *_ in walk(result)}]
    partitions = draw(st.lists(st.sampled_from(free), max_size=3, unique_by=(Term.field_name, _dedup))) if free else []
    orders = draw(st.lists(st.sampled_from(terms), max_size=2, unique=True)) if terms else []
    ends = st.sampled_from(["", " desc", " nulls last", " desc nulls first"])
    keyed = [c.name for c in result if c.required and isinstance(c.type, str) and c.type not in ("float", "double")]
    return Table(
        name,
        *result,
        partition_by=[str(term) for term in partitions],
        sort_by=[f"{term}{draw(ends)}" for term in orders],
        key=draw(st.lists(st.sampled_from(keyed), max_size=2, unique=True)) if keyed else [],
        properties=draw(
            st.dictionaries(
                st.sampled_from(["owner", "write.parquet.compression-codec", "x.y"]), st.sampled_from(["zstd", "a b"])
            )
        ),
        format_version=draw(st.sampled_from([None, 1, 2])),
    )
