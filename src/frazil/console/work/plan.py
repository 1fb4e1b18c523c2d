"""A job: what a plan says, done. The plan was made by the project's own process; project code does not run here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from frazil.logs import hide_tokens

if TYPE_CHECKING:
    from frazil.lake import Lake
    from frazil.tables import Step

MOST_CHARACTERS = 2_000  # of an error


def apply_plan(lake: Lake, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Does the steps one by one, as `frazil apply` does, for a project that owns its tables. An error does not undo the
    steps before it: the answer has those that were done.
    """
    from pyiceberg.exceptions import RESTError

    from frazil.errors import FrazilError
    from frazil.tables import apply_steps, parse_plan, summary

    steps, done, error = parse_plan(arguments["plan"], name="the plan"), list["Step"](), None
    _own(lake, steps, arguments["owner"])
    try:
        for step in apply_steps(steps, lake.catalog, owner=arguments["owner"]):
            done.append(step)
    except (FrazilError, RESTError) as exc:
        if not done:
            raise
        error = hide_tokens(str(exc))[:MOST_CHARACTERS]
    return {"done": [summary(step) for step in done], "steps": len(steps), "error": error}


def _own(lake: Lake, steps: list[Step], owner: str) -> None:
    """Makes the tables that are altered the project's; refuses those of another one."""
    from frazil.errors import OtherProject
    from frazil.ownership import claim_tables, existing_tables, other_owners
    from frazil.tables import AlterTable

    names = [tuple(step.name.split(".")) for step in steps if isinstance(step, AlterTable)]
    if others := other_owners(existing_tables(lake.catalog, names), owner):
        raise OtherProject(owner, others)
    claim_tables(lambda: existing_tables(lake.catalog, names), owner, lake.catalog)
