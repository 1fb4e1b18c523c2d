"""Completion in the shell of tables, namespaces, pipelines, models, branches and tags.

A completer must be quick and silent: it asks the catalog over plain HTTP, for a second and a half at most, and gives
nothing when the catalog cannot be reached. Pipelines and models are found by parsing `lakehouse.py`, which is not
executed, and by the files of `models/`.
"""

from __future__ import annotations

import ast
import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode

import click

from frazil.protocol import COMPANION_SUFFIXES

if TYPE_CHECKING:
    from frazil.config import Settings

FILE_NAME = "lakehouse.py"
DEADLINE_SECONDS = 1.5
MOST_NAMES = 500
Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _quiet(complete: Completer) -> Completer:
    """A completer that never fails: an error would end up in the user's command line."""

    @wraps(complete)
    def wrapper(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        try:
            return complete(ctx, param, incomplete)
        except Exception:
            return []

    return wrapper


@_quiet
def complete_tables(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Full names of tables; companion tables once two underscores are typed."""
    tables = RestCatalog.of(ctx).tables(incomplete)
    return [name for name in tables if "__" in incomplete or not name.endswith(COMPANION_SUFFIXES)]


@_quiet
def complete_namespaces(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of namespaces."""
    namespaces = (".".join(namespace) for namespace in RestCatalog.of(ctx).namespaces(incomplete))
    return [name for name in namespaces if name.startswith(incomplete)]


@_quiet
def complete_pipelines(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Pipelines that `lakehouse.py` in this folder declares."""
    return [name for name in find_pipelines(Path.cwd()) if name.startswith(incomplete)]


@_quiet
def complete_selectors(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Pipelines and models of this folder, after what a selector may begin with: `+`, `2+`, `a,`."""
    begin = re.match(r"(?:.*,)?(?:\d*\+)?", incomplete)
    prefix = begin[0] if begin else ""
    names = sorted({*find_pipelines(Path.cwd()), *find_models(Path.cwd())})
    return [prefix + name for name in names if name.startswith(incomplete.removeprefix(prefix))]


@_quiet
def complete_pipelines_and_tables(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """What `frazil runs` takes."""
    return [*complete_pipelines(ctx, param, incomplete), *complete_tables(ctx, param, incomplete)]


def complete_refs(*kinds: str) -> Completer:
    """Branches, tags or both of the table that the command line names before."""

    @_quiet
    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        # click leaves the words unparsed when the last of them is an option without its value
        table = ctx.params.get("table") or next(word for word in ctx.args if "." in word)
        refs = RestCatalog.of(ctx).refs(table)
        return sorted(name for name, kind in refs.items() if kind in kinds and name.startswith(incomplete))

    return complete


complete_branches, complete_tags, complete_any_ref = (
    complete_refs("branch"),
    complete_refs("tag"),
    complete_refs("branch", "tag"),
)


# --- the catalog -----------------------------------------------------------------------------------------------------


@dataclass
class RestCatalog:
    """A REST catalog, read with as little as possible: PyIceberg takes longer to import than a user waits."""

    settings: Settings
    deadline: float = field(default_factory=lambda: time.monotonic() + DEADLINE_SECONDS)
    prefix: str = ""
    separator: str = "\x1f"

    @classmethod
    def of(cls, ctx: click.Context) -> RestCatalog:
        """The catalog of the options before the command, which completion does not run."""
        from frazil.config import load_settings

        params = ctx.find_root().params
        pairs = (text.partition("=") for text in params.get("overrides") or ())
        catalog = cls(load_settings(flags={key: value for key, _, value in pairs}, profile=params.get("profile")))
        config = catalog._get("/v1/config", warehouse=catalog.settings.catalog.warehouse)
        values = {**config["defaults"], **config["overrides"]}
        catalog.prefix = f"/{quote(values['prefix'], safe='')}" if values.get("prefix") else ""
        catalog.separator = unquote(values.get("namespace-separator", "%1F"))
        return catalog

    def tables(self, incomplete: str) -> list[str]:
        """Tables whose full names begin so."""
        result: list[str] = []
        for namespace in self.namespaces(incomplete):
            path = quote(self.separator.join(namespace), safe="")
            listed = self._get(f"/v1{self.prefix}/namespaces/{path}/tables")["identifiers"]
            names = (".".join([*item["namespace"], item["name"]]) for item in listed)
            result += [name for name in names if name.startswith(incomplete)]
            if len(result) >= MOST_NAMES:
                break
        return sorted(result[:MOST_NAMES])

    def namespaces(self, incomplete: str) -> Iterator[tuple[str, ...]]:
        """Namespaces that may hold such tables, each after the one that it is in."""
        pending: list[tuple[str, ...]] = [()]
        while pending:
            parent = pending.pop(0)
            query = {"parent": self.separator.join(parent)} if parent else {}
            for levels in self._get(f"/v1{self.prefix}/namespaces", **query)["namespaces"]:
                name = f"{'.'.join(levels)}."
                if name.startswith(incomplete) or incomplete.startswith(name):
                    yield tuple(levels)
                    pending.append(tuple(levels))

    def refs(self, table: str) -> dict[str, str]:
        """The branches and tags of a table, each with its kind."""
        *levels, name = table.split(".")
        path = (
            f"/v1{self.prefix}/namespaces/{quote(self.separator.join(levels), safe='')}/tables/{quote(name, safe='')}"
        )
        refs = self._get(path, snapshots="refs")["metadata"].get("refs", {})
        return {ref: value["type"] for ref, value in refs.items()}

    def _get(self, path: str, **query: str | None) -> Any:
        catalog = self.settings.catalog
        text = urlencode({key: value for key, value in query.items() if value})
        url = catalog.uri.rstrip("/") + path + (f"?{text}" if text else "")
        left = self.deadline - time.monotonic()
        if left <= 0 or not url.startswith(("http://", "https://")):
            raise TimeoutError
        headers = {"Authorization": f"Bearer {catalog.token.get_secret_value()}"} if catalog.token else {}
        request = urllib.request.Request(url, headers=headers)  # noqa: S310  # http only, see above
        with urllib.request.urlopen(request, timeout=left) as response:  # noqa: S310
            return json.load(response)


# --- pipelines -------------------------------------------------------------------------------------------------------


def find_pipelines(folder: Path) -> list[str]:
    """The names of the pipelines in a project's file, and in modules of the folder that it imports."""
    functions = (node for tree in _trees(folder) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return sorted({name for node in functions for name in _pipeline_names(node)})


def find_models(folder: Path) -> list[str]:
    """The names of the models in the same files, and in the files of `models/`."""
    calls = (node for tree in _trees(folder) for node in ast.walk(tree) if isinstance(node, ast.Call))
    names = {name for node in calls for name in _model_names(node)}
    root = folder / "models"
    for path in root.rglob("*.sql"):
        text = path.read_text(encoding="utf-8")
        header = re.match(r"(?:\s*--.*\n)*?\s*--\s*name:\s+(\S+)", text)
        names.add(header[1] if header else ".".join(path.relative_to(root).with_suffix("").parts))
    return sorted(names)


def _trees(folder: Path, file: str = FILE_NAME, known: set[Path] | None = None) -> Iterator[ast.Module]:
    """The syntax trees of a project's file, and of the modules of the folder that it imports."""
    path, known = folder / file, set() if known is None else known
    if path in known or not path.is_file():
        return
    known.add(path)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    yield tree
    for module in _imported(tree):
        yield from _trees(folder, f"{module}.py", known)


def _model_names(call: ast.Call) -> Iterator[str]:
    if ast.unparse(call.func).split(".")[-1] == "model" and call.args and isinstance(call.args[0], ast.Constant):
        yield str(call.args[0].value)


def _pipeline_names(function: ast.FunctionDef) -> Iterator[str]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).split(".")[-1] == "pipeline":
            names = [keyword.value for keyword in decorator.keywords if keyword.arg == "name"]
            yield names[0].value if names and isinstance(names[0], ast.Constant) else function.name  # type: ignore[misc]


def _imported(tree: ast.Module) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.replace(".", "/")
        elif isinstance(node, ast.Import):
            yield from (alias.name.replace(".", "/") for alias in node.names)
