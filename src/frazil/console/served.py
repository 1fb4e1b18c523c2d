"""A table as PyIceberg has it, with files that the server reads for a caller: upkeep and vector indexes plan on it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import orjson
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.catalog.rest import TableResponse
from pyiceberg.table import Table

from frazil.catalog import Context, Request, ServedFiles, load_version, manifests_of, own_places
from frazil.pyiceberg_compat import parse_metadata
from frazil.scan.planning import ScanCache

if TYPE_CHECKING:
    from frazil.catalog import OwnPlaces
    from frazil.scan.manifests import Manifest, ManifestList


@dataclass(frozen=True)
class ServedTable:
    """The table, and the manifests of its warehouse as far as its caller may read them."""

    table: Table
    manifests: ScanCache


def open_table(ctx: Context, request: Request, check: Callable[[], None]) -> ServedTable:
    """The table of the request as it is now; `check` is called before each file, and stops the reading if it raises."""
    name, version = request.name(), load_version(ctx, request)
    own = own_places(ctx, request, name, version.metadata)
    files = CheckedFiles(ctx, request, own, check)
    answer = {"metadata-location": version.location, "metadata": version.metadata, "config": {}}
    metadata = parse_metadata(TableResponse, orjson.dumps(answer).decode()).metadata
    table = Table((*name.namespace, name.name), metadata, version.location, files, NoopCatalog("console"))
    return ServedTable(table, CheckedManifests(manifests_of(ctx, request, own, files=True), check))


class CheckedFiles(ServedFiles):
    """Files that the server reads, as long as a check passes."""

    def __init__(self, ctx: Context, request: Request, own: OwnPlaces | None, check: Callable[[], None]) -> None:
        super().__init__(ctx.warehouses, ctx.warehouse(request), ctx.files, own)
        self._check = check

    def open(self, location: str) -> IO[bytes]:
        self._check()
        return super().open(location)


class CheckedManifests(ScanCache):
    """Shared manifests, read as long as a check passes."""

    def __init__(self, shared: ScanCache, check: Callable[[], None]) -> None:
        self._shared, self._check = shared, check

    def manifest_list(self, path: str) -> ManifestList:
        self._check()
        return self._shared.manifest_list(path)

    def manifest(self, path: str, *, bounds_of: Collection[int] = (), content: bytes | None = None) -> Manifest:
        self._check()
        return self._shared.manifest(path, bounds_of=bounds_of, content=content)

    def has(self, path: str) -> bool:
        return self._shared.has(path)

    def fetch(self, path: str) -> bytes | None:
        self._check()
        return self._shared.fetch(path)

    def filter(self, *of: Any, **how: Any) -> Any:
        return self._shared.filter(*of, **how)
