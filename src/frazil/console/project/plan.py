"""What `frazil plan` and `frazil drift` say of a project, for the plan page. It runs in the project's own process, with
the caller's token. No Spark starts: models whose columns are not known from an earlier time are left out.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from frazil.errors import PipelineError

if TYPE_CHECKING:
    from frazil.client import FrazilCatalog
    from frazil.config import Settings
    from frazil.project import Project
    from frazil.tables import Table

Json = dict[str, Any]


class _NeedsSpark(Exception):
    """Only Spark knows the columns of a model."""


def make_plan(folder: Path, settings: Settings, wanted: Collection[str]) -> Json:
    """The steps that would make the tables what the project declares, and what was changed by hand."""
    from frazil.lake import open_catalog
    from frazil.ownership import other_owners, project_name
    from frazil.project import load_project
    from frazil.tables import dump_plan, find_drift, find_tables, open_grants, plan_all, summary

    project, catalog = load_project(folder), open_catalog(settings)
    tables, unknown = _tables(project, settings, catalog, wanted)
    grants = open_grants(tables, catalog, where_listed=True)
    steps = plan_all(tables, catalog, grants=grants)
    live = find_tables(catalog, [table.identifier for table in tables])
    there = [table for table in live if table is not None and not isinstance(table, Exception)]
    owner, drift = project_name(settings, folder), dict[str, Any]()
    for table, other in zip(tables, live, strict=True):
        if other is None or isinstance(other, Exception):
            continue
        if changes := [*find_drift(table, other), *grants.drift(table, exists=True)]:
            drift[table.name] = [{"sign": each.sign, "about": each.about[0], "text": each.text} for each in changes]
    return {
        "steps": [summary(step) | {"removes": step.removes} for step in steps],
        "drift": drift,
        "tables": [table.name for table in tables],
        "unknown": unknown,
        "plan": dump_plan(steps),
        "owner": owner,
        "others": other_owners(there, owner),
        "note": grants.note,
    }


def _tables(
    project: Project, settings: Settings, catalog: FrazilCatalog, wanted: Collection[str]
) -> tuple[list[Table], list[str]]:
    """The declared tables that are wanted, those of models among them; and the models whose columns are not known."""
    tables = [table for table in project.tables if table.name in wanted]
    models = [model for model in project.models if model.name in wanted]
    if not models:
        return tables, []
    from frazil.pipelines.models import ModelSchemas, derivation_of, in_order, input_schemas

    order = in_order([derivation_of(model) for model in models])
    known = input_schemas(project.tables, order, catalog)
    finder, unknown = ModelSchemas(_refuse, settings.stack.folder / "models"), list[str]()
    for name in (derivation.name for derivation in order):
        try:
            (table,) = finder.tables([project.model(name)], known)
        except (_NeedsSpark, PipelineError):
            unknown.append(name)
            continue
        known[name] = table.schema()
        tables.append(table)
    return tables, unknown


def _refuse() -> NoReturn:
    raise _NeedsSpark
