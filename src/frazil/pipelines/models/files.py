"""Models in files: `models/gold/revenue.sql` with a header of SQL comments.

    -- mode: upsert
    -- key: order_id
    SELECT order_id, ... FROM silver.orders

The query has no templates: what the file holds is what Spark runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frazil.errors import DeclarationError, Facts, ProjectError
from frazil.pipelines import check_labels
from frazil.pipelines.models.declare import BY_DEFAULT, DECLARED, Model, make_model

FOLDER = "models"
LISTS = ("key", "partition_by", "tags")
LINES = ("check", "audit", "doc")  # may be repeated
KEYS = ("name", "mode", *LISTS, "group", *LINES, "driving")
_HEADER = re.compile(r"\s*--\s*(?P<key>[a-z][a-z_]*):(?:\s+(?P<value>.*?))?\s*")
_COMMENT = re.compile(r"\s*(--.*)?")


@dataclass
class Header:
    """The entries of a file's header, and the lines that they are in."""

    values: dict[str, list[str]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def first(self, key: str) -> str | None:
        return next(iter(self.values.get(key, ())), None)

    def items(self, key: str) -> tuple[str, ...]:
        return tuple(self.values.get(key, ()))


def load_models(folder: Path) -> tuple[Model, ...]:
    """The models of all `.sql` files in `models/` of a project, and in its subfolders, in order of their path."""
    root = folder / FOLDER
    files = sorted(path for path in root.rglob("*.sql") if path.is_file() and not _is_hidden(path.relative_to(root)))
    return tuple(load_model(path, root) for path in files)


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def load_model(path: Path, root: Path) -> Model:
    """The model in one file; errors name the file and, where it is known, the line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise ProjectError(f"{path} cannot be read: {exc}", path=str(path), reason=str(exc)) from exc
    header = read_header(text, path)
    try:
        return make_model(_declared(header, text, path, root))
    except DeclarationError as exc:
        line = exc.line or header.lines.get(_key_of(exc.option))
        where = f"{path}:{line}" if line else str(path)
        facts: Facts = {**exc.facts, "hint": exc.hint, "path": str(path), "line": line}  # type: ignore[typeddict-item]
        raise DeclarationError(f"{where}: {exc.message}", **facts) from exc


def read_header(text: str, path: Path) -> Header:
    """The entries in the comments before the query; a comment that is no entry is left alone.

    >>> header = read_header("-- Revenue.\\n-- mode: upsert\\n-- key: id, day\\nSELECT 1 -- group: no", Path("a.sql"))
    >>> header.values, header.lines
    ({'mode': ['upsert'], 'key': ['id, day']}, {'mode': 2, 'key': 3})
    """
    header = Header()
    for number, key, value in _entries(text):
        if key not in KEYS:
            _refuse(
                path, number, f"unknown entry '{key}' in the header", f"the entries are {', '.join(KEYS)}", name=key
            )
        if not value:
            _refuse(path, number, f"the entry '{key}' is empty", "give it a value, or remove the line", name=key)
        if key in header.values and key not in LINES:
            _refuse(path, number, f"the entry '{key}' is there twice", f"see line {header.lines[key]}", name=key)
        header.values.setdefault(key, []).append(value)
        header.lines.setdefault(key, number)
    return header


def _entries(text: str) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not _COMMENT.fullmatch(line):
            return
        if match := _HEADER.fullmatch(line):
            yield number, match["key"], match["value"] or ""


def _declared(header: Header, text: str, path: Path, root: Path) -> Model:
    name = header.first("name") or ".".join(path.relative_to(root).with_suffix("").parts)
    group, mode, lists = header.first("group"), header.first("mode"), {key: _list(header.first(key)) for key in LISTS}
    options: Mapping[str, Any] = {  # make_model checks them
        "mode": mode or "rebuild",
        "mode_reason": DECLARED if mode else BY_DEFAULT,
        "key": lists["key"],
        "partition_by": lists["partition_by"],
        "checks": header.items("check"),
        "audit": header.items("audit"),
        "tags": check_labels(f"model '{name}'", lists["tags"], group),
    }
    doc = " ".join(header.items("doc"))
    return Model(name, text, (), **options, group=group, doc=doc, driving=header.first("driving"), path=path)


def _list(text: str | None) -> tuple[str, ...]:
    """The entries between commas; those in parentheses do not count.

    >>> _list("day(ts), bucket(16, id) as shard")
    ('day(ts)', 'bucket(16, id) as shard')
    """
    parts = re.split(r",(?![^()]*\))", text or "")
    return tuple(part.strip() for part in parts if part.strip())


def _key_of(option: str | None) -> str:
    """The entry that an option comes from."""
    return {"checks": "check"}.get(option or "", option or "")


def _refuse(path: Path, line: int, message: str, hint: str, **facts: Any) -> None:
    raise ProjectError(f"{path}:{line}: {message}", hint=hint, path=str(path), line=line, **facts)
