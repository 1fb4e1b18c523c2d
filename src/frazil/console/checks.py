"""The checks that the project in the server's folder declares for tables, and how many rows broke them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from frazil.catalog import Context, Request, Response, find_readable, peek_metadata
from frazil.console.answers import console_json, refuse_other_sites
from frazil.console.pipelines import Sight, identify, project_status
from frazil.console.project import Described, has_project, projects
from frazil.console.summary import summarise
from frazil.errors import CatalogError
from frazil.protocol import QUARANTINE_SUFFIX


def list_checks(ctx: Context, request: Request) -> Response:
    """The checks of every declared table that the caller may know, by its name."""
    refuse_other_sites(request)
    sight, described = Sight(ctx, request), _describe(ctx, request)
    checks = described.checks if described is not None else {}
    shown = {name: conditions for name, conditions in checks.items() if sight.knows(identify(name))}
    return console_json({"project": project_status(ctx, sight, described), "checks": shown})


def show_checks(ctx: Context, request: Request) -> Response:
    """The checks of a table, null if it is not declared; and its rows in quarantine, null if that is not known."""
    refuse_other_sites(request)
    described, name = _describe(ctx, request), request.name()
    checks = described.checks.get(".".join((*name.namespace, name.name))) if described is not None else None
    answer: dict[str, Any] = {"checks": checks, "quarantined": _quarantined(ctx, request)}
    return console_json({"project": project_status(ctx, Sight(ctx, request), described), **answer})


def _describe(ctx: Context, request: Request) -> Described | None:
    if ctx.project is None or not has_project(ctx.project):
        return None
    return projects.describe(ctx.project, request.check_client)


def _quarantined(ctx: Context, request: Request) -> int | None:
    name = request.name()
    location = find_readable(ctx, request, replace(name, name=f"{name.name}{QUARANTINE_SUFFIX}"))
    if location is None:
        return 0
    try:
        rows: int | None = summarise(peek_metadata(ctx, location))["rows"]
    except (CatalogError, AttributeError, KeyError, TypeError, ValueError):  # metadata may say anything
        return None
    return rows or 0
