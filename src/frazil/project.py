"""A user's project: the tables and pipelines that `lakehouse.py` declares."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from frazil.errors import ProjectError
from frazil.pipelines import Pipeline
from frazil.tables import Table

FILE_NAME = "lakehouse.py"


@dataclass(frozen=True)
class Project:
    """What `lakehouse.py` in `folder` declares, in the order it does."""

    folder: Path
    tables: tuple[Table, ...]
    pipelines: tuple[Pipeline, ...]

    def pipeline(self, name: str) -> Pipeline:
        """The pipeline of that name."""
        for candidate in self.pipelines:
            if candidate.name == name:
                return candidate
        known = ", ".join(p.name for p in self.pipelines) or "none"
        raise ProjectError(
            f"{self.folder / FILE_NAME} declares no pipeline '{name}'; it declares: {known}",
            path=str(self.folder / FILE_NAME),
            pipeline=name,
        )


def load_project(folder: Path) -> Project:
    """The project in `folder`."""
    path = folder / FILE_NAME
    if not path.exists():
        raise ProjectError(
            f"no {FILE_NAME} in {folder.resolve()}",
            hint="go to the project's folder, or start one with: frazil init NAME",
            path=str(folder),
        )
    values = list(vars(_import(path)).values())
    tables = _tables(path, [value for value in values if isinstance(value, Table)])
    pipelines = tuple(v for v in values if isinstance(v, Pipeline))
    return Project(folder.resolve(), tables, pipelines)


def _tables(path: Path, tables: list[Table]) -> tuple[Table, ...]:
    """The tables, each once: two variables may hold the same one, two declarations may not share a name."""
    by_name: dict[str, Table] = {}
    for table in tables:
        if by_name.setdefault(table.name, table) is not table:
            raise ProjectError(
                f"{path} declares table '{table.name}' twice",
                hint="remove one of the declarations, or name it otherwise",
                path=str(path),
                table=table.name,
            )
    return tuple(by_name.values())


def _import(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("lakehouse", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)  # so that lakehouse.py can import its neighbours
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as exc:
        line = _line_of(exc, path)
        where = f"{path}:{line}" if line else str(path)
        raise ProjectError(
            f"{where} could not be loaded: {type(exc).__name__}: {exc}", path=str(path), line=line, reason=str(exc)
        ) from exc
    finally:
        sys.path.remove(folder)
    return module


def _line_of(exc: BaseException, path: Path) -> int | None:
    """The line of the file that was running; a syntax error names its line itself."""
    lines = [number for frame, number in traceback.walk_tb(exc.__traceback__) if frame.f_code.co_filename == str(path)]
    return lines[-1] if lines else None
