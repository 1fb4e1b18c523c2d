"""The places of tables and views in SQL: every folder that one of them writes to, and which other one has a folder
above or below it.

A place is the canonical text of a location (`Place.key`): it ends with `/`, so everything below it is one range of the
index, and everything above it is a short list of exact values. Rows follow their table or view through renames and
drops by foreign key.

`folded` is the same text without the case of its letters. Where credentials are vended, or authentication is on
(`folds`), places that differ in case only overlap: some stores compare policies without case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from frazil.catalog.locations import fold_key, keys_above
from frazil.catalog.names import SEPARATOR, Name
from frazil.catalog.store.database import Fence, Row, Sql, Statement


@dataclass(frozen=True, slots=True)
class Occupant:
    """A table or view with a place, or a namespace (its `name` is empty)."""

    warehouse: str
    namespace: str
    name: str
    place: str

    def __str__(self) -> str:
        levels = ".".join(self.namespace.split(SEPARATOR))
        return (
            f"{levels}.{self.name} of warehouse {self.warehouse}"
            if self.name
            else f"namespace {levels} of warehouse {self.warehouse}"
        )


_ROW = "SELECT warehouse, namespace, name, place FROM places WHERE"
_NAMESPACE_ROW = "SELECT warehouse, namespace, '', place FROM namespace_places WHERE"
_NAMESPACE_BELOW = f"{_NAMESPACE_ROW} place >= ? AND place < ?"
_NAMESPACE = "SELECT warehouse, namespace, '', '' FROM namespaces WHERE warehouse = ? AND namespace = ?"
_NOT_OWN = "NOT (warehouse = ? AND namespace = ? AND name = ?)"


def find_above(sql: Sql, key: str, *, warehouse: str, name: Name | None) -> Occupant | None:
    """A table or view other than `name` whose place is this one or contains it."""
    values = [*keys_above(key), key]
    statement = f"{_ROW} place IN ({_marks(values)}) AND {_NOT_OWN} LIMIT 1"
    return _first(sql.rows(statement, *values, *_own(warehouse, name)))


def find_foreign(sql: Sql, key: str, *, warehouse: str) -> Occupant | None:
    """A table, view or namespace of another warehouse whose place is this one, contains it or lies in it."""
    above = [*keys_above(key), key]
    near = f"(place IN ({_marks(above)}) OR (place > ? AND place < ?)) AND warehouse <> ?"
    values = (*above, key, _end(key), warehouse)
    return _first(sql.rows(f"{_ROW} {near} UNION ALL {_NAMESPACE_ROW} {near} LIMIT 1", *values, *values))


def find_namespace_above(sql: Sql, key: str) -> Occupant | None:
    """The namespace with a location of its own that contains this place; the innermost of several."""
    values = [*keys_above(key), key]
    statement = f"{_NAMESPACE_ROW} place IN ({_marks(values)}) ORDER BY length(place) DESC LIMIT 1"
    return _first(sql.rows(statement, *values))


def find_overlap(
    sql: Sql, key: str, *, warehouse: str, name: Name | None, folders: Sequence[tuple[str, str]], folds: bool
) -> Occupant | None:
    """A table or view other than `name` whose place is this one, contains it or lies in it; or a namespace whose
    location is or lies in it.
    """
    statement, values = overlap_query(key, warehouse=warehouse, name=name, folders=folders, folds=folds)
    return _first(sql.rows(f"{statement} LIMIT 1", *values))


def overlap_query(
    key: str, *, warehouse: str, name: Name | None, folders: Sequence[tuple[str, str]], folds: bool
) -> Statement:
    """The query of `find_overlap`. `folders` are the (warehouse, namespace) that have this place as their default
    folder, if they exist.
    """
    own = _own(warehouse, name)
    parts, values = _overlaps(key, own, folds=folds)
    parts += [_NAMESPACE_BELOW, *(_NAMESPACE for _ in folders)]
    values += [key, _end(key), *(part for folder in folders for part in folder)]
    return " UNION ALL ".join(parts), values


def _overlaps(key: str, own: tuple[str, str, str], *, folds: bool) -> tuple[list[str], list[object]]:
    """The queries for the rows of others at, above and below a place."""
    column, text = ("folded", fold_key(key)) if folds else ("place", key)
    above = [fold_key(above) if folds else above for above in (*keys_above(key), key)]
    parts = [
        f"{_ROW} {column} IN ({_marks(above)}) AND {_NOT_OWN}",
        f"{_ROW} {column} > ? AND {column} < ? AND {_NOT_OWN}",
    ]
    return parts, [*above, *own, text, _end(text), *own]


@dataclass(frozen=True, slots=True)
class Swapped:
    """The change of a pointer that comes with claims of places, in the same round trip."""

    first: Statement  # must change one row
    fence: Fence | None = None


def claim(
    sql: Sql,
    warehouse: str,
    wanted: Sequence[tuple[str, Name]],
    *,
    allow_overlap: bool,
    folds: bool = False,
    swapped: Swapped | None = None,
) -> bool:
    """Whether each place belongs to its table or view now; false when one overlaps a place of another: then undo the
    transaction.

    Waits until no other transaction claims a place above, at or below one of these, and keeps others waiting until the
    end. The answer is false as well when the pointer was not changed.
    """
    contested = [] if allow_overlap else [fold_key(key) for key, _ in wanted]  # without a check, nothing to wait for
    statements = [_claim(key, _own(warehouse, name), allow_overlap=allow_overlap, folds=folds) for key, name in wanted]
    first, fence = (swapped.first, swapped.fence) if swapped is not None else (None, None)
    record, grants = (fence.record, fence.grants) if fence is not None else (None, ())
    counts = sql.run_locked([*statements, *grants], places=contested, first=first, record=record)
    if first is not None and counts.pop(0) != 1:
        return False
    # one that it had before
    held = "SELECT 1 FROM places WHERE warehouse = ? AND namespace = ? AND name = ? AND place = ?"
    return all(
        count or sql.rows(held, *_own(warehouse, name), key)
        for (key, name), count in zip(wanted, counts[: len(wanted)], strict=True)
    )


def _claim(key: str, own: tuple[str, str, str], *, allow_overlap: bool, folds: bool) -> Statement:
    statement = (
        "INSERT INTO places (place, warehouse, namespace, name, folded) SELECT ?, ?, ?, ?, ? "
        "WHERE NOT EXISTS (SELECT 1 FROM places WHERE warehouse = ? AND namespace = ? AND name = ? AND place = ?)"
    )
    values: list[object] = [key, *own, fold_key(key), *own, key]
    if not allow_overlap:
        parts, more = _overlaps(key, own, folds=folds)
        statement += "".join(f" AND NOT EXISTS ({part})" for part in parts)
        values += more
    return statement, values


def release(sql: Sql, *, warehouse: str, name: Name) -> None:
    """Gives up all places of a table or view."""
    sql.run("DELETE FROM places WHERE warehouse = ? AND namespace = ? AND name = ?", *_own(warehouse, name))


def set_namespace(sql: Sql, *, warehouse: str, namespace: str, key: str | None) -> None:
    """Makes this the location of a namespace; None when it has none of its own."""
    sql.run("DELETE FROM namespace_places WHERE warehouse = ? AND namespace = ?", warehouse, namespace)
    if key is not None:
        sql.run(
            "INSERT INTO namespace_places (place, warehouse, namespace) VALUES (?, ?, ?)", key, warehouse, namespace
        )


def list_all(sql: Sql) -> list[Occupant]:
    """Every place of every table and view, in order: each is followed by those that lie in it."""
    return [
        Occupant(*row[:4]) for row in sql.rows("SELECT warehouse, namespace, name, place FROM places ORDER BY place")
    ]


def list_own(sql: Sql, *, warehouse: str, name: Name) -> list[str]:
    """Every place of one table or view, also those that it has left."""
    statement = "SELECT place FROM places WHERE warehouse = ? AND namespace = ? AND name = ?"
    return [row[0] for row in sql.rows(statement, *_own(warehouse, name))]


def list_near(sql: Sql, keys: Iterable[str], *, warehouse: str, name: Name) -> list[str]:
    """The places of other tables and views at, above or below these, whatever the case of their letters."""
    own, near = _own(warehouse, name), []
    for key in keys:
        parts, values = _overlaps(key, own, folds=True)
        near += [row[3] for row in sql.rows(" UNION ALL ".join(parts), *values)]
    return near


def lacks_folded(sql: Sql) -> bool:
    """Whether there are places of a database from before their folded text was stored."""
    return bool(sql.rows("SELECT 1 FROM places WHERE folded IS NULL LIMIT 1"))


def fold_missing(sql: Sql, most: int = 1000) -> None:
    """Stores the folded text of some places that lack it."""
    for (place,) in sql.rows("SELECT DISTINCT place FROM places WHERE folded IS NULL LIMIT ?", most):
        sql.run("UPDATE places SET folded = ? WHERE place = ?", fold_key(place), place)


# --- databases from before places were stored ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A table or view whose places are not stored yet."""

    warehouse: str
    name: Name
    kind: str
    metadata_location: str
    location: str


def list_unplaced(sql: Sql) -> list[Unplaced]:
    statement = (
        "SELECT warehouse, namespace, name, kind, metadata_location, location FROM relations WHERE places_known = 0"
    )
    return [
        Unplaced(row[0], Name(tuple(row[1].split(SEPARATOR)), row[2]), row[3], row[4], row[5])
        for row in sql.rows(statement)
    ]


def store_unplaced(sql: Sql, relation: Unplaced, keys: Iterable[str], *, complete: bool) -> None:
    """Stores the places of a table or view as it was read, if it has not changed since; overlaps are stored as they
    are.
    """
    own = _own(relation.warehouse, relation.name)
    statement = (
        "UPDATE relations SET places_known = ? "
        "WHERE warehouse = ? AND namespace = ? AND name = ? AND metadata_location = ? AND places_known = 0"
    )
    if sql.run(statement, int(complete), *own, relation.metadata_location) == 1:
        claim(sql, relation.warehouse, [(key, relation.name) for key in keys], allow_overlap=True)


def list_unplaced_namespaces(sql: Sql) -> list[Row]:
    """(warehouse, namespace, properties as JSON text) of the namespaces with a location of their own that is not stored
    yet.
    """
    statement = (
        "SELECT warehouse, namespace, properties FROM namespaces WHERE NOT EXISTS "
        "(SELECT 1 FROM namespace_places p WHERE p.warehouse = namespaces.warehouse AND p.namespace = "
        "namespaces.namespace)"
    )
    return [row for row in sql.rows(statement) if '"location"' in row[2]]


def _own(warehouse: str, name: Name | None) -> tuple[str, str, str]:
    return (warehouse, name.key, name.name) if name is not None else (warehouse, "", "")


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _end(key: str) -> str:
    """The first text after everything that starts with the key: `0` follows `/`."""
    return key[:-1] + "0"


def _first(rows: Sequence[Row]) -> Occupant | None:
    return Occupant(*rows[0]) if rows else None
