"""docs/settings.md: every setting with its type, default, environment variable and meaning, from the model and the
comments of `frazil.config`.
"""

from __future__ import annotations

import ast
import inspect
import re
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from frazil import config
from tools.sections import fill_page, table

HEAD = ("setting", "type", "default", "environment variable", "meaning")
PARAMETERS = {"server.storage": "WAREHOUSE", "server.oidc": "NAME"}  # maps of sections: what their keys are
WORDS = {str: "text", int: "integer", float: "number", bool: "boolean", Path: "path", SecretStr: "secret"}


@dataclass(frozen=True)
class Setting:
    """One line of the reference."""

    key: str
    type: str
    default: str
    meaning: str

    @property
    def variable(self) -> str:
        """
        >>> Setting("stack.ports.kafka", "integer", "9092", "").variable, Setting("spark.conf", "map of text", "", "").variable
        ('FRAZIL_STACK__PORTS__KAFKA', 'FRAZIL_SPARK__CONF__KEY')
        """  # noqa: E501
        return f"FRAZIL_{self.key.upper().replace('.', '__')}{'__KEY' if self.type.startswith('map') else ''}"

    @property
    def row(self) -> tuple[str, ...]:
        default = f"`{self.default}`" if self.default else ""
        return f"`{self.key}`", self.type, default, f"`{self.variable}`", self.meaning


def render_page() -> str:
    """docs/settings.md with the settings of today."""
    parts = []
    for name, section, about in sections():
        rows = (setting.row for setting in settings_of(section, name))
        parts.append(f"### `{name}`\n{about}\n\n{table(HEAD, rows)}")
    return fill_page("docs/settings.md", "settings", "\n\n".join(parts))


def sections() -> Iterator[tuple[str, type[BaseModel], str]]:
    """Each table of frazil.toml: its dotted name, its model and the first sentences of the model's docstring."""
    yield from _below(config.Settings, "")


def _below(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, type[BaseModel], str]]:
    for name, field in model.model_fields.items():
        section = _section(field)
        if section is None:
            continue
        key = f"{prefix}{name}"
        key = f"{key}.{PARAMETERS[key]}" if key in PARAMETERS else key
        about = " ".join((section.__doc__ or "").split())
        yield key, section, re.sub(r"docs/([\w-]+)\.md", r"[\1.md](\1.md)", about)
        yield from _below(section, f"{key}.")


def settings_of(model: type[BaseModel], prefix: str) -> Iterator[Setting]:
    """The settings of one table, without those of the tables below it."""
    for name, field in model.model_fields.items():
        if _section(field) is None and not field.exclude:
            meaning = comments(model).get(name, "")
            yield Setting(f"{prefix}.{name}", _type(field), _default(field, name), meaning)


def _section(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a field that is a table, or a map of tables."""
    kinds = [field.annotation, *typing.get_args(field.annotation)]
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def _type(field: FieldInfo) -> str:
    signs = (("gt", "over"), ("ge", "from"), ("le", "to"))
    limit = " ".join(
        f"{sign} {getattr(rule, name)}" for name, sign in signs for rule in field.metadata if hasattr(rule, name)
    )
    return f"{_word(field.annotation)}{f', {limit}' if limit else ''}"


def _word(kind: object) -> str:
    """A type in one word or a few.

    >>> _word(str | None), _word(dict[str, str]), _word(typing.Literal["off", "keys"]), _word(tuple[str, ...])
    ('text', 'map of text', '`off`, `keys`', 'list of text')
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_word(part) for part in arguments if part is not types.NoneType)
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin is tuple:
        return f"list of {_word(arguments[0])}"
    if origin is dict:
        return f"map of {_word(arguments[1])}"
    return WORDS[kind]  # type: ignore[index]  # another kind of setting needs a word


def _default(field: FieldInfo, name: str) -> str:
    default = field.get_default(call_default_factory=True)
    if default is PydanticUndefined:
        return "required"
    if isinstance(default, SecretStr):  # the only one that is not empty is the URL of a file
        return config.redact_url(default.get_secret_value())
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, dict):
        return ", ".join(f"{key} = {value}" for key, value in default.items())
    if isinstance(default, tuple):
        return ", ".join(default)
    if isinstance(default, int) and name.endswith("_bytes") and default:
        return f"{default} ({_binary(default)})"
    return "" if default is None else str(default)


def _binary(number: int) -> str:
    """
    >>> _binary(32 * 1024 * 1024), _binary(64 * 1024), _binary(2 * 1024**3)
    ('32 MiB', '64 KiB', '2 GiB')
    """
    for unit, length in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if number % length == 0:
            return f"{number // length} {unit}"
    return f"{number} B"


@cache
def comments(model: type[BaseModel]) -> dict[str, str]:
    """The comment of each field of a model: at the end of its line, or above it."""
    lines = Path(inspect.getfile(model)).read_text(encoding="utf-8").splitlines()
    tree = ast.parse("\n".join(lines))
    body = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == model.__name__).body
    fields = [node for node in body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
    return {field.target.id: _comment(lines, field) for field in fields}  # type: ignore[union-attr]  # a Name


def _comment(lines: list[str], field: ast.AnnAssign) -> str:
    _, sign, text = lines[field.end_lineno - 1][field.end_col_offset :].partition("#")  # type: ignore[operator]
    above = []
    for line in reversed(lines[: field.lineno - 1]):
        if not line.strip().startswith("# "):
            break
        above.append(line.strip().removeprefix("# "))
    return text.strip() if sign else " ".join(reversed(above))
