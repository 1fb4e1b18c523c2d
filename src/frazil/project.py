"""A user's project: the tables, pipelines and models that `lakehouse.py` and the files of `models/` declare."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from frazil.errors import ProjectError
from frazil.pipelines import Pipeline
from frazil.pipelines.graph import Graph
from frazil.pipelines.models import Model, load_models
from frazil.tables import Table

FILE_NAME = "lakehouse.py"
Declared = TypeVar("Declared", Pipeline, Model)


@dataclass(frozen=True)
class Project:
    """What `lakehouse.py` in `folder` declares, in the order it does; then the models of `models/*.sql`."""

    folder: Path
    tables: tuple[Table, ...]
    pipelines: tuple[Pipeline, ...]
    models: tuple[Model, ...] = ()

    @property
    def graph(self) -> Graph:
        """The pipelines and models, in an order in which each comes after what it reads."""
        return Graph.of(self.pipelines, self.models, self.tables)

    @property
    def table_names(self) -> list[str]:
        """The tables that are declared, filled by a pipeline or made by a model, each once."""
        names = [table.name for table in self.tables]
        names += [pipeline.target.name for pipeline in self.pipelines]
        return list(dict.fromkeys([*names, *(model.name for model in self.models)]))

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

    def model(self, name: str) -> Model:
        """The model of that name."""
        for candidate in self.models:
            if candidate.name == name:
                return candidate
        known = ", ".join(model.name for model in self.models) or "none"
        raise ProjectError(
            f"{self.folder} declares no model '{name}'; it declares: {known}", path=str(self.folder), name=name
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
    pipelines = _once(value for value in values if isinstance(value, Pipeline))
    models = _once((*(value for value in values if isinstance(value, Model)), *load_models(folder)))
    project = Project(folder.resolve(), tables, pipelines, models)
    _check_names(path, project)
    return project


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


def _once(values: Iterable[Declared]) -> tuple[Declared, ...]:
    """The values without repetition: two variables may hold the same one."""
    return tuple({id(value): value for value in values}.values())


def _check_names(path: Path, project: Project) -> None:
    """Refuses a name that two pipelines or models share, and a table that a model makes and something else fills."""
    names = [*(pipeline.name for pipeline in project.pipelines), *(model.name for model in project.models)]
    for name, count in Counter(names).items():
        if count > 1:
            raise ProjectError(
                f"{path.parent} declares '{name}' {'twice' if count == 2 else f'{count} times'}",
                hint="name one of the pipelines or models otherwise",
                path=str(path),
                name=name,
            )
    tables = {table.name for table in project.tables}
    filled = {pipeline.target.name: pipeline.name for pipeline in project.pipelines}
    for model in project.models:
        other = "a Table declares it" if model.name in tables else f"pipeline '{filled.get(model.name)}' fills it"
        if model.name in tables or model.name in filled:
            raise ProjectError(
                f"model '{model.name}' makes a table, but {other}, too",
                hint="a model declares its table itself: model(..., columns=[...], partition_by=[...])",
                path=str(model.path or path),
                table=model.name,
            )


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
