"""Tests of models as YAML files of the folder `tests/`.

    model: gold.revenue
    given:
      silver.orders:
        - {order_id: 1, country: CH, amount: 12.50}
    expect:
      - {country: CH, revenue: 12.50}

A file holds one test, or a list of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frazil.errors import ProjectError

FOLDER = "tests"
SUFFIXES = (".yml", ".yaml")
KEYS = ("name", "doc", "model", "given", "expect", "quarantined")
NEEDED = ("model", "given", "expect")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A test: `expect` is what the model makes of the rows of its inputs, in any order."""

    name: str
    model: str
    inputs: Mapping[str, tuple[Row, ...]]
    expect: tuple[Row, ...]
    path: Path
    quarantined: int = 0  # rows that the table does not take


def read_cases(folder: Path) -> list[Case]:
    """The tests of a project, in the order of their files."""
    files = sorted(path for path in (folder / FOLDER).rglob("*") if path.suffix in SUFFIXES)
    return [case for path in files for case in read_file(path, folder)]


def read_file(path: Path, folder: Path) -> list[Case]:
    """The tests of a file; `path` is shown as seen from the project's folder."""
    shown = path.relative_to(folder)
    content = _parse(path, shown)
    entries = content if isinstance(content, list) else [content]
    names = [_name(entry, shown, number, len(entries)) for number, entry in enumerate(entries, start=1)]
    return [_case(entry, name, shown) for entry, name in zip(entries, names, strict=True)]


def _parse(path: Path, shown: Path) -> object:
    # The YAML library that PyIceberg's own dependency carries: YAML 1.2, where `no` is a word and not false.
    from strictyaml.ruamel import YAML
    from strictyaml.ruamel.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (YAMLError, UnicodeDecodeError) as exc:
        raise ProjectError(f"{shown} is no YAML: {' '.join(str(exc).split())}", path=str(shown)) from exc


def _name(entry: object, shown: Path, number: int, count: int) -> str:
    named = entry.get("name") if isinstance(entry, Mapping) else None
    return str(named) if named else shown.stem if count == 1 else f"{shown.stem} {number}"


def _case(entry: object, name: str, shown: Path) -> Case:
    if not isinstance(entry, Mapping):
        raise _wrong(shown, name, f"a test is {type(entry).__name__}, expected a mapping with {', '.join(NEEDED)}")
    if unknown := [str(key) for key in entry if key not in KEYS]:
        raise _wrong(shown, name, f"unknown key '{unknown[0]}'; a test has {', '.join(KEYS)}")
    if missing := [key for key in NEEDED if key not in entry]:
        raise _wrong(shown, name, f"'{missing[0]}' is missing")
    tables = entry["given"]
    if not isinstance(tables, Mapping):
        raise _wrong(shown, name, "given is no mapping; expected a list of rows for each input, by its name")
    rows = {str(table): _rows(values, f"given {table}", shown, name) for table, values in tables.items()}
    quarantined = entry.get("quarantined", 0)
    if not isinstance(quarantined, int) or isinstance(quarantined, bool) or quarantined < 0:
        raise _wrong(shown, name, f"quarantined is {quarantined!r}, expected a number of rows")
    return Case(name, str(entry["model"]), rows, _rows(entry["expect"], "expect", shown, name), shown, quarantined)


def _rows(values: object, what: str, shown: Path, name: str) -> tuple[Row, ...]:
    if values is None:
        return ()
    if not isinstance(values, list) or not all(isinstance(row, Mapping) for row in values):
        raise _wrong(shown, name, f"{what} is no list of rows; a row is a mapping from columns to values")
    return tuple({str(column): value for column, value in row.items()} for row in values)


def _wrong(shown: Path, name: str, what: str) -> ProjectError:
    return ProjectError(
        f"{shown}, test '{name}': {what}", hint="docs/models.md shows a test", path=str(shown), name=name
    )
