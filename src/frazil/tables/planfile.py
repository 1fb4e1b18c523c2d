"""A plan in a file: made and read now, applied later, exactly as it was read or not at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from frazil.errors import ProjectError
from frazil.tables.steps import Step, from_json, to_json

VERSION = 1


def save_plan(steps: Sequence[Step], path: Path) -> None:
    """Writes the steps, with what they rest on, to a file that `load_plan` reads."""
    try:
        path.write_text(dump_plan(steps))
    except OSError as exc:
        raise ProjectError(f"the plan cannot be written to {path}: {exc.strerror}", path=str(path)) from exc


def load_plan(path: Path) -> list[Step]:
    """The steps that `save_plan` wrote."""
    try:
        text = path.read_text()
    except OSError as exc:
        raise ProjectError(
            f"the plan {path} cannot be read: {exc.strerror}",
            hint="make one with: frazil plan --out FILE",
            path=str(path),
        ) from exc
    return parse_plan(text, name=str(path))


def dump_plan(steps: Sequence[Step]) -> str:
    """The text of a plan's file."""
    return json.dumps({"frazil-plan": VERSION, "steps": [to_json(step) for step in steps]}, indent=1) + "\n"


def parse_plan(text: str, *, name: str) -> list[Step]:
    """The steps of a plan's text; errors call it by its name."""
    try:
        document = json.loads(text)
        version = document["frazil-plan"]
        if version == VERSION:
            return [from_json(step) for step in document["steps"]]
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise ProjectError(
            f"{name} is no plan, or was changed by hand ({exc!r})",
            hint="make one with: frazil plan --out FILE",
            path=name,
            problem="malformed",
        ) from exc
    raise ProjectError(
        f"the plan {name} has version {version}; this is for version {VERSION}",
        hint="make a new one: frazil plan --out FILE",
        path=name,
        expected=VERSION,
        got=version,
    )
