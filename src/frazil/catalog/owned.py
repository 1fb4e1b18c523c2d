"""Which files the server reads on behalf of a caller: those in the places of the table that the caller may read.

Metadata is written by clients, and a snapshot may name any file of the warehouse. The server has access to all of them,
its caller has not. So, with authentication on, plans and searches read only what lies in the table's location, its
data and metadata paths and the places that it had before, as vended credentials do. What is shared by a warehouse, such
as its decoded manifests, is asked only after this check.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from frazil.catalog.context import Context
from frazil.catalog.fields import Json
from frazil.catalog.http import Request
from frazil.catalog.locations import parse_location
from frazil.catalog.names import Name
from frazil.catalog.places import PATH_PROPERTIES, keys_of
from frazil.catalog.store import places as place_store
from frazil.errors import ForeignFile, MalformedLocation
from frazil.scan.planning import ScanCache

if TYPE_CHECKING:
    import pyarrow as pa

    from frazil.scan.manifests import Manifest, ManifestList

_ODD = r"[\\%?#\x00-\x1f]|/\.{1,2}(/|$)"  # what could lead out of a folder that a path starts with


@dataclass(frozen=True)
class OwnPlaces:
    """The places of a table, as keys (`Place.key`)."""

    table: str
    keys: tuple[str, ...]

    def contain(self, path: str) -> bool:
        """Whether a file lies in one of them, also when symbolic links are followed."""
        try:
            place = parse_location(path)
        except MalformedLocation:
            return False
        return place.key.startswith(self.keys) and place.real.key.startswith(self.keys)

    def check(self, path: str) -> None:
        if not self.contain(path):
            raise ForeignFile(self.table, path)

    def check_all(self, paths: pa.Array) -> None:
        """The same for many files, by their text alone: links are looked at when a file is opened."""
        inside = pc.invert(pc.match_substring_regex(paths, _ODD))
        prefixes = [text for key in self.keys for text in _spelled(key)]
        starts = [pc.starts_with(paths, prefix) for prefix in prefixes]
        own = starts[0]
        for start in starts[1:]:
            own = pc.or_(own, start)
        for path in paths.filter(pc.invert(pc.and_(inside, own))).to_pylist():
            self.check(path)


def _spelled(key: str) -> list[str]:
    """The usual spellings of a place.

    >>> _spelled("s3:/b/t/"), _spelled("file:/w/t/")
    (['s3://b/t/', 's3a://b/t/'], ['file:///w/t/', 'file:/w/t/', '/w/t/'])
    """
    scheme, _, rest = key.partition(":/")
    return [f"s3://{rest}", f"s3a://{rest}"] if scheme == "s3" else [f"file:///{rest}", f"file:/{rest}", f"/{rest}"]


def own_places(ctx: Context, request: Request, name: Name, metadata: Json) -> OwnPlaces | None:
    """The places of a table in which the server reads files for a caller; None without authentication: all."""
    if request.caller is None:
        return None
    return places_of(ctx, ctx.warehouse(request).name, name, metadata["location"], metadata["properties"])


def places_of(ctx: Context, warehouse: str, name: Name, location: str, properties: Mapping[str, str]) -> OwnPlaces:
    """The places of a table: its location, its data and metadata paths, and those that it had before."""
    named = [location, *(properties[key] for key in PATH_PROPERTIES if key in properties)]
    stored = place_store.list_own(ctx.database.read(), warehouse=warehouse, name=name)
    return OwnPlaces(str(name), tuple(dict.fromkeys((*keys_of(named), *stored))))


class OwnManifests(ScanCache):
    """The manifests of a warehouse, for one table: what is not in its places is refused, whether it is kept or not.
    With `files`, so are manifests that name data files or delete files elsewhere; `charge` is called with the number of
    files in each manifest that is read.
    """

    def __init__(
        self, shared: ScanCache, own: OwnPlaces, *, files: bool, charge: Callable[[int], None] = lambda _files: None
    ) -> None:
        self._shared, self._own, self._files, self._charge = shared, own, files, charge
        self._charged: set[str] = set()

    def manifest_list(self, path: str) -> ManifestList:
        self._own.check(path)
        return self._shared.manifest_list(path)

    def manifest(self, path: str, *, bounds_of: Collection[int] = (), content: bytes | None = None) -> Manifest:
        self._own.check(path)
        manifest = self._shared.manifest(path, bounds_of=bounds_of, content=content)
        if path not in self._charged:
            self._charged.add(path)
            self._charge(len(manifest))
        if self._files:
            self._own.check_all(manifest.columns["path"])
        return manifest

    def has(self, path: str) -> bool:
        return self._shared.has(path)

    def fetch(self, path: str) -> bytes | None:
        self._own.check(path)
        return self._shared.fetch(path)

    def filter(self, *of: Any, **how: Any) -> Any:
        return self._shared.filter(*of, **how)


def manifests_of(ctx: Context, request: Request, own: OwnPlaces | None, *, files: bool = False) -> ScanCache:
    """The manifests that a scan of the table may use. With `files`, for a scan that the server reads itself, the caller
    pays for the files in them; scan planning charges for each page.
    """
    shared, quota, caller = ctx.manifests(request), ctx.plan_quota, request.caller
    if own is None:
        return shared
    if not files or quota is None or caller is None:
        return OwnManifests(shared, own, files=files)
    quota.check(caller.principal)
    return OwnManifests(shared, own, files=files, charge=partial(quota.spend, caller.principal))


def are_own(own: OwnPlaces | None, *paths: str) -> bool:
    return own is None or all(own.contain(path) for path in paths)
