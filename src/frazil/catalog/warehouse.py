"""Warehouses: where the tables of a catalog live, what may be written where, and reading and writing of
metadata files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import BoundedSemaphore

import orjson

from frazil.catalog.cache import VersionCache
from frazil.catalog.fields import Json
from frazil.catalog.files import MOST_BYTES, FileStore, NotReadable
from frazil.catalog.files.access import S3Access
from frazil.catalog.files.local import LocalFiles
from frazil.catalog.http import Request, pack
from frazil.catalog.locations import Place, parse_location
from frazil.catalog.metadata import Version, normalise, parse_file, parse_like, table_version
from frazil.catalog.views import normalise_view, view_version
from frazil.config import Limits, StorageProfile
from frazil.errors import (
    ConfigError,
    LocationRefused,
    MalformedLocation,
    MetadataCorrupt,
    MetadataMissing,
    NoSuchWarehouse,
    Unavailable,
)
from frazil.properties import STRICT, PropertyRule

FOREIGN_READS = 2  # files of registrations that are read and parsed at a time
SEEN_SECONDS = 5.0  # how long a file in an object store is believed to be there after it was seen

# a warehouse cannot have these names
RESERVED_PREFIXES = frozenset(("config", "namespaces", "tables", "views", "transactions", "oauth"))


NO_PROFILE = StorageProfile()


class WouldBlock(Exception):
    """The event loop must not wait for this: the same call is made again in a thread."""


@dataclass(frozen=True, slots=True)
class Warehouse:
    """A name, the location below which its tables live, and how its object store is reached."""

    name: str
    root: str
    place: Place
    real_key: str  # of the place with symbolic links followed, as they were when it was opened
    access: S3Access
    profile: StorageProfile = NO_PROFILE  # what credentials for clients are made with
    delegation: frozenset[str] = frozenset()  # what clients may ask for: vended-credentials, remote-signing
    stored: bool = False  # in the database; else in the settings

    @property
    def vends(self) -> bool:
        """Whether clients get credentials for its tables."""
        return "vended-credentials" in self.delegation

    @property
    def signs(self) -> bool:
        """Whether requests of clients to its files are signed."""
        return "remote-signing" in self.delegation and self.place.scheme == "s3"

    def overlaps(self, other: Warehouse) -> bool:
        """Whether one lies in the other, also when symbolic links are followed."""
        pairs = ((self.place.key, other.place.key), (self.real_key, other.real_key))
        return any(own.startswith(their) or their.startswith(own) for own, their in pairs)


class _Served:
    """The warehouses at one moment; replaced as a whole when those of the database change."""

    def __init__(self, warehouses: Iterable[Warehouse]) -> None:
        self.by_name = {warehouse.name: warehouse for warehouse in warehouses}
        self.innermost = sorted(self.by_name.values(), key=lambda each: len(each.place.path), reverse=True)
        self.vending = frozenset(name for name, warehouse in self.by_name.items() if warehouse.vends)
        self.signing = frozenset(name for name, warehouse in self.by_name.items() if warehouse.signs)


class Warehouses:
    """All warehouses of a server, and the prefixes outside of them that its operator allowed.

    Those of the settings stay as they are. Those of the database come and go while the server runs.
    """

    def __init__(
        self,
        roots: Mapping[str, str],
        allowed: Iterable[str] = (),
        *,
        profiles: Mapping[str, StorageProfile] | None = None,
        allow_overlap: bool = False,
    ) -> None:
        """`roots` and `profiles` are those of the settings."""
        self._environment = S3Access.of_environment()
        self._fixed = [
            _of_settings(name, root, self._environment, (profiles or {}).get(name)) for name, root in roots.items()
        ]
        self.allowed = [parse_location(_absolute(prefix)) for prefix in allowed]
        self.allow_overlap = allow_overlap
        self.look: Callable[[], bool] | None = None  # whether the warehouses of the database have changed
        if conflicts := self.replace_stored([]):
            raise conflicts[0]

    def replace_stored(self, stored: Iterable[Warehouse]) -> list[ConfigError]:
        """Serves these warehouses of the database from now on, but for those that the errors name."""
        kept, conflicts = find_conflicts([*self._fixed, *stored], allow_overlap=self.allow_overlap)
        self._served = _Served(kept)
        return conflicts

    def check_any(self) -> None:
        """Raises `ConfigError` if there is no warehouse, neither in the settings nor in the database."""
        if not self._served.by_name:
            raise ConfigError(
                "the server has no warehouse",
                hint="frazil serve --warehouse FOLDER or --warehouse NAME=s3://bucket/path; or frazil warehouse create",
                option="server.warehouses",
                problem="missing",
            )

    def check_writable(self) -> None:
        """Raises `ConfigError` if this process cannot write to a warehouse of the settings on this machine. Object
        stores are not asked.
        """
        for warehouse in self._fixed:
            if warehouse.place.scheme == "file":
                _check_folder(warehouse.name, Path(warehouse.place.path))

    @property
    def default(self) -> Warehouse:
        """The one named `default`, else the first: those of the settings come before those of the database."""
        by_name = self._served.by_name
        if not by_name:
            raise NoSuchWarehouse("The server has no warehouse", hint="frazil warehouse create", name="")
        return by_name.get("default") or next(iter(by_name.values()))

    @property
    def vending(self) -> frozenset[str]:
        """The names of those that vend credentials."""
        return self._served.vending

    @property
    def signing(self) -> frozenset[str]:
        """The names of those that sign requests."""
        return self._served.signing

    def __iter__(self) -> Iterator[Warehouse]:
        return iter(self._served.by_name.values())

    def named(self, name: str | None) -> Warehouse:
        """The warehouse that a client asks for, by its name or by its location; none named means the default."""
        if not name:
            return self.default
        warehouse = self.find(name)
        if warehouse is None and self.look is not None and self.look():
            warehouse = self.find(name)
        if warehouse is None:
            hint = f"this server has: {', '.join(self._served.by_name)}"
            raise NoSuchWarehouse(f"Warehouse does not exist: {name}", hint=hint, name=name)
        return warehouse

    def of_request(self, request: Request) -> Warehouse:
        """The warehouse of a request's path. Its name is looked up once: the default may be another one a moment later,
        and what is served must be what was checked.
        """
        warehouse = self.named(request.warehouse or request.variables.get("prefix"))
        request.warehouse = warehouse.name
        return warehouse

    def find(self, name: str) -> Warehouse | None:
        """The warehouse of a name or location, by what is known of the database."""
        served = self._served
        if name in served.by_name:
            return served.by_name[name]
        if ":" in name or name.startswith("/"):
            place = parse_location(name)
            return next((warehouse for warehouse in served.by_name.values() if warehouse.place == place), None)
        return None

    def access_to(self, place: Place) -> S3Access:
        """How the server reaches a place: as the warehouse that contains it, the innermost if several do. A place in
        no warehouse, which an allowed prefix can be, is reached as the environment says.
        """
        for warehouse in self._served.innermost:
            if warehouse.place.contains(place):
                return warehouse.access
        return self._environment

    def check(self, warehouse: Warehouse, location: str) -> Place:
        """The place, if it may be written: inside the warehouse or an allowed prefix, also when symbolic links are
        followed.
        """
        return self.check_links(warehouse, location)[0]

    def check_links(self, warehouse: Warehouse, location: str) -> tuple[Place, Place]:
        """The same, and the place with symbolic links followed."""
        place = parse_location(location)
        real = place.real
        homes = [warehouse.place, *self.allowed]
        # Without a link on the way to the place there is none on the way to the home that contains it.
        linked = real != place and not any(home.real.contains(real) for home in homes)
        if linked or not any(home.contains(place) for home in homes):
            raise LocationRefused(location, warehouse=f"{warehouse.name} ({warehouse.root})")
        return place, real


def open_warehouse(
    name: str,
    root: str,
    access: S3Access,
    *,
    profile: StorageProfile | None = None,
    delegation: Iterable[str] = (),
    stored: bool = False,
) -> Warehouse:
    """The warehouse, if its name can be part of a path, and its root is a location with one meaning."""
    if name in RESERVED_PREFIXES or not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        hint = "use letters, digits, '-', '_' and '.'"
        raise ConfigError(f"warehouse name '{name}' is not allowed", hint=hint, option="server.warehouses", name=name)
    absolute = _absolute(root)
    place = parse_location(absolute)
    canonical = absolute if place.scheme == "s3" else f"file://{place.path}"
    modes = frozenset(delegation)
    return Warehouse(name, canonical, place, place.real.key, access, profile or NO_PROFILE, modes, stored)


def _of_settings(name: str, root: str, access: S3Access, profile: StorageProfile | None) -> Warehouse:
    delegation = []
    if profile is not None:
        delegation += ["vended-credentials"] if profile.role_arn is not None else []
        delegation += ["remote-signing"] if profile.remote_signing else []
    return open_warehouse(name, root, access, profile=profile, delegation=delegation)


def find_conflicts(
    warehouses: Iterable[Warehouse], *, allow_overlap: bool = False
) -> tuple[list[Warehouse], list[ConfigError]]:
    """The warehouses that can be served together, the earlier ones first, and what is wrong with each of the others."""
    kept: list[Warehouse] = []
    conflicts: list[ConfigError] = []
    for warehouse in warehouses:
        conflict = find_conflict(warehouse, kept, allow_overlap=allow_overlap)
        if conflict is None:
            kept.append(warehouse)
        else:
            conflicts.append(conflict)
    return kept, conflicts


def find_conflict(warehouse: Warehouse, others: Sequence[Warehouse], *, allow_overlap: bool) -> ConfigError | None:
    """What keeps a warehouse from being served next to others."""
    if any(other.name == warehouse.name for other in others):
        return ConfigError(
            f"warehouse '{warehouse.name}' is in the settings and in the database",
            hint=f"leave it out of server.warehouses, or frazil warehouse drop {warehouse.name}",
            option="server.warehouses",
            name=warehouse.name,
        )
    other = None if allow_overlap else next((other for other in others if other.overlaps(warehouse)), None)
    if other is None:
        return None
    outer, inner = sorted((other, warehouse), key=lambda each: len(each.real_key))
    return ConfigError(
        f"warehouse '{inner.name}' ({inner.root}) lies in warehouse '{outer.name}' ({outer.root})",
        hint="give each warehouse a folder of its own, or start the server with --allow-overlap",
        name=inner.name,
    )


def _absolute(location: str) -> str:
    is_path = "://" not in location and not location.startswith("file:")
    return str(Path(os.path.abspath(location))) if is_path else location.rstrip("/") or location  # noqa: PTH100


class MetadataFiles:
    """Metadata files by location, through the cache."""

    def __init__(
        self,
        cache: VersionCache,
        rule: PropertyRule = STRICT,
        limits: Limits | None = None,
        *,
        access_to: Callable[[Place], S3Access] | None = None,
    ) -> None:
        """`access_to` tells how a place in an object store is reached; without it, all are as the environment says."""
        self.cache = cache
        self.rule = rule  # which properties are served
        self._limits = limits or Limits()
        most = min(self._limits.metadata_bytes, self._limits.new_metadata_bytes)
        self._foreign_limits = self._limits.model_copy(update={"metadata_bytes": most})
        self._foreign_reads = BoundedSemaphore(FOREIGN_READS)
        self._local = LocalFiles()
        self._access_to = access_to
        self._s3: dict[S3Access, FileStore] = {}

    def store(self, place: Place) -> FileStore:
        if place.scheme == "file":
            return self._local
        access = self._access_to(place) if self._access_to else S3Access.of_environment()
        store = self._s3.get(access)
        if store is None:
            from frazil.catalog.files.s3 import S3Files

            store = self._s3.setdefault(access, S3Files(access))
        return store

    def forget_all(self) -> None:
        """Opens object stores again with the next request: keys may have changed, and where a location is."""
        self._s3 = {}
        self.cache.clear()

    def load_foreign(self, location: str, *, kind: str = "table") -> Version:
        """The version in a file that a client names: the limits are tighter, and few are read at a time, for such files
        may be large.
        """
        with self._foreign_reads:
            version = self._read_version(location, kind, self._foreign_limits)
        version.checked_at = time.monotonic()
        self.cache.put(version)
        return version

    def load(self, location: str, *, kind: str = "table", inline: bool = False) -> Version:
        """The version of a table or view. A file that vanished is noticed: at once on local files, within seconds in an
        object store.
        """
        version = self.cache.get(location)
        if version is None or version.kind != kind:
            if inline:
                raise WouldBlock
            version = self._read_version(location, kind, self._limits)
            version.checked_at = time.monotonic()
            self.cache.put(version)
            return version
        self._look(version, inline=inline)
        return version

    def _read_version(self, location: str, kind: str, limits: Limits) -> Version:
        try:
            return self._parse_version(location, kind, self.read_bytes(location, limits.metadata_bytes), limits)
        except orjson.JSONEncodeError as exc:  # it can be read, and not be written again
            raise MetadataCorrupt(location, f"it cannot be served: {exc}") from exc

    def _parse_version(self, location: str, kind: str, content: bytes, limits: Limits) -> Version:
        if kind == "view":
            return view_version(
                location, normalise_view(parse_file(location, content, limits), location), rule=self.rule
            )
        older = self.cache.neighbour(location)
        version = parse_like(content, older) if older is not None and older.snapshots_at > 0 else None
        known = len(older.metadata["snapshots"]) if older is not None and version else 0
        metadata = normalise(version or parse_file(location, content, limits), location, known_snapshots=known)
        return table_version(location, metadata, older if version else None, rule=self.rule)

    def _look(self, version: Version, *, inline: bool) -> None:
        place = version.place
        store = self.store(place)
        if store.remote:
            if time.monotonic() - version.checked_at < SEEN_SECONDS:
                return
            if inline:
                raise WouldBlock
        if not store.exists(place):
            self.cache.drop(version.location)
            raise MetadataMissing(version.location)
        version.checked_at = time.monotonic()

    def read(self, location: str) -> Json:
        """The metadata at a location, from the file itself."""
        return normalise(parse_file(location, self.read_bytes(location), self._limits), location)

    def read_bytes(self, location: str, most_bytes: int = MOST_BYTES) -> bytes:
        place = parse_location(location)
        try:
            return self.store(place).read(place, most_bytes)
        except FileNotFoundError as exc:
            raise MetadataMissing(location) from exc
        except (IsADirectoryError, NotADirectoryError) as exc:
            raise MetadataMissing(location) from exc
        except NotReadable as exc:
            raise MetadataCorrupt(location, str(exc)) from exc
        except OSError as exc:
            if exc.errno == errno.ENAMETOOLONG:
                raise MetadataMissing(location) from exc
            raise Unavailable(f"cannot read {location}: {exc}", reason=str(exc)) from exc

    def write_versions(self, versions: Sequence[Version]) -> None:
        """Writes the metadata files of a commit; all that were begun have ended when it returns or raises."""
        if len(versions) > 1 and self.store(versions[0].place).remote:
            # Each takes a round trip: side by side they take one together.
            with ThreadPoolExecutor(min(len(versions), 16)) as threads:
                list(threads.map(self.write_version, versions))
        else:
            for version in versions:
                self.write_version(version)

    def write_version(self, version: Version) -> None:
        """Writes the version's metadata file; packed when its name says so."""
        content: bytes | memoryview = version.file_bytes
        if version.location.endswith(".gz.metadata.json"):
            content = pack(bytes(content))
        self._write_new(version.location, version.place, content)

    def write_lists(self, lists: Sequence[tuple[str, bytes]]) -> None:
        """Writes manifest lists, each a location and its content; all that were begun have ended when it returns or
        raises.
        """
        files = [(location, parse_location(location), content) for location, content in lists]
        if len(files) > 1:  # each waits for its store: together they wait once
            with ThreadPoolExecutor(min(len(files), 16)) as threads:
                list(threads.map(lambda file: self._write_new(*file), files))
        else:
            for file in files:
                self._write_new(*file)

    def _write_new(self, location: str, place: Place, content: bytes | memoryview) -> None:
        try:
            self.store(place).write_new(place, content)
        except OSError as exc:
            if exc.errno == errno.ENAMETOOLONG:
                raise MalformedLocation(f"Location {location[:60]}... is too long for this file system") from exc
            if isinstance(exc, NotADirectoryError | FileExistsError):
                raise MalformedLocation(f"Location {location[:200]} cannot be a folder: a file has this path") from exc
            raise Unavailable(
                f"cannot write {location}: {exc}",
                hint="check the free space and the permissions of the warehouse",
                reason=str(exc),
            ) from exc

    def make_folders(self, locations: Iterable[str]) -> None:
        """Makes folders on a local file system: DuckDB writes the first files of a staged table without making any."""
        for place in map(parse_location, locations):
            if place.scheme == "file":
                with contextlib.suppress(OSError):  # the write that follows says what is wrong
                    os.makedirs(place.path, exist_ok=True)  # noqa: PTH103

    def delete(self, location: str) -> bool:
        """Whether a file was deleted, as far as that works: one that stays is found by the sweeper. Links and devices
        stay.
        """
        self.cache.drop(location)
        place = parse_location(location)
        store = self.store(place)
        try:
            if not store.is_regular(place):
                return False
            store.delete(place)
        except (OSError, Unavailable):
            return False
        return True


def _check_folder(name: str, folder: Path) -> None:
    """The folder, or the nearest one above it that exists, can be written: missing ones are made with the
    first table.
    """
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    reason = (
        "is not a folder"
        if not nearest.is_dir()
        else ""
        if os.access(nearest, os.W_OK | os.X_OK)
        else "cannot be written by this user"
    )
    if reason:
        raise ConfigError(
            f"warehouse '{name}' is {folder}, but {nearest} {reason}",
            hint="frazil serve --warehouse FOLDER",
            name=name,
            reason=reason,
        )
