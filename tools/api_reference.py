"""docs/api.md: the public Python API, from the signatures and docstrings of the code. A test pins the signatures."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cached_property
from typing import Any

# The page's sections: a title, and what is shown there by its full name.
SECTIONS = {
    "Connect": ("frazil.connect",),
    "Lake": ("frazil.Lake",),
    "Tables": ("frazil.lake.LakeTable",),
    "Scans": ("frazil.scan.Scan",),
    "Results": ("frazil.lake.Result", "frazil.sinks.WriteResult"),
    "Sinks": ("frazil.sinks.open", "frazil.sinks.Options", "frazil.sinks.ArrowSink"),
    "Declarations": (
        *("frazil.Table", "frazil.column", "frazil.list_of", "frazil.map_of", "frazil.struct", "frazil.Upkeep"),
        *("frazil.pipeline", "frazil.sources.csv", "frazil.sources.json", "frazil.sources.parquet"),
        *("frazil.sources.kafka", "frazil.sources.table", "frazil.sources.spark", "frazil.model"),
    ),
    "Tests": ("frazil.catalog.running_catalog",),
}
MADE_BY_CALLS = ("ArrowSink", "LakeTable", "Scan", "Result", "WriteResult")  # their constructors are no API
# Public by their names, but used by other packages of Frazil alone.
INTERNAL = {
    *("Lake.address", "Lake.load", "Lake.source", "Lake.table_names"),
    *("Scan.explain_files", "Scan.fields", "Scan.iter_batches", "Scan.plan", "Scan.planner"),
    *("Table.partition_terms", "Table.sort_terms", "Upkeep.properties"),
}
INTRODUCTION = """\
# The Python API

Written by `make docs` from the code's signatures and docstrings.

    import frazil

    lake = frazil.connect()
    orders = lake.table("lakehouse.orders")
    orders.append([{"id": 1, "country": "NO"}])
    orders.scan("country = 'NO'", at="2024-01-18").to_polars()
    lake.sql("SELECT country, count(*) FROM lakehouse.orders GROUP BY ALL").show()

`at=` takes a snapshot id, a timestamp, a branch or a tag; `since=` and `until=` take the same for ranges. Deprecated
names are not listed; they warn and name the new place.
"""


def render_page() -> str:
    """docs/api.md as it should be."""
    parts = [INTRODUCTION]
    for title, names in SECTIONS.items():
        parts.append(f"## {title}\n")
        parts += [_describe(name, find(name)) for name in names]
    return "\n".join(parts)


def find(name: str) -> Any:
    """The object of that full name: an attribute of a module, or of something that the module has."""
    module, *attributes = name.split(".")
    thing = importlib.import_module(module)
    for attribute in attributes:
        if not hasattr(thing, attribute) and inspect.ismodule(thing):
            importlib.import_module(f"{thing.__name__}.{attribute}")
        thing = getattr(thing, attribute)
    return thing


def signatures() -> Iterator[str]:
    """Every public name with its parameters: what the test pins."""
    for names in SECTIONS.values():
        for name in names:
            thing = find(name)
            yield f"{name}{signature(thing)}"
            for member, value in _members(thing):
                yield f"{name.rpartition('.')[2]}.{member}{signature(value)}"


def signature(thing: Any) -> str:
    """The parameters and the result; the type for a property; the fields of a dictionary type.

    >>> signature(property(lambda self: 1)), signature(len)
    ('', '(obj, /)')
    """
    if hasattr(thing, "__required_keys__"):  # a TypedDict
        return "(" + ", ".join(f"{name}: {_plain(kind)}" for name, kind in thing.__annotations__.items()) + ")"
    if isinstance(thing, property):
        return _result(thing.fget)
    if isinstance(thing, cached_property):
        return _result(thing.func)
    if inspect.isclass(thing) and thing.__name__ in MADE_BY_CALLS:
        return ""
    result = inspect.signature(thing)
    kept = [
        parameter.replace(annotation=_plain(parameter.annotation))
        for parameter in result.parameters.values()
        if parameter.name not in ("self", "cls") and not parameter.name.startswith("_")
    ]
    text = str(result.replace(parameters=kept, return_annotation=result.empty))
    return text if inspect.isclass(thing) else text + _result(thing)


def _result(function: Any) -> str:
    result = getattr(function, "__annotations__", {}).get("return")
    return "" if result is None else f" -> {_plain(result)}"


def _plain(annotation: Any) -> Any:
    """An annotation as text, without quotes."""
    if annotation is inspect.Parameter.empty:
        return annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    match = re.fullmatch(r"ForwardRef\('(.*?)'.*\)", str(annotation))
    return _Text(match[1] if match else text.strip("'\""))


class _Text(str):
    """Text that `inspect` prints as it is."""

    def __repr__(self) -> str:
        return str(self)


def _members(thing: Any) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class, in the order of the code; those of other libraries are left out."""
    if not inspect.isclass(thing) or hasattr(thing, "__required_keys__"):
        return
    seen: set[str] = set()
    for owner in thing.__mro__:
        if not owner.__module__.startswith("frazil"):
            continue
        for name, value in vars(owner).items():
            is_member = inspect.isfunction(value) or isinstance(value, property | cached_property | classmethod)
            hidden = name.startswith("_") or name in seen or f"{thing.__name__}.{name}" in INTERNAL
            if is_member and not hidden and not _is_former(value):
                seen.add(name)
                yield name, value.__func__ if isinstance(value, classmethod) else value


def _is_former(value: Any) -> bool:
    return (inspect.getdoc(value) or "").startswith("Deprecated")


def _describe(name: str, thing: Any) -> str:
    lines = [f"### `{name}`\n", _code(f"{name.rpartition('.')[2]}{signature(thing)}"), _doc(thing)]
    for member, value in _members(thing):
        lines += [f"#### `{member}`\n", _code(f"{member}{signature(value)}"), _doc(value)]
    return "\n".join(lines)


def _code(text: str) -> str:
    """A signature; a long one has a line for each parameter."""
    if len(text) <= 110 or "(" not in text:
        return f"    {text}\n"
    head, _, rest = text.partition("(")
    inside, _, result = rest.rpartition(")")
    parameters = [f"        {parameter}," for parameter in _split(inside)]
    return "\n".join([f"    {head}(", *parameters, f"    ){result}"]) + "\n"


def _split(text: str) -> list[str]:
    """The parameters of a signature.

    >>> _split("rows: Any, *, key: dict[str, int] = (), at: Literal['a', 'b']")
    ['rows: Any', '*', 'key: dict[str, int] = ()', "at: Literal['a', 'b']"]
    """
    split, depth, start = [], 0, 0
    for position, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            split.append(text[start:position].strip())
            start = position + 1
    return [*split, text[start:].strip()]


def _doc(thing: Any) -> str:
    text = inspect.getdoc(thing.func if isinstance(thing, cached_property) else thing) or ""
    text = text.partition(">>>")[0].rstrip()
    return textwrap.dedent(text) + "\n"


if __name__ == "__main__":
    print("\n".join(signatures()))  # tests/unit/public_api.txt
