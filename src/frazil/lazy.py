"""Public names of a package that are imported when they are first used.

A package lists its public names once, as imports for type checkers, and in `__all__`:

    if TYPE_CHECKING:
        from frazil.scan.rest.pages import Page, make_page

    __all__ = ["Page", "make_page"]

    __getattr__ = lazy_names(__name__)

So one module of a package can be imported without all the others, and without the libraries that those need.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


def lazy_names(package: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package: imports a public name from the module that its imports for type checkers name."""

    def find(name: str) -> Any:
        module = None if name.startswith("__") else _modules(package).get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        package_of_name = import_module(module)
        try:
            return getattr(package_of_name, name)
        except AttributeError:  # as `from package import module` does
            return import_module(f"{module}.{name}")

    return find


@cache
def _modules(package: str) -> dict[str, str]:
    """The module of each public name."""
    import ast
    from pkgutil import get_data

    source = get_data(package, "__init__.py")
    assert source is not None, f"{package} comes without its source"
    imports = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom))
    return {alias.name: node.module for node in imports for alias in node.names if node.module}
