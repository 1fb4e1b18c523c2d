"""`frazil init`: a new project that works at once: a table, a pipeline, settings and a test."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import click

from frazil.cli.show import OUTPUT, echo, print_json
from frazil.errors import ProjectError
from frazil.project import FILE_NAME

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")

LAKEHOUSE = '''\
"""The tables and pipelines of {project}. `frazil plan` shows what `frazil apply` would change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil import Table, column, pipeline, sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

orders = Table(
    "{namespace}.orders",
    column("order_id", "string", required=True, doc="Unique order identifier"),
    column("country", "string"),
    column("amount", "decimal(12,2)", required=True),
    column("ordered_on", "date", required=True),
    partition_by=["ordered_on"],
    checks=["amount >= 0"],
)


@pipeline(source=sources.csv("landing/*.csv"), target=orders, key=["order_id"])
def load_orders(landed: DataFrame) -> DataFrame:
    """Loads the CSV files that are new in landing/: frazil run load_orders."""
    return landed
'''

TEST = '''\
"""The project's tests, on a catalog that runs inside the test: the fixture `frazil_catalog` comes with Frazil."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from lakehouse import orders

import frazil

if TYPE_CHECKING:
    from frazil.catalog.embedded import EmbeddedCatalog


def test_orders_with_a_negative_amount_are_quarantined(frazil_catalog: EmbeddedCatalog) -> None:
    good = {{"order_id": "A-1", "country": "NO", "amount": Decimal("9.50"), "ordered_on": date(2024, 1, 18)}}
    bad = {{**good, "order_id": "A-2", "amount": Decimal("-1.00")}}
    with frazil.connect(frazil_catalog.uri) as lake:
        lake.apply(orders)
        table = lake.table(orders.name)
        table.append([good, bad], checks=orders.checks, bad_rows="quarantine")
        assert table.scan().to_arrow().to_pylist() == [good]
        assert [row.reason for row in table.quarantine.rows()] == ["check 'amount >= 0' failed"]
'''

SETTINGS = """\
# Settings of this project; every one and its default: docs/settings.md, and `frazil config`.

[project]
name = "{project}"  # tables that this project creates remember it

# Without an address, commands use the catalog that `frazil serve` or `frazil up` runs in this folder.
# [catalog]
# uri = "http://127.0.0.1:8181"
"""

GITIGNORE = """\
.frazil/
.pytest_cache/
__pycache__/
landing/
"""

FILES = {FILE_NAME: LAKEHOUSE, "test_lakehouse.py": TEST, "frazil.toml": SETTINGS, ".gitignore": GITIGNORE}


@click.command()
@click.argument("name", required=False)
@OUTPUT
def init(name: str | None, output: str) -> None:
    """Start a project: lakehouse.py, settings and a test.

    With NAME, in a new folder of that name; without it, in the current folder. A file that exists is never
    overwritten.
    """
    folder = Path.cwd() if name is None else Path(check_name(name))
    project = name or folder.name or "lakehouse"
    files = write_project(folder, project)
    if output == "json":
        written = [{"path": str(file.path.relative_to(folder)), "created": file.is_new} for file in files]
        print_json({"project": project, "folder": str(folder.absolute()), "files": written})
        return
    for file in files:
        echo(f"{'created' if file.is_new else 'kept   '} {file.path}")
    go = "" if name is None else f"  cd {name}\n"
    echo(
        f"next:\n{go}"
        "  pytest            run the project's test, on a catalog inside the test\n"
        "  frazil serve      serve a catalog for this folder; then, in another terminal:\n"
        "  frazil plan       show what apply would create\n"
        "  frazil apply      create the table"
    )


@dataclass(frozen=True)
class ProjectFile:
    """A file of a new project, and whether it was written."""

    path: Path
    is_new: bool


def check_name(name: str) -> str:
    """The name, if it can be that of a project and its folder."""
    if not NAME.fullmatch(name):
        raise ProjectError(
            f"'{name}' cannot be the name of a project",
            name=name,
            hint="use letters, digits, '-' and '_', with a letter first: frazil init sales",
        )
    return name


def namespace_of(project: str) -> str:
    """The namespace of a project's tables.

    >>> namespace_of("web-shop"), namespace_of("My Shop 2"), namespace_of("2024"), namespace_of("été")
    ('web_shop', 'my_shop_2', 'lake_2024', 't')
    """
    words = re.sub(r"[^a-z0-9]+", "_", project.lower()).strip("_")
    return f"lake_{words}" if words[:1].isdigit() else words or "lakehouse"


def write_project(folder: Path, project: str) -> list[ProjectFile]:
    """Writes the files that are not there; refuses a folder that holds a project."""
    if (folder / FILE_NAME).exists() or (folder / FILE_NAME).is_symlink():
        raise ProjectError(
            f"{folder / FILE_NAME} exists: {folder.resolve()} is a project already",
            hint="nothing was changed; choose another name or folder",
            path=str(folder / FILE_NAME),
        )
    try:
        folder.mkdir(exist_ok=True)
        return [_write(folder / file, _fill(text, project)) for file, text in FILES.items()]
    except OSError as exc:
        raise ProjectError(
            f"the project cannot be written to {folder.absolute()}: {exc.strerror or exc}",
            hint="check the path and its permissions",
            path=str(folder),
        ) from exc


def _fill(text: str, project: str) -> str:
    safe = re.sub(r'["\\\n\r{}]', "_", project)  # a folder may be called anything
    return text if text is GITIGNORE else text.format(project=safe, namespace=namespace_of(project))


def _write(path: Path, text: str) -> ProjectFile:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return ProjectFile(path, is_new=False)
    return ProjectFile(path, is_new=True)
