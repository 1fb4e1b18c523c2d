"""`plan` and `apply`: what `lakehouse.py` declares, made true."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from frazil.cli.complete import complete_tables
from frazil.cli.context import Context
from frazil.cli.models import model_json, model_text, planned_models, with_model_tables
from frazil.cli.ownership import adopt_option, own_tables
from frazil.cli.show import OUTPUT, echo, print_json
from frazil.errors import FrazilError, ProjectError
from frazil.project import Project, load_project
from frazil.tables import Table

if TYPE_CHECKING:
    from frazil.client import FrazilCatalog
    from frazil.tables import Step

Command = TypeVar("Command", bound=Callable[..., Any])
SHOWN_UNDECLARED = 5


def outcome_options(command: Command) -> Command:
    """`--detailed-exitcode` and `--output`, as plan and drift have them."""
    text = "Exit with 2 if there is something to do, 0 if not, 1 on an error."
    return OUTPUT(click.option("--detailed-exitcode", is_flag=True, help=text)(command))


@contextmanager
def exit_codes(detailed: bool) -> Iterator[None]:
    """With `--detailed-exitcode` every error ends with 1, for 2 has a meaning of its own."""
    try:
        yield
    except FrazilError as exc:
        if detailed:
            exc.exit_code = 1
        raise


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE]...", shell_complete=complete_tables)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Save the plan, for: frazil apply FILE.")
@outcome_options
@click.pass_obj
def plan(context: Context, tables: Sequence[str], out: Path | None, detailed_exitcode: bool, output: str) -> None:
    """Show what apply would change."""
    from frazil.tables import open_grants, plan_all, save_plan

    with exit_codes(detailed_exitcode):
        project = with_model_tables(context, load_project(Path.cwd()))
        chosen = choose_tables(project, tables)
        steps = plan_all(chosen, context.catalog)
        undeclared = find_undeclared(project, chosen, context.catalog)
        note = open_grants(chosen, context.catalog).note
        if out:
            save_plan(steps, out)
    models = planned_models(project, chosen)
    if output == "json":
        shown = [model_json(model, table) for model, table in models]
        print_json({"steps": _as_json(steps), "undeclared": list(undeclared), "models": shown})
    else:
        echo(_as_text(steps, undeclared, len(chosen)))
        for model, table in models:
            echo(model_text(model, table))
        if out:
            echo(f"saved: frazil apply {out}")
    if note:
        echo(f"note: {note}", err=True)
    sys.exit(2 if detailed_exitcode and steps else 0)


@click.command()
@click.argument("plan_file", required=False, type=click.Path(path_type=Path, dir_okay=False), metavar="[PLANFILE]")
@click.option("--yes", is_flag=True, help="Do not ask before something is dropped or removed.")
@adopt_option
@OUTPUT
@click.pass_obj
def apply(context: Context, plan_file: Path | None, yes: bool, adopt: bool, output: str) -> None:
    """Make the live tables what lakehouse.py declares."""
    from frazil.tables import AlterTable, apply_steps, load_plan, plan_all

    catalog = context.announce()
    if plan_file:
        steps = load_plan(plan_file)  # it was read when it was made: it asks nothing
        nothing = f"no changes: {plan_file} has no steps"
    else:
        project = with_model_tables(context, load_project(Path.cwd()))
        steps = plan_all(project.tables, catalog)
        nothing = _nothing(len(project.tables))
        if not yes:
            _confirm(steps, may_ask=output == "text")
    altered = [tuple(step.name.split(".")) for step in steps if isinstance(step, AlterTable)]
    owner = own_tables(context, Path.cwd(), altered, adopt=adopt)
    done: list[Step] = []
    try:
        for step in apply_steps(steps, catalog, owner=owner):
            done.append(step)
            if output == "text":
                echo(str(step))
        if output == "text" and not steps:
            echo(nothing)
    finally:  # an error does not undo the steps before it
        if output == "json":
            print_json({"steps": _as_json(done), "complete": len(done) == len(steps)})


def _confirm(steps: Sequence[Step], *, may_ask: bool) -> None:
    """Goes on when nothing is removed, or when the user at the terminal confirms."""
    removing = [step for step in steps if step.removes]
    if not removing:
        return
    if not may_ask or not sys.stdin.isatty():
        raise ProjectError(
            f"the plan removes something from {', '.join(step.name for step in removing)}, and there is no terminal "
            f"to ask at",
            hint="look at it with: frazil plan; then: frazil apply --yes, or save it and apply the file",
        )
    echo("\n".join(map(str, steps)))
    click.confirm("Apply this, with what it removes (-)?", abort=True)


def choose_tables(project: Project, names: Sequence[str]) -> tuple[Table, ...]:
    """The declared tables of these names; all, if none is named."""
    declared = {table.name: table for table in project.tables}
    if unknown := [name for name in names if name not in declared]:
        raise ProjectError(
            f"no table '{unknown[0]}' is declared in {project.folder}; declared: {', '.join(declared) or 'none'}",
            table=unknown[0],
        )
    return tuple(declared[name] for name in names) if names else project.tables


def find_undeclared(project: Project, chosen: Sequence[Table], catalog: FrazilCatalog) -> list[str]:
    """The live tables that are neither chosen nor declared; companion tables of declared ones do not
    count.
    """
    from pyiceberg.exceptions import NoSuchNamespaceError

    declared = {*(table.name for table in project.tables), *(model.name for model in project.models)}
    undeclared: set[str] = set()
    for namespace in sorted({table.namespace for table in chosen}):
        try:
            undeclared |= {".".join(identifier) for identifier in catalog.list_tables(namespace)}
        except NoSuchNamespaceError:
            continue
    return sorted(name for name in undeclared if name.partition("__")[0] not in declared and name not in declared)


def _as_text(steps: Sequence[Step], undeclared: Sequence[str], count: int) -> str:
    lines = [str(step) for step in steps] or [_nothing(count)]
    if undeclared:
        more = f" and {len(undeclared) - SHOWN_UNDECLARED} more" if len(undeclared) > SHOWN_UNDECLARED else ""
        lines.append(f"not declared, left alone: {', '.join(undeclared[:SHOWN_UNDECLARED])}{more}")
    return "\n".join(lines)


def _nothing(count: int) -> str:
    return f"no changes: {'the declared table is' if count == 1 else f'all {count} declared tables are'} as declared"


def _as_json(steps: Sequence[Step]) -> list[Any]:
    from frazil.tables import summary

    return [summary(step) for step in steps]
