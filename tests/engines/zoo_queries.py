"""The questions that every engine is asked about the zoo, each in SQL, with the part of it that a scan takes.

Light on purpose: `make docs` reads it for the page docs/engine-matrix.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ENGINES = ("pyiceberg", "frazil", "daft", "duckdb", "polars", "spark", "trino")
# no SQL of their own: they filter and project, the rest of the question is asked of their Arrow rows
SCANS = ("pyiceberg", "frazil")


@dataclass(frozen=True)
class Query:
    """A question about one table. `{t}` in its SQL is the table, at the point in time that is asked for."""

    name: str
    table: str
    sql: str
    columns: tuple[str, ...] = ("id",)  # for a scan
    filter: str | None = None  # for a scan: as much of the WHERE as its language has
    at: str | None = None  # a tag or branch
    by: str = "ref"  # how the point is named: "ref", "snapshot" or "time"
    ordered: bool = False
    spelled: Mapping[str, str] = field(default_factory=dict)  # the same in the words of an engine
    # where DuckDB, which computes what is right from plain rows, has another opinion than Iceberg
    truth: str | None = None


def _select(columns: str, *, where: str = "") -> str:
    return f"SELECT {columns} FROM {{t}}" + (f" WHERE {where}" if where else "")


def _plain(name: str, table: str, where: str = "", **more: object) -> Query:
    """Rows of a table with the plain columns."""
    return Query(name, table, _select("id, country, n", where=where), ("id", "country", "n"), where or None, **more)  # type: ignore[arg-type]


def _daft_time(text: str) -> str:
    """Daft's TIMESTAMP literals are in UTC; one without a zone has no shorter name in its SQL."""
    return f"to_datetime('{text}', '%Y-%m-%d %H:%M:%S')"


ALL_TYPES = ("id", "flag", "i", "f", "d", "price", "big", "day", "seen", "seen_utc", "name")
AFTER = "2024-02-29 19:30:00"
PEOPLE = ("id", "person.name", "person.home.city")

TYPES = [
    Query("numbers, texts and times", "types", _select(", ".join(ALL_TYPES)), ALL_TYPES),
    Query("binary and fixed", "types", _select("id, code, raw"), ("id", "code", "raw")),
    Query("uuid", "types", _select("id, key"), ("id", "key")),
    Query("boolean filter", "types", _select("id", where="flag = true"), ("id", "flag"), "flag = true"),
    Query(
        "range of ints",
        "types",
        _select("id, i", where="i >= -1000 AND i < 5000"),
        ("id", "i"),
        "i >= -1000 and i < 5000",
    ),
    Query(
        "range of doubles", "types", _select("id, d", where="d > 0.5 AND d < 100"), ("id", "d"), "d > 0.5 and d < 100"
    ),
    Query(
        "NaN is above no number",
        "types",
        _select("id", where="d > 0.5"),
        ("id", "d"),
        "d > 0.5",
        truth=_select("id", where="d > 0.5 AND NOT isnan(d)"),
    ),
    Query("decimal filter", "types", _select("id, price", where="price >= 3.25"), ("id", "price"), "price >= 3.25"),
    Query("date filter", "types", _select("id", where="day > DATE '2024-02-29'"), ("id", "day"), "day > '2024-02-29'"),
    Query(
        "timestamp filter",
        "types",
        _select("id", where=f"seen >= TIMESTAMP '{AFTER}'"),
        ("id", "seen"),
        f"seen >= '{AFTER.replace(' ', 'T')}'",
        spelled={"daft": _select("id", where=f"seen >= {_daft_time(AFTER)}")},
    ),
    Query(
        "timestamp with zone filter",
        "types",
        _select("id, seen_utc", where=f"seen_utc >= TIMESTAMPTZ '{AFTER}+00:00'"),
        ("id", "seen_utc"),
        f"seen_utc >= '{AFTER.replace(' ', 'T')}+00:00'",
        spelled={
            "trino": _select("id, seen_utc", where=f"seen_utc >= TIMESTAMP '{AFTER} +00:00'"),
            "spark": _select("id, seen_utc", where=f"seen_utc >= TIMESTAMP '{AFTER}+00:00'"),
            "daft": _select("id, seen_utc", where=f"seen_utc >= TIMESTAMP '{AFTER} +0000'"),
        },
    ),
    Query("text by prefix", "types", _select("id, name", where="name LIKE 'nä%'"), ("id", "name"), "name LIKE 'nä%'"),
    Query(
        "one of several",
        "types",
        _select("id", where="name IN ('item-2', 'näme-1', 'x')"),
        ("id", "name"),
        "name in ('item-2', 'näme-1', 'x')",
    ),
    Query("not, with nulls", "types", _select("id", where="NOT (i > 0)"), ("id", "i"), "not (i > 0)"),
    Query(
        "or, with nulls",
        "types",
        _select("id", where="name IS NULL OR i < 0"),
        ("id", "i", "name"),
        "name is null or i < 0",
    ),
    Query(
        "counts", "types", _select("count(*) AS a, count(name) AS b, count(DISTINCT flag) AS c"), ("id", "name", "flag")
    ),
    Query("sum of decimals", "types", _select("sum(price) AS s, min(big) AS a, max(big) AS b"), ("price", "big")),
    Query("grouped", "types", _select("flag, count(*) AS c, max(day) AS m") + " GROUP BY flag", ("flag", "day")),
    Query(
        "the largest three",
        "types",
        _select("id, i", where="i IS NOT NULL") + " ORDER BY i DESC LIMIT 3",
        ("id", "i"),
        "i is not null",
        ordered=True,
    ),
    Query("time of day", "clocks", _select("id, clock"), ("id", "clock")),
    Query("nanoseconds", "nanos", _select("id, seen"), ("id", "seen")),
]
NESTED = [
    Query("a field of a struct", "nested", _select("id, person.name AS a, person.home.city AS b"), PEOPLE),
    Query(
        "filter on a nested field",
        "nested",
        _select("id", where="person.age > 24"),
        ("id", "person.age"),
        "person.age > 24",
    ),
    Query("a struct that is null", "nested", _select("id", where="person IS NULL"), ("id", "person")),
    Query("whole structs", "nested", _select("id, person"), ("id", "person")),
    Query("whole lists and maps", "nested", _select("id, tags, scores"), ("id", "tags", "scores")),
    Query(
        "an element of a list",
        "nested",
        _select("id, tags[1] AS a"),
        ("id", "tags"),
        spelled={
            "daft": _select("id, tags[0] AS a"),
            "spark": _select("id, try_element_at(tags, 1) AS a"),
            "trino": _select("id, element_at(tags, 1) AS a"),
        },
    ),
    Query(
        "a value of a map",
        "nested",
        _select("id, scores['k0'] AS a"),
        ("id", "scores"),
        spelled={
            "spark": _select("id, try_element_at(scores, 'k0') AS a"),
            "trino": _select("id, element_at(scores, 'k0') AS a"),
        },
    ),
    Query("lists of structs", "nested", _select("id, lines"), ("id", "lines")),
]
PARTITIONS = [
    Query(
        "every transform",
        "transforms",
        _select("id, country, name, y, m, d, h, gone"),
        ("id", "country", "name", "y", "m", "d", "h", "gone"),
    ),
    Query("identity", "transforms", _select("id", where="country = 'SE'"), ("id", "country"), "country = 'SE'"),
    Query("bucket", "transforms", _select("id, name", where="id = 3"), ("id", "name"), "id = 3"),
    Query("truncate", "transforms", _select("id", where="name LIKE 'b3%'"), ("id", "name"), "name LIKE 'b3%'"),
    Query(
        "year and month",
        "transforms",
        _select("id", where="y >= TIMESTAMP '2023-01-01 00:00:00' AND m < DATE '2023-05-01'"),
        ("id", "y", "m"),
        "y >= '2023-01-01T00:00:00' and m < '2023-05-01'",
        spelled={"daft": _select("id", where=f"y >= {_daft_time('2023-01-01 00:00:00')} AND m < DATE '2023-05-01'")},
    ),
    Query(
        "hour",
        "transforms",
        _select("id", where="h = TIMESTAMP '2024-06-01 03:00:00'"),
        ("id", "h"),
        "h = '2024-06-01T03:00:00'",
        spelled={"daft": _select("id", where=f"h = {_daft_time('2024-06-01 03:00:00')}")},
    ),
    Query(
        "a partition that is null",
        "transforms",
        _select("id", where="country IS NULL"),
        ("id", "country"),
        "country is null",
    ),
    _plain("evolved partitions", "respecced"),
    _plain("filter over old and new specs", "respecced", "country = 'NO'"),
    Query(
        "grouped over specs",
        "respecced",
        _select("country, count(*) AS c, sum(n) AS s") + " GROUP BY country",
        ("country", "n"),
    ),
]
EVOLUTION = [
    Query(
        "renamed, widened, added, moved",
        "evolved",
        _select("id, place, n, cost, total, who.called AS w, who.age AS a"),
        ("id", "place", "n", "cost", "total", "who"),
    ),
    Query(
        "filter on a renamed column", "evolved", _select("id", where="place = 'c1'"), ("id", "place"), "place = 'c1'"
    ),
    Query("filter on a widened column", "evolved", _select("id, n", where="n > 4"), ("id", "n"), "n > 4"),
    Query("a name used again", "evolved", _select("id, note"), ("id", "note")),
    Query("a default for old rows", "defaults", _select("id, status, level"), ("id", "status", "level")),
    Query("filter on a default", "defaults", _select("id", where="status = 'new'"), ("id", "status"), "status = 'new'"),
]
DELETES = [
    _plain("position deletes", "position_deletes"),
    _plain("position deletes, filtered", "position_deletes", "n >= 60"),
    Query("position deletes, counted", "position_deletes", _select("count(*) AS c")),
    _plain("equality deletes", "equality_deletes"),
    Query("equality deletes, without their column", "equality_deletes", _select("country"), ("country",)),
    Query("equality deletes, counted", "equality_deletes", _select("count(*) AS c")),
    _plain("deletion vectors", "vectors"),
    Query("deletion vectors, counted", "vectors", _select("count(*) AS c")),
    _plain("every kind of delete together", "mixed"),
    _plain("every kind of delete, filtered", "mixed", "country = 'NO'"),
    Query("every kind of delete, counted", "mixed", _select("count(*) AS c")),
    _plain("a table without a snapshot", "empty"),
    Query("a table whose rows are gone", "emptied", _select("count(*) AS c, max(n) AS m"), ("id", "n")),
]
PAST = [
    _plain("the newest state next to branches", "branches"),
    _plain("by tag", "branches", at="first"),
    _plain("by branch", "branches", at="audit"),
    _plain("by snapshot", "branches", at="first", by="snapshot"),
    _plain("by time", "branches", at="first", by="time"),
]
GROUPS = {
    "types": TYPES,
    "nested values": NESTED,
    "partitions": PARTITIONS,
    "evolution": EVOLUTION,
    "deletes": DELETES,
    "the past": PAST,
}
QUERIES = {query.name: query for group in GROUPS.values() for query in group}
