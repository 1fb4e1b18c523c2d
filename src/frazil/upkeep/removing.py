"""Files that are removed for good: several at once, each counted, none twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from frazil.sinks.publish import ignore
from frazil.upkeep.paths import is_below

if TYPE_CHECKING:
    from obstore.store import S3Store
    from pyiceberg.table import Table

THREADS = 8
S3 = ("s3://", "s3a://", "s3n://")
AT_ONCE = 512


@dataclass(frozen=True)
class Removed:
    """How many files are gone, how many were gone before, and which could not be removed or were not ours to remove."""

    files: int = 0
    missing: int = 0
    failed: tuple[str, ...] = ()
    outside: int = 0  # not in the table's folders: added by hand, maybe somebody else's

    def __add__(self, other: Removed) -> Removed:
        return Removed(
            self.files + other.files, self.missing + other.missing, (*self.failed, *other.failed)[:100], self.outside + other.outside
        )


def folders_of(table: Table) -> tuple[str, ...]:
    """Where a table's files lie: its location, and where its properties send data and metadata."""
    properties = table.metadata.properties
    others = (properties.get("write.data.path"), properties.get("write.metadata.path"), properties.get("write.object-storage.path"))
    return tuple(dict.fromkeys(folder.rstrip("/") for folder in (table.location(), *others) if folder))


def remove_files(table: Table, paths: Iterable[str], *, on_step: Callable[[str], None] = ignore) -> Removed:
    """Removes files that lie in the table's folders; the others are counted and left."""
    folders, result, delete = folders_of(table), Removed(), _deleter(table)

    def remove(path: str) -> Removed:
        if not any(is_below(path, folder) for folder in folders):
            return Removed(outside=1)
        if "?" in path or "#" in path:  # PyIceberg takes these for the end of the name, and would remove another file
            return Removed(failed=(f"{path}: a name with ? or # is not removed here",))
        try:
            delete(path)
        except FileNotFoundError:
            return Removed(missing=1)
        except Exception as exc:  # whatever a store says: the file stays, is named, and is an orphan
            return Removed(failed=(f"{path}: {exc}",))
        return Removed(files=1)

    with ThreadPoolExecutor(THREADS, thread_name_prefix="frazil-upkeep") as pool:
        for some in _portions(paths):
            on_step("removing files")
            result = sum(pool.map(remove, some), result)
    return result


def _deleter(table: Table) -> Callable[[str], None]:
    """What removes one file. On S3 not Arrow's way, which puts an empty object in place of each folder that it removes a file from."""
    properties: Mapping[str, str] = table.io.properties
    if not table.location().startswith(S3) or "s3.access-key-id" not in properties:
        return table.io.delete
    stores: dict[str, S3Store] = {}

    def delete(path: str) -> None:
        import obstore

        bucket, _, key = path.partition("://")[2].partition("/")
        if bucket not in stores:
            stores[bucket] = _store(bucket, properties)
        obstore.delete(stores[bucket], key)

    return delete


def _store(bucket: str, properties: Mapping[str, str]) -> S3Store:
    from obstore.store import S3Store

    names = {"s3.endpoint": "endpoint", "s3.access-key-id": "access_key_id", "s3.secret-access-key": "secret_access_key"}
    names |= {"s3.session-token": "session_token", "s3.region": "region"}
    given: dict[str, Any] = {name: properties[key] for key, name in names.items() if properties.get(key)}
    is_virtual = str(properties.get("s3.force-virtual-addressing", "false")).lower() == "true"
    return S3Store(
        bucket,
        virtual_hosted_style_request=is_virtual,
        client_options={"allow_http": str(given.get("endpoint", "")).startswith("http://")},
        **given,
    )


def _portions(paths: Iterable[str]) -> Iterator[list[str]]:
    waiting = iter(paths)
    while some := list(islice(waiting, AT_ONCE)):
        yield some
