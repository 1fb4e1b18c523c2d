"""A project in one file: the modules that executors may have to import, as a zip for their path.

`lakehouse.py` itself travels inside each task, pickled. Its neighbours are imported by name, and on a cluster the
folder is not there.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

from frazil.errors import ProjectError

MOST_BYTES = 64 * 1024 * 1024
LEFT_OUT = {"__pycache__", "node_modules", "site-packages", "build", "dist"}
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same files give the same zip, whenever it is made


@dataclass(frozen=True)
class Pack:
    """A zip of a project: where it is, and what is in it, by paths relative to the project."""

    path: Path
    files: tuple[str, ...]

    @property
    def bytes(self) -> int:
        return self.path.stat().st_size


def pack_project(folder: Path, into: Path) -> Pack:
    """The project's modules in a zip below `into`; its name tells its content, so an older one is never taken
    for it.
    """
    files = project_files(folder)
    digest = hashlib.sha256()
    for name in files:
        digest.update(f"{name}\0".encode() + hashlib.sha256((folder / name).read_bytes()).digest())
    path = into / f"project-{digest.hexdigest()[:12]}.zip"
    if not path.exists():
        into.mkdir(parents=True, exist_ok=True)
        _write(folder, files, path)
    return Pack(path, tuple(files))


def project_files(folder: Path) -> list[str]:
    """The modules of a project, and all that lies in its packages; neither hidden folders nor environments.

    Refused if it is more than modules can be: then the folder holds something else that should not go to every
    executor.
    """
    files: list[str] = []
    total = 0
    for current, folders, names in os.walk(folder):
        here = Path(current)
        folders[:] = sorted(name for name in folders if _is_part(here / name))
        whole = "__init__.py" in names  # a package's other files are read through importlib.resources
        for name in sorted(names):
            if (name.endswith(".py") or whole) and not name.startswith(".") and (here / name).is_file():
                files.append((here / name).relative_to(folder).as_posix())
                total += (here / name).stat().st_size
                if total > MOST_BYTES:
                    raise ProjectError(
                        f"the modules in {folder} are more than {MOST_BYTES >> 20} MB; the last one looked at is "
                        f"{files[-1]}",
                        hint="keep data and environments out of the project's packages, or in folders whose name "
                        "begins with a dot",
                        path=files[-1],
                    )
    return files


def _is_part(folder: Path) -> bool:
    return not folder.name.startswith(".") and folder.name not in LEFT_OUT and not (folder / "pyvenv.cfg").exists()


def _write(folder: Path, files: list[str], path: Path) -> None:
    part = path.with_suffix(f".{os.getpid()}.part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as target:
        for name in files:
            target.writestr(zipfile.ZipInfo(name, _EPOCH), (folder / name).read_bytes(), zipfile.ZIP_DEFLATED)
    part.replace(path)
