"""The steps of a plan: plain values that can be printed, saved and done later. Each is one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from frazil.protocol import PROPERTY_APPLIED
from frazil.tables.compare import Change
from frazil.units import count

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

Json = dict[str, Any]


@dataclass(frozen=True)
class CreateNamespace:
    namespace: tuple[str, ...]

    @property
    def name(self) -> str:
        return ".".join(self.namespace)

    @property
    def removes(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"+ namespace {self.name}"


@dataclass(frozen=True)
class CreateTable:
    """A new table. Schema, spec and order are in the form of Iceberg's JSON."""

    name: str
    schema: Json
    spec: Json
    order: Json
    properties: Mapping[str, str]
    location: str | None
    partitioned_by: tuple[str, ...]

    @property
    def removes(self) -> bool:
        return False

    def __str__(self) -> str:
        partitioned = f", partitioned by {', '.join(self.partitioned_by)}" if self.partitioned_by else ""
        return f"+ table {self.name} ({count(len(self.schema['fields']), 'column')}{partitioned})"


@dataclass(frozen=True)
class Seen:
    """What a plan saw of a table and rests on; writers of rows change none of it."""

    table_uuid: str
    schema_id: int
    last_column_id: int
    spec_id: int
    last_partition_id: int
    order_id: int
    format_version: int
    properties: Mapping[str, str | None]

    @classmethod
    def of(cls, metadata: TableMetadata, *, keys: set[str]) -> Seen:
        return cls(
            str(metadata.table_uuid),
            metadata.current_schema_id,
            metadata.last_column_id,
            metadata.default_spec_id,
            metadata.last_partition_id or 999,
            metadata.default_sort_order_id,
            metadata.format_version,
            {key: metadata.properties.get(key) for key in sorted(keys)},
        )

    def differs_from(self, now: Seen) -> list[str]:
        """What has changed since, in words.

        >>> one = Seen("u", 1, 5, 0, 999, 0, 2, {"a": "b"})
        >>> one.differs_from(Seen("u", 2, 5, 0, 999, 0, 2, {"a": None}))
        ['the schema (its id was 1, is 2)', "property a (was 'b', is not set)"]
        """
        if self.table_uuid != now.table_uuid:
            return ["the table itself: another one has its name"]
        differences = [
            f"{_WORDS[field.name]} (its id was {getattr(self, field.name)}, is {getattr(now, field.name)})"
            for field in fields(self)
            if field.name in _WORDS and getattr(self, field.name) != getattr(now, field.name)
        ]
        for key, was in self.properties.items():
            if now.properties.get(key) != was:
                changed = f"property {key} (was {_value(was)}, is {_value(now.properties.get(key))})"
                differences.append("what is applied: another plan was applied" if key == PROPERTY_APPLIED else changed)
        return differences


_WORDS = {
    "schema_id": "the schema",
    "last_column_id": "the last column",
    "spec_id": "the partition spec",
    "last_partition_id": "the last partition field",
    "order_id": "the sort order",
    "format_version": "the format version",
}


def _value(value: str | None) -> str:
    return "not set" if value is None else repr(value)


@dataclass(frozen=True)
class AlterTable:
    """All changes to one table, in one commit; `updates` are in the form of Iceberg's JSON."""

    name: str
    changes: tuple[Change, ...]
    updates: tuple[Json, ...]
    seen: Seen

    @property
    def removes(self) -> bool:
        return any(change.sign == "-" for change in self.changes)

    def __str__(self) -> str:
        return "\n".join([f"~ table {self.name}", *(f"    {change}" for change in self.changes)])


@dataclass(frozen=True)
class ChangeGrants:
    """Privileges that are granted and revoked on one table: pairs of grantee and privilege."""

    name: str
    granted: tuple[tuple[str, str], ...]
    revoked: tuple[tuple[str, str], ...]

    @property
    def removes(self) -> bool:
        return bool(self.revoked)

    @property
    def changes(self) -> tuple[Change, ...]:
        return (
            *(Change("+", ("grant", *pair), f"grant {pair[1]} to {pair[0]}") for pair in self.granted),
            *(Change("-", ("grant", *pair), f"grant {pair[1]} to {pair[0]}") for pair in self.revoked),
        )

    def __str__(self) -> str:
        return "\n".join([f"~ grants on {self.name}", *(f"    {change}" for change in self.changes)])


Step = CreateNamespace | CreateTable | AlterTable | ChangeGrants
_KINDS: dict[str, type[Step]] = {
    "create-namespace": CreateNamespace,
    "create-table": CreateTable,
    "alter-table": AlterTable,
    "change-grants": ChangeGrants,
}


def to_json(step: Step) -> Json:
    """The step as JSON that `from_json` reads back."""
    kind = next(kind for kind, cls in _KINDS.items() if isinstance(step, cls))
    return {"step": kind, **asdict(step)}


def from_json(value: Json) -> Step:
    """The step that `to_json` wrote; KeyError or TypeError if it is none."""
    arguments = {key: item for key, item in value.items() if key != "step"}
    match value["step"]:
        case "create-namespace":
            return CreateNamespace(tuple(arguments["namespace"]))
        case "create-table":
            return CreateTable(**{**arguments, "partitioned_by": tuple(arguments["partitioned_by"])})
        case "alter-table":
            changes = tuple(
                Change(change["sign"], tuple(change["about"]), change["text"]) for change in arguments["changes"]
            )
            return AlterTable(arguments["name"], changes, tuple(arguments["updates"]), Seen(**arguments["seen"]))
        case "change-grants":
            granted, revoked = (tuple((pair[0], pair[1]) for pair in arguments[key]) for key in ("granted", "revoked"))
            return ChangeGrants(arguments["name"], granted, revoked)
    raise KeyError(value["step"])


def summary(step: Step) -> Json:
    """The step for a program that reads plans: what is done to what, line by line."""
    kind = to_json(step)["step"]
    if isinstance(step, AlterTable | ChangeGrants):
        changes = [{"sign": change.sign, "about": change.about[0], "text": change.text} for change in step.changes]
    else:
        changes = [{"sign": "+", "about": kind.removeprefix("create-"), "text": str(step).removeprefix("+ ")}]
    return {"step": kind, "name": step.name, "changes": changes}
