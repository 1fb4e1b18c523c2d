"""SHA-256 of what is downloaded: the pinned hashes, and how a folder of the cache is checked against them.

`pins.json` names every file that Frazil itself asks for; `python -m tools.pins` writes it when a version changes. A
download that differs is refused. Jars that a project adds are not pinned: their hash at the first download counts.

A folder in the cache has a seal: size, time and hash of each of its files. Files whose size and time are as sealed are
not hashed again, so a start costs a few milliseconds; a file that has changed is hashed, and a folder that is not what
was sealed is downloaded again. The seal detects damage and careless changes. It does not stop an attacker who can write
to the cache: protect that folder like the programs in it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from frazil.errors import DownloadError

SEAL = ".seal.json"
_NOT_SEALED = frozenset((SEAL, "jssecacerts"))  # the second holds a site's own certificates, which may be changed
_Sealed = dict[str, tuple[int, int, str]]  # by path inside the folder: bytes, time in ns, SHA-256


@functools.cache
def read_pins() -> dict[str, Any]:
    """The pins: `jars` by set of coordinates, `wheels` by requirement."""
    pins: dict[str, Any] = json.loads(resources.files(__package__).joinpath("pins.json").read_text(encoding="utf-8"))
    return pins


def pin_name(coordinates: Sequence[str], *, transitive: bool) -> str:
    """The name of a set of coordinates in the pins.

    >>> pin_name(["org.x:b:1", "org.x:a:1"], transitive=True)
    'org.x:a:1 + org.x:b:1 with dependencies'
    """
    return " + ".join(sorted(coordinates)) + (" with dependencies" if transitive else "")


def pinned_jars(coordinates: Sequence[str], *, transitive: bool) -> dict[str, str] | None:
    """The SHA-256 of each file of a set of coordinates; None for a set that is not ours."""
    files: dict[str, str] | None = read_pins()["jars"].get(pin_name(coordinates, transitive=transitive))
    return files


def pinned_wheel(requirement: str) -> list[str]:
    """The SHA-256 of the wheels of a requirement, one per platform."""
    hashes: list[str] = read_pins()["wheels"].get(requirement, [])
    return hashes


def sha256_of(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def check_download(artifact: str, hashes: Mapping[str, str], pinned: Mapping[str, str] | None) -> None:
    """Raises when downloaded files are not exactly the pinned ones."""
    if pinned is None or hashes == pinned:
        return
    hint = (
        "the repository or a proxy serves another file than the one that was released; do not use it before you "
        "know why"
    )
    for name in sorted({*hashes, *pinned}):
        if hashes.get(name) != pinned.get(name):
            reason = (
                f"{name} has the SHA-256 {hashes.get(name) or '(it is missing)'}, expected "
                f"{pinned.get(name) or 'no such file'}"
            )
            expected, got = pinned.get(name), hashes.get(name)
            raise DownloadError(artifact, reason, hint=hint, path=name, expected=expected, got=got)


def seal(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file of a folder, by its path inside; remembers them with sizes and times."""
    sealed = {name: _sealed(folder / name) for name in _files(folder)}
    _write_seal(folder, sealed)
    return {name: entry[2] for name, entry in sealed.items()}


def is_as_sealed(folder: Path, pinned: Mapping[str, str] | None = None) -> bool:
    """Whether a folder holds exactly the files that were sealed, and the pinned ones if there are pins.

    A folder from before there were seals is hashed, compared with the pins and sealed.
    """
    before = _read_seal(folder)
    now = {name: _look(folder / name, before.get(name) if before is not None else None) for name in _files(folder)}
    hashes = {name: entry[2] for name, entry in now.items()}
    if before is not None and hashes != {name: entry[2] for name, entry in before.items()}:
        return False
    if pinned is not None and {name: hashes.get(name) for name in pinned} != pinned:
        return False
    if now != before:
        _write_seal(folder, now)
    return True


def _look(file: Path, before: tuple[int, int, str] | None) -> tuple[int, int, str]:
    status = file.stat()
    return before if before is not None and before[:2] == (status.st_size, status.st_mtime_ns) else _sealed(file)


def _sealed(file: Path) -> tuple[int, int, str]:
    status = file.stat()
    return status.st_size, status.st_mtime_ns, sha256_of(file)


def _files(folder: Path) -> Iterable[str]:
    """The paths of the files below a folder, without links that lead nowhere and without the seal."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            if name not in _NOT_SEALED and path.is_file():
                yield str(path.relative_to(folder))


def _read_seal(folder: Path) -> _Sealed | None:
    try:
        return {
            name: (entry[0], entry[1], entry[2])
            for name, entry in json.loads((folder / SEAL).read_text("utf-8")).items()
        }
    except (OSError, ValueError, TypeError, IndexError, KeyError, AttributeError):
        return None


def _write_seal(folder: Path, sealed: _Sealed) -> None:
    """Writes the seal as a whole; where the cache cannot be written, the next start hashes again."""
    temporary = folder / f"{SEAL}.{os.getpid()}"
    try:
        temporary.write_text(json.dumps(sealed), encoding="utf-8")
        temporary.replace(folder / SEAL)
    except OSError:
        temporary.unlink(missing_ok=True)
