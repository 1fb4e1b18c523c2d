"""What a user writes in `lakehouse.py`: a table, its columns, how it is partitioned and sorted. Plain values; nothing
is contacted here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from frazil.errors import DeclarationError
from frazil.protocol import PRIVILEGES
from frazil.tables.check import check_table
from frazil.tables.fields import TableFields
from frazil.tables.indexes import VectorIndex, check_properties, index_properties
from frazil.tables.types import HINT, Column, NotAType, column, normalise_column
from frazil.tables.upkeep import Upkeep

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder

__all__ = ["Column", "Table", "Upkeep", "column"]

DEFAULT_FORMAT_VERSION = 2  # what every engine reads and writes; see docs/tables.md


@dataclass(frozen=True, init=False)
class Table(TableFields):
    """A declared table: `Table("lakehouse.sales", column(...), ..., partition_by=["ingestion_date"])`.

    - `partition_by`: `"country"`, `"day(ts)"`, `"bucket(16, id)"`, each with a name of its own if wanted: `"day(ts) as
      d"`.
    - `sort_by`: `"ts desc nulls last"`, `"bucket(16, id)"`.
    - `properties`: those of the table that matter; others are left alone.
    - `upkeep`: what `frazil maintain` does to it; it becomes properties, too.
    - `indexes`: its vector indexes, `[vector_index("embedding", metric="cosine")]`, which `frazil maintain` builds.
    - `grants`: who may do what with it, `{"analyst": "read", "etl": ["write", "drop"]}`; others are
      revoked. Without it, grants are left alone.
    - `checks`: SQL conditions that rows must meet; pipelines and sinks hold them.
    - `key`: the columns that tell rows apart; they become Iceberg's identifier fields.
    - `format_version`: 2 for a new table, and as it is for an existing one, unless said here.
    - `location`: where a new table goes; the catalog decides, unless said here.
    - `dropped`: the columns that may be dropped. A column that is merely missing is never dropped.
    """

    def __init__(
        self,
        name: str,
        *columns: Column,
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        checks: Sequence[str] = (),
        key: Sequence[str] = (),
        format_version: int | None = None,
        location: str | None = None,
        dropped: Sequence[str] = (),
        upkeep: Upkeep | None = None,
        indexes: Sequence[VectorIndex] = (),
        grants: Mapping[str, str | Sequence[str]] | None = None,
    ) -> None:
        if not all(name.split(".")) or "." not in name:
            raise DeclarationError(
                f"table '{name}' has no namespace", hint=f'write Table("lakehouse.{name}", ...)', table=name
            )
        put = object.__setattr__
        put(self, "name", name)
        put(self, "columns", _columns(name, columns))
        for values, texts in (
            ("partition_by", partition_by),
            ("sort_by", sort_by),
            ("checks", checks),
            ("key", key),
            ("dropped", dropped),
        ):
            put(self, values, _texts(name, values, texts))
        put(self, "properties", _with_upkeep(name, dict(properties or {}), upkeep))
        put(self, "properties", {**self.properties, **index_properties(indexes, self.columns, table=name)})
        check_properties(self.properties, self.columns, table=name)
        put(self, "embedders", {index.column: index.embed for index in indexes if index.embed is not None})
        put(self, "grants", _grants(name, grants))
        put(self, "format_version", format_version)
        put(self, "location", location.rstrip("/") if location else None)
        check_table(self)

    @classmethod
    def from_ddl(
        cls,
        text: str,
        *,
        dialect: Literal["trino", "spark"],
        checks: Sequence[str] = (),
        key: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        dropped: Sequence[str] = (),
    ) -> Table:
        """The table that a CREATE TABLE in Trino's or Spark's words makes; what cannot be honoured is an error, never
        left out.

        The first of three names is the engine's word for the catalog, and dropped. The other arguments say what the
        statement cannot.
        """
        from frazil.tables.ddl import table_from_ddl

        return table_from_ddl(cls, text, dialect=dialect, checks=checks, key=key, sort_by=sort_by, dropped=dropped)

    def schema(self) -> Schema:
        """The Iceberg schema, with field ids in the order of declaration."""
        from frazil.tables.iceberg import to_schema

        return to_schema(self)

    def partition_spec(self) -> PartitionSpec:
        """The Iceberg partition spec of a new table."""
        from frazil.tables.iceberg import to_spec

        return to_spec(self, self.schema())

    def sort_order(self) -> SortOrder:
        """The Iceberg sort order of a new table."""
        from frazil.tables.iceberg import to_order

        return to_order(self.sort_terms, self.schema())


def _with_upkeep(table: str, properties: dict[str, str], upkeep: Upkeep | None) -> dict[str, str]:
    rules = upkeep.properties(table=table) if upkeep else {}
    if twice := sorted(key for key in rules if properties.get(key, rules[key]) != rules[key]):
        raise DeclarationError(
            f"table '{table}': property '{twice[0]}' is '{properties[twice[0]]}', but upkeep makes it "
            f"'{rules[twice[0]]}'",
            hint="say it in one of the two",
            table=table,
            option=twice[0],
        )
    return {**properties, **rules}


def _grants(table: str, grants: object) -> dict[str, tuple[str, ...]] | None:
    """
    >>> _grants("t", {"analyst": "read", "etl": ["write", "drop"]})
    {'analyst': ('read',), 'etl': ('drop', 'write')}
    """
    if grants is None:
        return None
    if isinstance(grants, Mapping):
        lists = {name: [value] if isinstance(value, str) else value for name, value in grants.items()}
        if all(_is_grant(name, privileges) for name, privileges in lists.items()):
            return {name: tuple(sorted(set(privileges))) for name, privileges in sorted(lists.items())}
    raise DeclarationError(
        f"table '{table}': grants: expected privileges by role, got {grants!r:.200}",
        hint=f'write grants={{"analyst": "read"}}; the privileges are {", ".join(PRIVILEGES)}',
        table=table,
        option="grants",
    )


def _is_grant(name: object, privileges: object) -> bool:
    if not isinstance(name, str) or not name or not isinstance(privileges, list | tuple | set | frozenset):
        return False
    return bool(privileges) and all(privilege in PRIVILEGES for privilege in privileges)


def _columns(table: str, columns: Sequence[Column]) -> tuple[Column, ...]:
    if not columns:
        raise DeclarationError(f"table '{table}' has no columns", table=table)
    normalised = []
    for position, declared in enumerate(columns, start=1):
        name = getattr(declared, "name", f"number {position}")
        try:
            normalised.append(normalise_column(declared))
        except NotAType as exc:
            raise DeclarationError(
                f"column '{name}' of table '{table}': {exc}", hint=HINT, column=name, table=table, reason=str(exc)
            ) from exc
    names = [column.name for column in normalised]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DeclarationError(f"table '{table}' declares column '{twice[0]}' twice", table=table, column=twice[0])
    return tuple(normalised)


def _texts(table: str, argument: str, texts: Sequence[str]) -> tuple[str, ...]:
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise DeclarationError(
            f"table '{table}': {argument}: expected a list of text, got {texts!r}",
            hint=f'write {argument}=["..."]',
            table=table,
            got=texts,
        )
    return tuple(texts)
