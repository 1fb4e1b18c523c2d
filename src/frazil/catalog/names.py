"""Names of namespaces, tables and views: from a URL or a JSON body to checked values, and to text for messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from frazil.errors import BadRequest

SEPARATOR = "\x1f"  # between the levels of a namespace, in URLs and in the database
SEPARATOR_ENCODED = "%1F"  # what /v1/config advertises
MAX_LENGTH = 1024
MAX_LEVELS = 64

Namespace = tuple[str, ...]
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Name:
    """A table or a view: its namespace and its own name."""

    namespace: Namespace
    name: str

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.name))

    @property
    def key(self) -> str:
        """The namespace as it is kept in the database."""
        return SEPARATOR.join(self.namespace)

    def to_json(self) -> dict[str, Any]:
        return {"namespace": list(self.namespace), "name": self.name}


def show(namespace: Sequence[str]) -> str:
    """
    >>> show(("accounting", "tax"))
    'accounting.tax'
    """
    return ".".join(namespace)


@lru_cache(maxsize=128)  # requests name the same few namespaces; a text may have 16 KB
def split_namespace(text: str) -> Namespace:
    """The levels of a namespace written as one string of a URL, already percent-decoded.

    >>> split_namespace("accounting\\x1ftax")
    ('accounting', 'tax')
    """
    return check_namespace(text.split(SEPARATOR))


def check_namespace(levels: Sequence[Any], field: str = "namespace") -> Namespace:
    """The levels as a tuple; refuses an empty namespace, an empty level and characters that cannot be kept."""
    if not levels:
        raise BadRequest(f"Invalid {field}: it must have at least one level")
    if len(levels) > MAX_LEVELS:
        raise BadRequest(f"Invalid {field}: {len(levels)} levels; at most {MAX_LEVELS} are allowed")
    return tuple(check_name(level, f"level of {field}") for level in levels)


def check_name(name: Any, field: str = "name") -> str:
    """The name itself; refuses what a database or a path cannot hold."""
    if not isinstance(name, str):
        raise BadRequest(f"Invalid {field}: expected text, got {type(name).__name__}", got=type(name).__name__)
    if not name:
        raise BadRequest(f"Invalid {field}: it is empty")
    if len(name) > MAX_LENGTH:
        raise BadRequest(f"Invalid {field}: {len(name)} characters; at most {MAX_LENGTH} are allowed")
    if _CONTROL.search(name):
        raise BadRequest(f"Invalid {field} {name!r}: it contains a control character")
    return name


def parse_name(value: Any, field: str) -> Name:
    """A table identifier of a request body: {"namespace": [...], "name": "..."}."""
    if not isinstance(value, dict):
        raise BadRequest(f"Invalid {field}: expected an object with 'namespace' and 'name'")
    levels = value.get("namespace")
    if not isinstance(levels, list):
        raise BadRequest(f"Invalid {field}: 'namespace' must be a list of text")
    return Name(check_namespace(levels, f"{field}.namespace"), check_name(value.get("name"), f"{field}.name"))
