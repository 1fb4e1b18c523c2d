"""Where `src/frazil` touches private names of PyIceberg: they belong into `frazil.pyiceberg_compat`.

Only the source is read: imports of private names, attributes that classes of PyIceberg define under a private name, and
what our subclasses of these classes override or take from `self`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyiceberg

from tools.layout import modules

HOME = "frazil.pyiceberg_compat"
LIBRARY = "pyiceberg"


@dataclass(frozen=True)
class Class:
    """A class of PyIceberg or of ours: the names of its bases, and the private names that it defines."""

    bases: tuple[str, ...]
    private: frozenset[str]


def uses() -> list[str]:
    """Every use of a private name of PyIceberg outside the one module for them, as `module:line: name`."""
    return [
        f"{module}:{line}: {name}"
        for module, file in modules().items()
        if not module.startswith(HOME)
        for line, name in sorted(set(uses_in(ast.parse(file.read_text("utf-8")))))
    ]


def uses_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The uses in one module: line and name."""
    own = set().union(*(_defined_in(node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == LIBRARY:
            yield from ((node.lineno, alias.name) for alias in node.names if _is_private(alias.name))
        elif isinstance(node, ast.Attribute) and node.attr in library_names() - own and not _is_self(node.value):
            yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ClassDef) and (inherited := _inherited(_bases(node))):
            yield from _uses_of_bases(node, inherited)


def _uses_of_bases(class_: ast.ClassDef, inherited: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Methods that override one of PyIceberg, and attributes that its classes keep for themselves."""
    for node in ast.walk(class_):
        if isinstance(node, ast.FunctionDef) and node.name in inherited:
            yield node.lineno, f"{class_.name}.{node.name}"
        elif isinstance(node, ast.Attribute) and node.attr in inherited:
            yield node.lineno, ast.unparse(node)


@cache
def library_names() -> frozenset[str]:
    """The private attributes of all classes of PyIceberg."""
    return frozenset().union(*(class_.private for class_ in _library_classes().values()))


def _inherited(bases: tuple[str, ...]) -> frozenset[str]:
    """The private names that a class has from PyIceberg; none, if it does not extend a class of it."""
    frozenset_: frozenset[str] = frozenset()
    for base in bases:
        if base in _library_classes():
            class_ = _library_classes()[base]
            frozenset_ |= class_.private | _inherited(class_.bases)
        elif base in _compat_classes():
            frozenset_ |= _inherited(_compat_classes()[base].bases)
    return frozenset_


@cache
def _library_classes() -> dict[str, Class]:
    files = sorted(Path(pyiceberg.__path__[0]).rglob("*.py"))
    return {name: class_ for file in files for name, class_ in _classes(file).items()}


@cache
def _compat_classes() -> dict[str, Class]:
    files = [file for module, file in modules().items() if module.startswith(HOME)]
    return {name: class_ for file in files for name, class_ in _classes(file).items()}


def _classes(file: Path) -> dict[str, Class]:
    nodes = [node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.ClassDef)]
    return {node.name: Class(_bases(node), frozenset(_defined_in(node))) for node in nodes}


def _bases(node: ast.ClassDef) -> tuple[str, ...]:
    plain = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
    return tuple(base.id for base in plain if isinstance(base, ast.Name))


def _defined_in(tree: ast.AST) -> set[str]:
    """Private names that code defines: functions, attributes of `self`, and attributes declared in a class."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
            names.add(node.attr)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if _is_private(name)}


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")
