"""docs/errors.md: every class of the error tree with its facts, its HTTP status and the exit code of commands."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator

from frazil import errors
from frazil.catalog.problems import PROBLEMS
from tools.sections import fill_page, table

HEAD = ("error", "below", "when", "facts", "HTTP", "exit")


def render_page() -> str:
    """docs/errors.md with the tree of today."""
    return fill_page("docs/errors.md", "errors", table(HEAD, (_row(kind) for kind in tree(errors.FrazilError))))


def tree(kind: type[errors.FrazilError]) -> Iterator[type[errors.FrazilError]]:
    """The class and all classes of `frazil.errors` below it, parents first."""
    yield kind
    for child in kind.__subclasses__():
        if child.__name__ in errors.__all__:
            yield from tree(child)


def _row(kind: type[errors.FrazilError]) -> tuple[str, ...]:
    parent = kind.__mro__[1].__name__
    about = inspect.cleandoc(kind.__doc__ or "").splitlines()[0]
    status = f"{PROBLEMS[kind][0]}" if issubclass(kind, errors.CatalogError) else ""
    below = f"`{parent}`" if parent in errors.__all__ else ""
    names = ", ".join(f"`{name}`" for name in facts(kind))
    return f"`{kind.__name__}`", below, about, names, status, f"{kind.exit_code}"


def facts(kind: type[errors.FrazilError]) -> list[str]:
    """The attributes that every error of this class has, those of its parent included: what its constructor sets or
    hands to `FrazilError`.

    >>> facts(errors.NoSuchTable), facts(errors.QuotaExceeded), facts(errors.DataFileMissing)
    (['name'], ['principal', 'limit', 'retry_seconds'], ['path', 'reason'])
    """
    if kind is errors.FrazilError:
        return []
    names = facts(kind.__mro__[1])
    if "__init__" in vars(kind):
        function = ast.parse(textwrap.dedent(inspect.getsource(vars(kind)["__init__"]))).body[0]
        names += [name for name in _set_by(function) if name not in names]
    return names


def _set_by(function: ast.AST) -> Iterator[str]:
    seen = {"hint"}  # which FrazilError itself has
    for node in ast.walk(function):
        for name in _names(node):
            if name not in seen:
                seen.add(name)
                yield name


def _names(node: ast.AST) -> Iterator[str]:
    """The attributes that one node of a constructor sets."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super"))), keywords=keywords):
            yield from (keyword.arg for keyword in keywords if keyword.arg in errors.Facts.__annotations__)
        case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
            yield name
        case ast.Subscript(value=ast.Name(id="facts"), slice=ast.Constant(value=str() as name), ctx=ast.Store()):
            yield name
