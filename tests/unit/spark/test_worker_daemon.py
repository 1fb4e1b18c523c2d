"""The process from which Spark forks Python workers: archives on Python's path are listed once, and again when they
change.
"""

from __future__ import annotations

import importlib
import sys
import zipfile
import zipimport
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.spark.worker_daemon import list_archives_when_they_changed


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An archive on Python's path, of which a module is loaded."""
    path = tmp_path / "lib.jar"
    write(path, "in_archive_one")
    monkeypatch.syspath_prepend(str(path))
    monkeypatch.setattr(zipimport.zipimporter, "invalidate_caches", zipimport.zipimporter.invalidate_caches)
    importlib.import_module("in_archive_one")
    yield path
    for name in ("in_archive_one", "in_archive_two"):
        sys.modules.pop(name, None)
    sys.path_importer_cache.pop(str(path), None)


def write(path: Path, *modules: str) -> None:
    """Another file in its place, which the clock of the disk may not tell from the one before."""
    with zipfile.ZipFile(path, "w") as target:
        for module in modules:
            target.writestr(f"{module}.py", f"name = {module!r}\n")


def test_an_archive_is_listed_again_only_when_it_changed(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []
    read = zipimport._read_directory  # type: ignore[attr-defined]
    monkeypatch.setattr(zipimport, "_read_directory", lambda path: listed.append(path) or read(path))
    list_archives_when_they_changed()
    importlib.invalidate_caches()
    assert str(archive) not in listed
    write(archive, "in_archive_one", "in_archive_two")
    importlib.invalidate_caches()
    assert importlib.import_module("in_archive_two").name == "in_archive_two"
    importlib.invalidate_caches()
    assert listed.count(str(archive)) == 1


def test_an_archive_that_is_gone_has_no_modules(archive: Path) -> None:
    list_archives_when_they_changed()
    archive.unlink()
    importlib.invalidate_caches()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("in_archive_two")
