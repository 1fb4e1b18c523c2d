"""The places of a table or view: its location and the other folders that it writes to. No two of them overlap.

Places are compared by their canonical text, whatever their spelling, and with symbolic links followed. `new_places`
says which ones a commit adds: none for an append, which therefore pays nothing. They are looked at before the metadata
file is written, so that a refused request leaves no file behind, and claimed in the transaction of the commit, so that
of two concurrent commits one wins. A table keeps the places that it has left until it is dropped: its older files are
still there.
"""

from __future__ import annotations

import itertools
import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from frazil.catalog.fields import Json
from frazil.catalog.locations import Place, default_location, fold_key, folder_name, parse_location
from frazil.catalog.metadata import parse_file
from frazil.catalog.names import SEPARATOR, Name, Namespace
from frazil.catalog.store import namespaces
from frazil.catalog.store import places as store
from frazil.catalog.store.database import Database, Sql, Statement
from frazil.catalog.store.places import Occupant, Swapped, Unplaced
from frazil.catalog.warehouse import MetadataFiles, Warehouse, Warehouses
from frazil.errors import CatalogError, LocationOccupied, MalformedLocation, Unavailable

log = logging.getLogger("frazil.catalog")

METADATA_PATH = "write.metadata.path"
PATH_PROPERTIES = (METADATA_PATH, "write.data.path", "write.object-storage.path", "write.folder-storage.path")
MAX_KEY_BYTES = 1024  # the longest key of S3, and short enough for every index
READ_THREADS = 32
STORE_AT_ONCE = 500
_CHANGED_NAME = re.compile(r"-[0-9a-f]{8}$")  # what `folder_name` gives to names that no folder can have


def metadata_folder(metadata: Json) -> str:
    """The folder of a table's metadata files, manifest lists and manifests."""
    return str(metadata["properties"].get(METADATA_PATH, f"{metadata['location']}/metadata")).rstrip("/")


def new_locations(metadata: Json, base: Json | None) -> list[str]:
    """The locations that the metadata names and the base does not: cheap when nothing changed."""
    locations = []
    if base is None or base["location"] != metadata["location"]:
        locations.append(metadata["location"])
    properties = metadata["properties"]
    if base is None or properties is not base["properties"]:
        before = base["properties"] if base is not None else {}
        locations += [
            properties[key] for key in PATH_PROPERTIES if key in properties and properties[key] != before.get(key)
        ]
    return locations


def keys_of(locations: Iterable[str]) -> dict[str, str]:
    """The canonical text of each location, with and without its symbolic links followed, and the location that it
    stands for.
    """
    keys: dict[str, str] = {}
    for location in locations:
        place = parse_location(location)
        keys |= _keys(location, place, place.real)
    return keys


def checked_keys(warehouses: Warehouses, warehouse: Warehouse, locations: Iterable[str]) -> dict[str, str]:
    """The same for locations that may be written."""
    keys: dict[str, str] = {}
    for location in locations:
        keys |= _keys(location, *warehouses.check_links(warehouse, location))
    return keys


def _keys(location: str, place: Place, real: Place) -> dict[str, str]:
    keys = {place.key: location, real.key: location}
    if any(len(key.encode("utf-8", "surrogatepass")) > MAX_KEY_BYTES for key in keys):
        raise MalformedLocation(f"Location {location[:60]!r}... is longer than {MAX_KEY_BYTES} bytes")
    return keys


# --- before the metadata file is written -----------------------------------------------------------------------------


def check_free(
    sql: Sql, warehouses: Warehouses, warehouse: Warehouse, name: Name, keys: Mapping[str, str], *, folds: bool
) -> None:
    """Passes when no place overlaps one of another table or view, and none contains a warehouse or the folder of a
    namespace. With `folds`, places that differ only in the case of letters overlap.
    """
    if warehouses.allow_overlap:
        return
    for key, location in keys.items():
        occupant = _occupant(sql, warehouses, warehouse, name, key, folds=folds)
        if occupant is not None:
            raise LocationOccupied(location, occupant=str(occupant))


def check_outside(sql: Sql, warehouses: Warehouses, warehouse: Warehouse, name: Name | None, location: str) -> None:
    """Passes when the location does not lie in a place of another table or view."""
    if warehouses.allow_overlap:
        return
    for key in keys_of([location]):
        occupant = store.find_above(sql, key, warehouse=warehouse.name, name=name)
        if occupant is not None:
            raise LocationOccupied(location, occupant=str(occupant))


def check_apart(keys: Iterable[tuple[Name, Mapping[str, str]]]) -> None:
    """Passes when the tables of one request do not overlap each other."""
    for (_, some), (other, others) in itertools.combinations(keys, 2):
        for key, theirs in itertools.product(some, others):
            if key.startswith(theirs) or theirs.startswith(key):
                raise LocationOccupied(some[key], occupant=f"{other}, which the same request puts at {others[theirs]}")


def _occupant(
    sql: Sql, warehouses: Warehouses, warehouse: Warehouse, name: Name, key: str, *, folds: bool
) -> Occupant | str | None:
    folders = _folders_at(sql, warehouses, key)
    if isinstance(folders, str):
        return folders
    return store.find_overlap(sql, key, warehouse=warehouse.name, name=name, folders=folders, folds=folds)


def _folders_at(sql: Sql, warehouses: Warehouses, key: str) -> list[tuple[str, str]] | str:
    """The (warehouse, namespace) that may have this place as their default folder; a text when it contains a
    warehouse.
    """
    folders: list[tuple[str, str]] = []
    for other in warehouses:
        for root in {other.place.key, other.real_key}:
            if root.startswith(key):
                return f"warehouse {other.name}"
            if key.startswith(root):
                folders.append((other.name, _namespace_at(sql, other, key[len(root) :])))
    return folders


def _namespace_at(sql: Sql, warehouse: Warehouse, path: str) -> str:
    """The namespace whose default folder this is, below the warehouse's root; it may not exist."""
    levels: tuple[str, ...] = ()
    for folder in path.split("/")[:-1]:
        level = folder
        if _CHANGED_NAME.search(folder):
            children = namespaces.list_children(sql, warehouse.name, levels, after="", limit=100_000)
            ends = (child.rpartition(SEPARATOR)[2] for child in children)
            level = next((end for end in ends if folder_name(end) == folder), folder)
        levels = (*levels, level)
    return SEPARATOR.join(levels)


def has_twin(sql: Sql, warehouse: Warehouse, namespace: Namespace) -> bool:
    """Whether another namespace has the default folder of this one, or one above it: the name of one may be what
    `folder_name` makes of the other's.
    """
    for depth, level in enumerate(namespace):
        folder = folder_name(level)
        if _CHANGED_NAME.search(folder):
            children = namespaces.list_children(sql, warehouse.name, namespace[:depth], after="", limit=100_000)
            ends = (child.rpartition(SEPARATOR)[2] for child in children)
            if any(end != level and folder_name(end) == folder for end in ends):
                return True
    return False


def default_place(
    sql: Sql, warehouses: Warehouses, warehouse: Warehouse, name: Name, *, folds: bool
) -> tuple[dict[str, str], Statement | None]:
    """The keys and the location that a table or view gets in a namespace without a location, and the query for what is
    in the way. Without a query, only `choose_location` can tell.
    """
    try:
        keys = checked_keys(warehouses, warehouse, [default_location(warehouse.root, name, None)])
        (key,) = keys
        folders = _folders_at(sql, warehouses, key)
    except (CatalogError, ValueError):  # refused; or a link on the way, which leads to a second key
        return {}, None
    if isinstance(folders, str):
        return {}, None
    return keys, store.overlap_query(key, warehouse=warehouse.name, name=name, folders=folders, folds=folds)


def choose_location(
    sql: Sql,
    warehouses: Warehouses,
    warehouse: Warehouse,
    name: Name,
    properties: Mapping[str, str],
    *,
    new_uuid: Callable[[], str],
    is_empty: Callable[[Mapping[str, str]], bool],
    folds: bool,
) -> dict[str, str]:
    """The keys of a free place for a table or view whose creator names none, and its location: after its name and that
    of its namespace, which has these properties; with a suffix where that place is taken, or not empty.
    """
    location = default_location(warehouse.root, name, properties.get("location"))
    keys = checked_keys(warehouses, warehouse, [location])
    for key in keys:
        occupant = _occupant(sql, warehouses, warehouse, name, key, folds=folds)
        if isinstance(occupant, Occupant) and occupant.name and warehouse.place.key.startswith(occupant.place):
            if warehouses.allow_overlap:
                return keys
            raise LocationOccupied(location, occupant=f"{occupant}, which has the whole warehouse")
        if occupant is not None:
            return checked_keys(warehouses, warehouse, [_with_suffix(location, key, occupant, new_uuid()[:8])])
    return keys if is_empty(keys) else checked_keys(warehouses, warehouse, [f"{location}-{new_uuid()[:8]}"])


def _with_suffix(location: str, key: str, occupant: Occupant | str, suffix: str) -> str:
    """The location with a suffix at the folder that is taken.

    >>> _with_suffix("s3://b/ns/t", "s3:/b/ns/t/", Occupant("w", "ns", "moved", "s3:/b/ns/t/"), "1a2b")
    's3://b/ns/t-1a2b'
    >>> _with_suffix("s3://b/ns/t/u", "s3:/b/ns/t/u/", Occupant("w", "ns", "t", "s3:/b/ns/t/"), "1a2b")
    's3://b/ns/t-1a2b/u'
    """
    below = 0
    if isinstance(occupant, Occupant) and occupant.place and fold_key(key).startswith(fold_key(occupant.place)):
        below = key.count("/") - occupant.place.count("/")
    head, *rest = location.rsplit("/", below) if below else (location,)
    return "/".join((f"{head}-{suffix}", *rest))


# --- in the transaction ----------------------------------------------------------------------------------------------


def claim(
    sql: Sql,
    warehouses: Warehouses,
    warehouse: Warehouse,
    claims: Iterable[tuple[Name, Mapping[str, str]]],
    *,
    folds: bool,
    swapped: Swapped | None = None,
) -> bool:
    """Whether all places could be had; if not, the transaction must be undone. No query when there are none.

    `swapped` changes a pointer, with what its fence carries; it takes no round trip of its own when there are claims.
    """
    wanted = [(key, name) for name, keys in claims for key in keys]
    if wanted:
        overlap = warehouses.allow_overlap
        return store.claim(sql, warehouse.name, wanted, allow_overlap=overlap, folds=folds, swapped=swapped)
    if swapped is None:
        return True
    first, fence = swapped.first, swapped.fence
    if fence is None:
        return sql.run(first[0], *first[1]) == 1
    if sql.run_recorded(first, fence.record) != 1:
        return False
    for statement, parameters in fence.grants:
        sql.run(statement, *parameters)
    return True


# --- databases from before places were stored, and overlaps from that time -------------------------------------------


def store_missing_places(database: Database, files: MetadataFiles) -> int:
    """The number of tables and views whose places were stored now. Takes no time when all are there.

    Of one whose metadata file cannot be read only the location is stored; the next start tries again.
    """
    while store.lacks_folded(database.read()):
        database.write(store.fold_missing)
    for warehouse, key, properties in store.list_unplaced_namespaces(database.read()):
        _store_namespace(database, warehouse, key, json.loads(properties).get("location"))
    missing = store.list_unplaced(database.read())
    if not missing:
        return 0
    log.info("reading the metadata of %d tables and views, to store the folders that they write to", len(missing))
    unread, lost = 0, threading.Event()
    with ThreadPoolExecutor(READ_THREADS) as threads:
        for batch in _batches(threads.map(lambda relation: (relation, *_read_places(files, relation, lost)), missing)):
            database.write(lambda sql, batch=batch: _store_batch(sql, batch))  # type: ignore[misc]
            unread += sum(not complete for _, _, complete in batch)
    if unread:
        log.warning("%d metadata files could not be read: only the locations of their tables are known", unread)
    report_overlaps(database)
    return len(missing) - unread


def _batches(unplaced: Iterator[tuple[Unplaced, list[str], bool]]) -> Iterator[list[tuple[Unplaced, list[str], bool]]]:
    while batch := list(itertools.islice(unplaced, STORE_AT_ONCE)):
        yield batch


def _store_batch(sql: Sql, batch: Iterable[tuple[Unplaced, list[str], bool]]) -> None:
    for relation, keys, complete in batch:
        store.store_unplaced(sql, relation, keys, complete=complete)


def _store_namespace(database: Database, warehouse: str, key: str, location: str | None) -> None:
    keys = _stored_keys([location] if location else [])
    if keys:
        database.write(lambda sql: store.set_namespace(sql, warehouse=warehouse, namespace=key, key=keys[0]))


def _read_places(files: MetadataFiles, relation: Unplaced, lost: threading.Event) -> tuple[list[str], bool]:
    """The places of a table or view, and whether they are all known; `lost` is set once the object store does not
    answer.
    """
    if lost.is_set():
        return _stored_keys([relation.location]), False
    try:
        metadata = parse_file(relation.metadata_location, files.read_bytes(relation.metadata_location))
        properties = metadata.get("properties") or {}
        named = [str(properties[key]) for key in PATH_PROPERTIES if key in properties]
    except Unavailable:
        lost.set()
        return _stored_keys([relation.location]), False
    except (CatalogError, AttributeError, TypeError):  # gone or corrupt: a repair claims what its version names
        return _stored_keys([relation.location]), True
    return _stored_keys([relation.location, *named]), True


def _stored_keys(locations: Iterable[str]) -> list[str]:
    """The keys of locations that were accepted once; one that is refused today is left out."""
    keys: list[str] = []
    for location in locations:
        try:
            keys += keys_of([location])
        except CatalogError:
            log.warning("location %s is not checked for overlaps: it is malformed or too long", location[:200])
    return keys


@dataclass(frozen=True)
class Overlap:
    """Two tables or views, the second of which lies in a place of the first, or at it."""

    outer: Occupant
    inner: Occupant


def find_overlaps(sql: Sql) -> list[Overlap]:
    """The overlaps that are there: made by older versions, or allowed by the operator."""
    overlaps: dict[tuple[str, str], Overlap] = {}
    around: list[Occupant] = []
    for occupant in store.list_all(sql):
        around = [outer for outer in around if occupant.place.startswith(outer.place)]
        for outer in around:
            if str(outer) != str(occupant):
                overlaps.setdefault((str(outer), str(occupant)), Overlap(outer, occupant))
        around.append(occupant)
    return list(overlaps.values())


def report_overlaps(database: Database) -> None:
    overlaps = find_overlaps(database.read())
    for overlap in overlaps[:20]:
        log.warning("%s (%s) lies in %s (%s)", overlap.inner, overlap.inner.place, overlap.outer, overlap.outer.place)
    if overlaps:
        log.warning(
            "%d tables or views overlap others; they keep working: frazil catalog overlaps lists them", len(overlaps)
        )


def set_namespace_place(sql: Sql, warehouse: Warehouse, namespace: Iterable[str], location: str | None) -> None:
    """Stores the location of a namespace."""
    key = parse_location(location).key if location is not None else None
    store.set_namespace(sql, warehouse=warehouse.name, namespace=SEPARATOR.join(namespace), key=key)
