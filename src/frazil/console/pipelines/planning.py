"""The plan page: what the project declares against what there is, and apply.

A plan is made by the project's own process, with the caller's token, for the tables that the caller may know. Apply
makes it again, compares it with the one that was confirmed, and has its steps done by a job with the caller's rights.
"""

from __future__ import annotations

import hashlib
from typing import Any

from frazil.catalog import Context, Request, Response
from frazil.console.answers import console_json, refuse_other_sites
from frazil.console.pipelines.page import connection, project_status
from frazil.console.pipelines.sight import Identifier, Sight, identify
from frazil.console.project import ChildFailed, Described, ask_child, has_project, projects
from frazil.console.work import run_job
from frazil.errors import BadRequest, CommitConflict, NotSupported
from frazil.protocol import COMPANION_SUFFIXES

PLAN_SECONDS = 60.0
APPLY_SECONDS = 100.0
MOST_UNDECLARED = 200

Json = dict[str, Any]
EMPTY: Json = {
    "steps": [],
    "drift": {},
    "tables": [],
    "unknown": [],
    "others": {},
    "plan": "",
    "owner": "",
    "note": None,
}


def show_plan(ctx: Context, request: Request) -> Response:
    """The steps that would make the tables what the project declares, as far as the caller may know of them."""
    refuse_other_sites(request)
    sight = Sight(ctx, request)
    if ctx.project is None or not has_project(ctx.project):
        return console_json({"project": project_status(ctx, sight, None)})
    described = projects.describe(ctx.project, request.check_client)
    answer: Json = {"project": project_status(ctx, sight, described), "error": None}
    if described.error is None:
        try:
            answer |= _make(ctx, request, sight, described)
        except ChildFailed as exc:
            answer["error"] = exc.text_for(sight)
    return console_json(answer)


def _make(ctx: Context, request: Request, sight: Sight, described: Described) -> Json:
    """The plan, with a digest by which it is confirmed."""
    assert ctx.project is not None
    wanted = _wanted(sight, described)
    question = {"ask": "plan", "tables": wanted, **connection(ctx, request)}
    plan = EMPTY if not wanted else ask_child(ctx.project, question, check=request.check_client, seconds=PLAN_SECONDS)
    models = [
        {name: node[name] for name in ("name", "mode", "mode_reason")}
        for node in described.nodes
        if node["kind"] == "model" and node["name"] in plan["tables"]
    ]
    digest = hashlib.sha256(plan["plan"].encode()).hexdigest()
    return {**plan, "models": models, "digest": digest, "undeclared": _undeclared(sight, described)}


def _wanted(sight: Sight, described: Described) -> list[str]:
    """The tables and models that the caller may know, with all that a model reads."""
    models = [node for node in described.nodes if node["kind"] == "model"]
    tables = [name for name in described.tables if sight.knows(identify(name))]
    known = [node for node in models if sight.knows_all([identify(name) for name in (node["table"], *node["inputs"])])]
    return [*tables, *(node["name"] for node in known)]


def _undeclared(sight: Sight, described: Described) -> list[str]:
    """The tables of the project's namespaces that it does not declare, of those that the caller may see."""
    declared = {identify(name) for name in (*described.tables, *(node["table"] for node in described.nodes))}
    namespaces = {name[:-1] for name in declared}
    others = [name for name in sight.tables if name[:-1] in namespaces and _base(name) not in declared]
    return [".".join(name) for name in others[:MOST_UNDECLARED]]


def _base(name: Identifier) -> Identifier:
    """The table that a companion table belongs to, else the table itself."""
    suffix = next((suffix for suffix in COMPANION_SUFFIXES if name[-1].endswith(suffix)), "")
    return (*name[:-1], name[-1].removesuffix(suffix))


def apply_plan(ctx: Context, request: Request) -> Response:
    """Does the steps of the plan that the caller has confirmed, with its rights; refuses if the plan has changed."""
    refuse_other_sites(request)
    confirmed = request.json().get("digest")
    if not isinstance(confirmed, str):
        raise BadRequest("Apply: 'digest' must be that of the plan that was shown", option="digest")
    if ctx.project is None or not has_project(ctx.project):
        raise NotSupported("This server has no project to apply", hint="start it in the folder of lakehouse.py")
    sight = Sight(ctx, request)
    described = projects.describe(ctx.project, request.check_client)
    try:
        plan = _make(ctx, request, sight, described) if described.error is None else None
    except ChildFailed as exc:
        raise BadRequest(f"The plan cannot be made again: {exc.text_for(sight)}") from exc
    if plan is None or plan["digest"] != confirmed:
        raise CommitConflict("The plan has changed since it was shown", hint="look at the new one, then apply it")
    arguments = {"plan": plan["plan"], "owner": plan["owner"]}
    return run_job(ctx, request, "apply", arguments, seconds=APPLY_SECONDS)
