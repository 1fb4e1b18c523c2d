"""Which files the tables of a catalog lead to. Asked before a file is deleted: a file that any table leads to stays.

A version of a table (one metadata file) names some files itself: its log, its statistics, its manifest lists. The
others are named by manifests. Metadata files and manifests never change, so what was learned of one is kept by its
location: of a manifest only the longest path that all its files begin with. A manifest whose files begin otherwise than
the candidates is not read again.

A file that is missing leads nowhere. One that is there and cannot be read may lead anywhere: `ReferencesUnknown`, and
nothing is deleted.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from frazil.errors import FrazilError, ReferencesUnknown

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from frazil.scan.manifests.manifest import ManifestCache

MOST_KNOWN = 100_000  # manifests of which the common start of their paths is kept
PATH_PROPERTIES = ("write.metadata.path", "write.data.path", "write.object-storage.path", "write.folder-storage.path")
MOST_ENCODINGS = 8  # a hostile name could be decoded a million times
_SCHEME = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*):(//)?")
_S3 = ("s3", "s3a", "s3n")

# --- paths -----------------------------------------------------------------------------------------------------------


def comparable(path: str) -> str:
    """The path without what engines spell in different ways. Two files may share it: then both are spared, never the
    other way round.

    >>> comparable("file:///a//b.parquet") == comparable("file:/a/b.parquet") == comparable("/a/b.parquet")
    True
    >>> comparable("s3a://lake/t/day=2024-01-18T09%3A00/f") == comparable("s3://lake/t/day=2024-01-18T09:00/f")
    True
    """
    match = _SCHEME.match(path)
    scheme, rest = (match[1].lower(), path[match.end() :]) if match else ("file", path)
    if scheme in _S3:
        scheme = "s3"
    if scheme == "file":
        rest = "/" + rest.removeprefix("localhost/")
    if "%" in rest:
        rest = _decoded(rest)
    return f"{scheme}:{re.sub('/+', '/', rest) if '//' in rest else rest}"


def _decoded(text: str) -> str:
    """Until nothing changes: one engine encodes a name that another has encoded before."""
    for _ in range(MOST_ENCODINGS):
        if (once := unquote(text)) == text:
            break
        text = once
    return text


class RealPaths:
    """Comparable paths with the symbolic links of their folders followed; each folder is looked at once."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def __call__(self, path: str) -> str:
        plain = comparable(path)
        if not plain.startswith("file:"):
            return plain
        folder, _, name = plain[5:].rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = real_folder(folder)
        return f"file:{self._folders[folder]}/{name}"


def real_folder(folder: str) -> str:
    """A local folder with symbolic links followed, as far as it exists."""
    try:
        return os.path.realpath(folder or "/").rstrip("/")
    except ValueError:  # no name of a file: a null character, half a surrogate pair
        return folder


def has_dots(path: str) -> bool:
    """Whether a path steps up, plainly or encoded, so that what it is below depends on who reads it.

    >>> has_dots("s3://b/t/../u/f"), has_dots("s3://b/t/%2e%2E/u"), has_dots("s3://b/t/..f/x")
    (True, True, False)
    """
    return any(part in (".", "..") for part in re.split(r"[/\\]", _decoded(path)))


# --- what a table names ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableFiles:
    """What one version of a table names itself, and where it keeps its files."""

    label: str
    named: tuple[str, ...]
    lists: tuple[str, ...] = ()
    manifests: tuple[str, ...] = ()  # of snapshots of format 1 that have no list
    folders: tuple[str, ...] = ()

    def __len__(self) -> int:
        """How many paths it holds."""
        return len(self.named) + len(self.lists) + len(self.manifests) + len(self.folders)

    @staticmethod
    def of_json(label: str, location: str, metadata: Mapping[str, Any]) -> TableFiles:
        """From the JSON of a table's or view's metadata file."""
        files = (*metadata.get("statistics", ()), *metadata.get("partition-statistics", ()))
        lists = dict.fromkeys(
            snapshot_["manifest-list"] for snapshot_ in metadata.get("snapshots", ()) if snapshot_.get("manifest-list")
        )
        direct = dict.fromkeys(
            manifest for snapshot in metadata.get("snapshots", ()) for manifest in snapshot.get("manifests") or ()
        )
        log = (entry["metadata-file"] for entry in metadata.get("metadata-log", ()))
        named = (location, *log, *(file["statistics-path"] for file in files))
        folders = folders_of(metadata["location"], metadata.get("properties") or {})
        return TableFiles(label, named, tuple(lists), tuple(direct), folders)

    @staticmethod
    def of_table(label: str, table: Table) -> TableFiles:
        """From a table as PyIceberg has it."""
        metadata = table.metadata
        files = (*metadata.statistics, *metadata.partition_statistics)
        lists = dict.fromkeys(snapshot.manifest_list for snapshot in metadata.snapshots if snapshot.manifest_list)
        log = (entry.metadata_file for entry in metadata.metadata_log)
        named = (table.metadata_location, *log, *(file.statistics_path for file in files))
        return TableFiles(label, named, tuple(lists), folders=folders_of(metadata.location, metadata.properties))


def folders_of(location: str, properties: Mapping[str, str]) -> tuple[str, ...]:
    """Where a table's files lie: its location, and where its properties send data and metadata."""
    others = (properties.get(key) for key in PATH_PROPERTIES)
    return tuple(dict.fromkeys(folder.rstrip("/") for folder in (location, *others) if folder))


# --- candidates ------------------------------------------------------------------------------------------------------


class Candidates:
    """Files that may be deleted, in order; those that a table leads to are taken out, with the table's name."""

    def __init__(self, paths: Iterable[str], *, real: RealPaths | None = None) -> None:
        self.real = real or RealPaths()
        self._left: dict[str, list[str]] = {}
        for path in paths:
            self._left.setdefault(self.real(path), []).append(path)
        self.start = _common_start(self._left)
        self.referenced: dict[str, str] = {}  # path -> the table that leads to it

    def __bool__(self) -> bool:
        return bool(self._left)

    @property
    def left(self) -> list[str]:
        """Those that no table was found to lead to."""
        return [path for paths in self._left.values() for path in paths]

    def spare(self, paths: Iterable[str], label: str) -> None:
        """Takes out what a table names, under any spelling."""
        for path in paths:
            for own in self._left.pop(self.real(path), ()):
                self.referenced[own] = label

    def may_share(self, start: str) -> bool:
        """Whether a file that begins like this may be one of them."""
        return start.startswith(self.start) or self.start.startswith(start)


def _common_start(paths: Iterable[str]) -> str:
    """
    >>> _common_start(["file:/a/b1", "file:/a/b2"]), _common_start([])
    ('file:/a/b', '')
    """
    first, last = min(paths, default=""), max(paths, default="")
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(path for path, _ in same)


# --- the search ------------------------------------------------------------------------------------------------------


class References:
    """Finds which candidates a table leads to. `read` gives a file's bytes; `FileNotFoundError` when there is none."""

    def __init__(self, read: Callable[[str], bytes], *, max_bytes: int = 64 << 20) -> None:
        from frazil.scan.manifests.manifest import ManifestCache  # loads pyarrow

        self._cache: ManifestCache = ManifestCache(read, max_bytes=max_bytes)
        self._starts: OrderedDict[str, str | None] = OrderedDict()  # by manifest; None: it is missing or has no files
        self._lock = Lock()

    def spare(self, candidates: Candidates, table: TableFiles) -> None:
        """Takes out of the candidates what the table leads to."""
        candidates.spare((*table.named, *table.lists), table.label)
        self._spare_manifests(candidates, table.manifests, table.label)
        for path in table.lists:
            if candidates:
                self._spare_manifests(candidates, self._manifests(path, table.label), table.label)

    def _spare_manifests(self, candidates: Candidates, manifests: Sequence[str], label: str) -> None:
        candidates.spare(manifests, label)
        for manifest in manifests:
            if candidates:
                self._spare_files(candidates, manifest, label)

    def _manifests(self, path: str, label: str) -> list[str]:
        manifests = self._known(path, label, lambda: self._cache.manifest_list(path))
        return list(manifests.columns["path"]) if manifests is not None else []

    def _spare_files(self, candidates: Candidates, manifest: str, label: str) -> None:
        with self._lock:
            known = manifest in self._starts
            start = self._starts.get(manifest)
            if known:
                self._starts.move_to_end(manifest)
        if known and (start is None or not candidates.may_share(start)):
            return
        manifest_ = self._known(manifest, label, lambda: self._cache.manifest(manifest))
        paths: list[str] = manifest_.columns["path"].to_pylist() if manifest_ is not None else []
        if not known:
            self._remember(manifest, _common_start([candidates.real(path) for path in paths]) if paths else None)
        candidates.spare(paths, label)

    def _remember(self, manifest: str, start: str | None) -> None:
        with self._lock:
            self._starts[manifest] = start
            while len(self._starts) > MOST_KNOWN:
                self._starts.popitem(last=False)

    def _known(self, path: str, label: str, load: Callable[[], Any]) -> Any:
        """What was decoded; None when there is no such file."""
        try:
            return load()
        except FileNotFoundError:
            return None
        except (FrazilError, OSError, ValueError) as exc:
            raise ReferencesUnknown(label, path, str(exc)) from exc


def in_portions(paths: Iterable[str], size: int) -> Iterator[list[str]]:
    """The paths, some at a time."""
    waiting: list[str] = []
    for path in paths:
        waiting.append(path)
        if len(waiting) >= size:
            yield waiting
            waiting = []
    if waiting:
        yield waiting
