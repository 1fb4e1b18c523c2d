"""Jars and servers by their coordinates, fetched once into the cache.

    resolve_jars(["org.apache.iceberg:iceberg-aws-bundle:1.12.0"])               the jar alone
    resolve_jars(["org.apache.kafka:kafka_2.13:4.3.1"], transitive=True)         with all that it depends on
    unpack_server("io.trino:trino-server:476@tar.gz", keep=["lib/"])             an archive, unpacked

The first call downloads, with a progress display; later calls read a manifest: offline, in a millisecond, without a
JVM.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from frazil.artifacts import pins
from frazil.artifacts.cache import Work, cache_folder, fill_once
from frazil.artifacts.ivy import Coordinate, run_ivy
from frazil.artifacts.java import JavaNeed, find_java
from frazil.artifacts.progress import OnProgress, show_progress, watch_folder
from frazil.errors import ConfigError, DownloadError

__all__ = ["cache_folder", "jars_folder", "resolve_jars", "unpack_server"]

MANIFEST = "manifest.json"
_AT_ONCE = 4  # downloads side by side


def resolve_jars(
    coordinates: Sequence[str],
    *,
    transitive: bool = False,
    ivy_settings: Path | None = None,
    total_bytes: int | None = None,
    on_progress: OnProgress | None = None,
) -> list[Path]:
    """The files of these coordinates (`group:name:version[:classifier][@ext]`), from the cache or downloaded into it.

    `ivy_settings` is a site's own settings file (else FRAZIL_IVY_SETTINGS); `total_bytes`, where known, gives the
    progress bar an end.
    """
    if not transitive and len(coordinates) != 1:
        # Each by itself, so that two sets which share a jar share its download.
        show = on_progress or show_progress()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            each = pool.map(
                lambda coordinate: resolve_jars([coordinate], ivy_settings=ivy_settings, on_progress=show),
                dict.fromkeys(coordinates),
            )
            return [file for files in each for file in files]
    wanted = sorted({Coordinate.parse(text) for text in coordinates})
    settings = _site_settings(ivy_settings)
    pinned = pins.pinned_jars(list(map(str, wanted)), transitive=transitive)

    def build(work: Work) -> Path:
        java = find_java(JavaNeed.JARS, on_progress=on_progress)
        with watch_folder(work.folder, _title(wanted), on_progress, total_bytes=total_bytes):
            paths = run_ivy(wanted, java=java, work=work, transitive=transitive, settings=settings)
        folder = _collect(paths, wanted, work.folder)
        hashes = {name: pins.sha256_of(folder / name) for name in _listed_names(folder)}
        try:
            pins.check_download(", ".join(map(str, wanted)), hashes, pinned)
        except DownloadError:
            shutil.rmtree(work.folder, ignore_errors=True)  # else the next try would go on with these files
            raise
        pins.seal(folder)
        return folder

    def is_whole(folder: Path) -> bool:
        listed = _listed_files(folder)
        whole = listed is not None and (pinned is None or {file.name for file in listed} == set(pinned))
        return whole and pins.is_as_sealed(folder, pinned)

    return _listed_files(fill_once(jars_folder(coordinates, transitive=transitive), build, is_whole=is_whole)) or []


def jars_folder(coordinates: Sequence[str], *, transitive: bool = False) -> Path:
    """Where these coordinates are kept once they are resolved; their order does not matter."""
    wanted = sorted({Coordinate.parse(text) for text in coordinates})
    digest = _digest([*map(str, wanted), f"transitive={transitive}"])
    return cache_folder() / "jars" / f"{wanted[0].name}-{wanted[0].version}-{digest}"


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def unpack_server(
    coordinate: str,
    *,
    keep: Sequence[str],
    ivy_settings: Path | None = None,
    total_bytes: int | None = None,
    on_progress: OnProgress | None = None,
) -> Path:
    """The folder inside a tar.gz archive, unpacked once; of what lies below it, only paths that begin with one of
    `keep` stay.
    """
    parsed = Coordinate.parse(coordinate)

    def build(work: Work) -> Path:
        [archive] = resolve_jars(
            [coordinate], ivy_settings=ivy_settings, total_bytes=total_bytes, on_progress=on_progress
        )
        try:
            with watch_folder(work.folder, f"unpacking {parsed.name} {parsed.version}", on_progress):
                folder = _unpack(archive, work.folder / "unpacked", keep)
                _remove_empty_folders(folder)
                pins.seal(folder)
                return folder
        except (tarfile.TarError, EOFError, OSError) as exc:
            raise DownloadError(
                coordinate, f"its archive could not be unpacked: {exc}", hint=f"see that {archive.parent} has room"
            ) from exc

    name = f"{parsed.name}-{parsed.version}-{_digest([coordinate, *keep])}"
    folder = fill_once(cache_folder() / "servers" / name, build, is_whole=lambda f: f.is_dir() and pins.is_as_sealed(f))
    _remove_empty_folders(folder)
    shutil.rmtree(jars_folder([coordinate]), ignore_errors=True)  # the archive is as large as what came out of it
    return folder


def _unpack(archive: Path, target: Path, keep: Sequence[str]) -> Path:
    """The archive's top folder below `target`. Kept hard links need what they point to, which may lie in a part that is
    not kept.
    """
    shutil.rmtree(target, ignore_errors=True)
    with tarfile.open(archive, "r:gz") as tar:
        members = tar.getmembers()
        kept = {m.name for m in members if m.name.partition("/")[2].startswith(tuple(keep))}
        targets = {m.linkname for m in members if m.islnk() and m.name in kept}
        # Python before 3.11.4 has no filters; the archive's hash is pinned, so it holds what its makers put there.
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        tar.extractall(target, members=[m for m in members if m.name in kept | targets])  # noqa: S202
    for name in targets - kept:
        (target / name).unlink()
    [top] = target.iterdir()
    return top


def _remove_empty_folders(folder: Path) -> None:
    """Trino does not start if its plugin folder holds an empty one, which unlinked targets of hard links leave."""
    for path, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):  # not empty
            Path(path).rmdir()


# --- the manifest ----------------------------------------------------------------------------------------------------


def _collect(paths: Sequence[Path], wanted: Sequence[Coordinate], work: Path) -> Path:
    """A folder with all files side by side and the manifest that lists them with their sizes."""
    folder = work / "whole"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    names = [_place(file, folder, work) for file in paths]
    files = {name: (folder / name).stat().st_size for name in names}
    manifest = {"coordinates": [str(c) for c in wanted], "files": files}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return folder


def _place(file: Path, folder: Path, work: Path) -> str:
    name = file.name if not (folder / file.name).exists() else f"{file.parent.parent.name}-{file.name}"
    # Ivy's own copy is moved; a file that a site's settings keep elsewhere is theirs.
    (shutil.move if file.is_relative_to(work) else shutil.copyfile)(file, folder / name)
    return name


def _listed_files(folder: Path) -> list[Path] | None:
    """The files of a manifest, or None if it is missing or a file is not as it says."""
    try:
        files: dict[str, int] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        whole = all((folder / name).stat().st_size == size for name, size in files.items())
    except (OSError, ValueError, KeyError):
        return None
    return [folder / name for name in files] if whole else None


def _listed_names(folder: Path) -> list[str]:
    return list(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"])


def _site_settings(path: Path | None) -> Path | None:
    named = path or (Path(value) if (value := os.environ.get("FRAZIL_IVY_SETTINGS")) else None)
    if named is None:
        return None
    if not named.expanduser().is_file():
        raise ConfigError(
            f"the Ivy settings {named} do not exist",
            hint="correct spark.ivy_settings or FRAZIL_IVY_SETTINGS",
            path=str(named),
        )
    return named.expanduser().absolute()


def _title(wanted: Sequence[Coordinate]) -> str:
    return f"fetching {wanted[0].name} {wanted[0].version}" + (
        f" and {len(wanted) - 1} more" if len(wanted) > 1 else ""
    )
