"""What the project declares, kept until one of its files changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from frazil.console.project.child import POLL_SECONDS, ChildFailed, ask_child

FILE_NAME = "lakehouse.py"  # as frazil.project has it, which imports more than a server needs
SUFFIXES = (".py", ".sql", ".toml")
MOST_DEPTH, MOST_ENTRIES = 4, 5_000
FAILED_SECONDS = 5.0  # that an error is kept: what it rests on may be no file, such as a server that is away

Json = Mapping[str, Any]
Fingerprint = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Described:
    """What the files of a project declare, or why they could not be loaded."""

    files: Fingerprint
    declared: Json = field(default_factory=dict)
    error: str | None = None
    at: float = field(default_factory=time.monotonic)

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """The pipelines and models, as `frazil graph --columns --output json` has them."""
        nodes: list[dict[str, Any]] = self.declared["graph"]["nodes"] if self.declared else []
        return nodes

    @property
    def tables(self) -> Mapping[str, list[str]]:
        """The columns of each declared table."""
        tables: Mapping[str, list[str]] = self.declared.get("tables", {})
        return tables

    @property
    def checks(self) -> Mapping[str, list[str]]:
        """The checks of each declared table and model."""
        checks: Mapping[str, list[str]] = self.declared.get("checks", {})
        return checks


class Projects:
    """What was described last, by folder; one child describes a folder at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[Path, Described] = {}

    def known(self, folder: Path) -> Described | None:
        """What is known of the files as they are now; None if they were not loaded yet."""
        described = self._known.get(folder)
        if described is None or described.files != fingerprint(folder):
            return None
        expired = described.error is not None and time.monotonic() > described.at + FAILED_SECONDS
        return None if expired else described

    def describe(self, folder: Path, check: Callable[[], None]) -> Described:
        """The same, loaded if need be."""
        while not self._lock.acquire(timeout=POLL_SECONDS):
            check()
        try:
            described = self.known(folder)
            if described is None:
                described = self._known[folder] = _describe(folder, check)
            return described
        finally:
            self._lock.release()


def _describe(folder: Path, check: Callable[[], None]) -> Described:
    files = fingerprint(folder)
    try:
        return Described(files, ask_child(folder, {"ask": "describe"}, check=check))
    except ChildFailed as exc:
        return Described(files, error=str(exc))


def has_project(folder: Path | None) -> bool:
    """Whether there is a project file in the folder."""
    return folder is not None and (folder / FILE_NAME).is_file()


def fingerprint(folder: Path) -> Fingerprint:
    """The project's files that code and settings are in, with time and size: what is declared follows from them."""
    return tuple(sorted(_files(folder)))


def _files(folder: Path) -> Iterator[tuple[str, int, int]]:
    entries = 0
    for parent, folders, names in os.walk(folder):
        depth = len(Path(parent).relative_to(folder).parts)
        folders[:] = [] if depth >= MOST_DEPTH else sorted(name for name in folders if name[0] not in "._")
        entries += len(folders) + len(names)
        if entries > MOST_ENTRIES:  # folders of data: what is declared lies at the top
            return
        for file in (Path(parent, name) for name in names if name.endswith(SUFFIXES)):
            with suppress(OSError):  # removed meanwhile
                status = file.stat()
                yield str(file), status.st_mtime_ns, status.st_size


projects = Projects()
