"""What a commit asserts about the table that it changes: one small function a requirement, pure.

A requirement that does not hold raises CommitConflict; the texts are those of the Java library, which clients and its
compatibility kit know. Only a changed *value* is a conflict; a malformed requirement is a BadRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from frazil.catalog import fields
from frazil.catalog.fields import LONG_MAX, Json
from frazil.errors import BadRequest, CommitConflict

Requirement = Callable[[Json, Json, str], None]


def _conflict(text: str) -> CommitConflict:
    return CommitConflict(f"Requirement failed: {text}")


def _table_uuid(base: Json, requirement: Json, where: str) -> None:
    expected = fields.text(requirement, "uuid", where)
    if expected.lower() != str(base["table-uuid"]).lower():
        raise _conflict(f"UUID does not match: expected {base['table-uuid']} != {expected}")


def _view_uuid(base: Json, requirement: Json, where: str) -> None:
    expected = fields.text(requirement, "uuid", where)
    if expected.lower() != str(base["view-uuid"]).lower():
        raise _conflict(f"view UUID does not match: expected {base['view-uuid']} != {expected}")


def _ref_snapshot_id(base: Json, requirement: Json, where: str) -> None:
    name = fields.text(requirement, "ref", where)
    expected = fields.integer_or_none(requirement, "snapshot-id", where, most=LONG_MAX)
    ref = base["refs"].get(name)
    if ref is None:
        if expected is not None:
            raise _conflict(f"branch or tag {name} is missing, expected {expected}")
    elif expected is None:
        raise _conflict(f"{ref['type']} {name} was created concurrently")
    elif expected != ref["snapshot-id"]:
        raise _conflict(f"{ref['type']} {name} has changed: expected id {expected} != {ref['snapshot-id']}")


def _same_number(field: str, metadata_field: str, what: str) -> Requirement:
    def check(base: Json, requirement: Json, where: str) -> None:
        expected = fields.integer(requirement, field, where)
        if expected != base[metadata_field]:
            raise _conflict(f"{what}: expected id {expected} != {base[metadata_field]}")

    return check


TABLE_REQUIREMENTS: dict[str, Requirement] = {
    "assert-table-uuid": _table_uuid,
    "assert-ref-snapshot-id": _ref_snapshot_id,
    "assert-last-assigned-field-id": _same_number(
        "last-assigned-field-id", "last-column-id", "last assigned field id changed"
    ),
    "assert-current-schema-id": _same_number("current-schema-id", "current-schema-id", "current schema changed"),
    "assert-last-assigned-partition-id": _same_number(
        "last-assigned-partition-id", "last-partition-id", "last assigned partition id changed"
    ),
    "assert-default-spec-id": _same_number("default-spec-id", "default-spec-id", "default partition spec changed"),
    "assert-default-sort-order-id": _same_number(
        "default-sort-order-id", "default-sort-order-id", "default sort order changed"
    ),
}
VIEW_REQUIREMENTS: dict[str, Requirement] = {"assert-view-uuid": _view_uuid}


def check_requirements(base: Json | None, requirements: Sequence[Json], *, table: str) -> None:
    """Passes when all requirements hold for the table; `base` is None when there is no table of this name."""
    if is_create(requirements):
        if base is not None:
            raise _conflict("table already exists")
        return
    assert base is not None, "a commit without assert-create needs a table"
    _check(base, requirements, TABLE_REQUIREMENTS, f"Commit of table {table}")


def check_view_requirements(base: Json, requirements: Sequence[Json], *, view: str) -> None:
    _check(base, requirements, VIEW_REQUIREMENTS, f"Commit of view {view}")


def _check(base: Json, requirements: Sequence[Json], known: dict[str, Requirement], where: str) -> None:
    for position, requirement in enumerate(requirements):
        kind = requirement.get("type")
        check = known.get(kind) if isinstance(kind, str) else None
        if check is None:
            raise BadRequest(f"{where}: requirement {position} has an unknown type {kind!r}", option="type", got=kind)
        check(base, requirement, f"{where}: requirement {position} ({kind})")


def is_create(requirements: Sequence[Json]) -> bool:
    """Whether the commit creates its table; then it may assert nothing else."""
    kinds = [requirement.get("type") for requirement in requirements]
    if "assert-create" not in kinds:
        return False
    others = sorted({str(kind) for kind in kinds if kind != "assert-create"})
    if others:
        raise BadRequest(f"Invalid create requirements: {', '.join(others)} cannot be combined with assert-create")
    return True
