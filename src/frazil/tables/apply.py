"""Plans against a catalog, and performs steps on it, one commit each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import AddSchemaUpdate, AssertCreate, TableRequirement, TableUpdate

from frazil.errors import CatalogError, ChangeRefused, CheckError, CommitConflict, DeclarationError, StalePlan
from frazil.protocol import PROPERTY_PROJECT
from frazil.pyiceberg_compat import staged_table, staged_updates
from frazil.tables.compare import compare
from frazil.tables.declare import Table
from frazil.tables.diff import diff
from frazil.tables.grants import DeclaredGrants, open_grants
from frazil.tables.shape import Record, Shape
from frazil.tables.steps import AlterTable, ChangeGrants, CreateNamespace, CreateTable, Json, Seen, Step

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table as LiveTable
    from pyiceberg.table.metadata import TableMetadata

_UPDATES: TypeAdapter[tuple[TableUpdate, ...]] = TypeAdapter(tuple[TableUpdate, ...])
_REQUIREMENTS: TypeAdapter[tuple[TableRequirement, ...]] = TypeAdapter(tuple[TableRequirement, ...])


def plan(declared: Table, catalog: Catalog) -> list[Step]:
    """The steps that `apply_steps` would take for this table now."""
    return plan_all([declared], catalog)


def _check_checks(declared: Table) -> None:
    """Passes when the rows' checks can be held; they are no part of the live table, so this is where a wrong
    one shows.
    """
    if not declared.checks:
        return
    from frazil.write.contract import compile_checks
    from frazil.write.files import arrow_schema

    try:
        compile_checks(declared.checks, arrow_schema(declared.schema()))
    except CheckError as exc:
        raise DeclarationError(f"table '{declared.name}': {exc.message}", hint=exc.hint, table=declared.name) from exc


def plan_all(tables: Iterable[Table], catalog: Catalog, *, grants: DeclaredGrants | None = None) -> list[Step]:
    """The steps for several tables; if any of them is refused or cannot be loaded, an error with the reasons of all.
    `grants` are those of the catalog, if they are open already.
    """
    declared = list(tables)
    for table in declared:
        _check_checks(table)
    live_tables = find_tables(catalog, [table.identifier for table in declared])
    has_namespace, grants = cache(catalog.namespace_exists), grants or open_grants(declared, catalog)
    steps: list[Step] = []
    refused: dict[str, Exception] = {}
    for table, live in zip(declared, live_tables, strict=True):
        if isinstance(live, Exception):
            refused[table.name] = live
            continue
        try:
            some = diff(table, namespace_exists=live is not None or has_namespace(table.namespace), live=live)
            steps += [step for step in some if step not in steps]  # two tables may want the same namespace
            if change := grants.step(table, exists=live is not None):
                steps.append(change)
        except ChangeRefused as exc:
            refused[table.name] = exc
    if refused:
        raise all_of(refused)
    return steps


def all_of(errors: Mapping[str, Exception]) -> Exception:
    """One error that tells those of several tables."""
    causes = list(errors.values())
    if refusals := [error for error in causes if isinstance(error, ChangeRefused)]:
        others = [
            f"{name}: {type(error).__name__}: {error}"
            for name, error in errors.items()
            if not isinstance(error, ChangeRefused)
        ]
        return ChangeRefused.several(refusals, others)
    if len(causes) == 1:
        return causes[0]
    lines = "".join(f"\n  {name}: {type(error).__name__}: {error}" for name, error in errors.items())
    return CatalogError(f"{len(causes)} tables cannot be loaded:{lines}")


def apply_steps(steps: Sequence[Step], catalog: Catalog, *, owner: str | None = None) -> Iterator[Step]:
    """Each step, after it was done. If anything has changed that the plan rests on, StalePlan before the first one is
    done.

    Tables that are made belong to project `owner`.
    """
    _check_fresh(steps, catalog)
    for step in steps:
        _do(step, catalog, owner)
        yield step


def _check_fresh(steps: Sequence[Step], catalog: Catalog) -> None:
    """Passes when the steps still rest on what their plan saw."""
    about = [step for step in steps if isinstance(step, CreateTable | AlterTable)]
    for step, live in zip(about, find_tables(catalog, [tuple(step.name.split(".")) for step in about]), strict=True):
        if isinstance(live, Exception):
            raise live
        if isinstance(step, AlterTable):
            _check_as_seen(step, live)
        elif live is not None:
            raise StalePlan(step.name, ["the table itself: it is there already"])


def find_tables(catalog: Catalog, identifiers: Sequence[tuple[str, ...]]) -> list[LiveTable | Exception | None]:
    """The live tables, several loaded at a time: None for one that is not there, its error for one that cannot be
    loaded.
    """
    from frazil.client import FrazilCatalog

    if isinstance(catalog, FrazilCatalog):
        loaded = catalog.load_each(identifiers)
        return [None if isinstance(table, NoSuchTableError) else table for table in loaded]
    return [find_table(catalog, identifier) for identifier in identifiers]


def find_table(catalog: Catalog, identifier: tuple[str, ...]) -> LiveTable | None:
    """The live table, if there is one."""
    try:
        return catalog.load_table(identifier)
    except NoSuchTableError:
        return None


def _do(step: Step, catalog: Catalog, owner: str | None) -> None:
    if isinstance(step, CreateNamespace):
        catalog.create_namespace_if_not_exists(step.namespace)
    elif isinstance(step, CreateTable):
        _create(step, catalog, owner)
    elif isinstance(step, ChangeGrants):
        _change_grants(step, catalog)
    else:
        _alter(step, catalog)


def _change_grants(step: ChangeGrants, catalog: Catalog) -> None:
    from frazil.client import FrazilCatalog

    assert isinstance(catalog, FrazilCatalog)  # `open_grants` plans for no other
    catalog.change_grants(tuple(step.name.split(".")), grant=step.granted, revoke=step.revoked)


def _create(step: CreateTable, catalog: Catalog, owner: str | None) -> None:
    schema = Schema.model_validate(step.schema)
    options: dict[str, Any] = {
        "partition_spec": PartitionSpec.model_validate(step.spec),
        "sort_order": SortOrder.model_validate(step.order),
        "properties": {**step.properties, **({PROPERTY_PROJECT: owner} if owner else {})},
        "location": step.location,
    }
    try:
        if not _has_defaults(step):
            catalog.create_table(tuple(step.name.split(".")), schema, **options)
            return
        # PyIceberg drops the defaults of columns on its way to create_table; a staged table is completed by hand.
        staged = catalog.create_table_transaction(tuple(step.name.split(".")), schema, **options)
        updates = tuple(
            AddSchemaUpdate(schema=schema) if isinstance(u, AddSchemaUpdate) else u for u in staged_updates(staged)
        )
        catalog.commit_table(staged_table(staged), (AssertCreate(),), updates)
    except (TableAlreadyExistsError, CommitConflict, CommitFailedException) as exc:
        raise StalePlan(step.name, ["the table itself: it is there already"]) from exc


def _has_defaults(step: CreateTable) -> bool:
    return any("write-default" in str(field) for field in step.schema["fields"])


def _alter(step: AlterTable, catalog: Catalog) -> None:
    live = _check_as_seen(step, find_table(catalog, tuple(step.name.split("."))))
    try:
        catalog.commit_table(
            live, _REQUIREMENTS.validate_python(_requirements(step.seen)), _UPDATES.validate_python(step.updates)
        )
    except (CommitConflict, CommitFailedException) as exc:
        raise StalePlan(step.name, [str(exc).splitlines()[0]]) from exc


def _check_as_seen(step: AlterTable, live: LiveTable | None) -> LiveTable:
    if live is None:
        raise StalePlan(step.name, ["the table itself: it is gone"])
    now = Seen.of(live.metadata, keys=set(step.seen.properties))
    if changed := step.seen.differs_from(now):
        raise StalePlan(step.name, [*changed, *_since(step.seen, live.metadata)])
    return live


def _since(seen: Seen, metadata: TableMetadata) -> list[str]:
    """What others made of the table since, where its history still has what the plan saw."""
    record = Record(seen.schema_id, seen.spec_id, seen.order_id, seen.format_version, {})
    then = record.shape(metadata) if seen.table_uuid == str(metadata.table_uuid) else None
    return [] if then is None else [str(change) for change in compare(then, Shape.of(metadata, keys=set()))]


def _requirements(seen: Seen) -> list[Json]:
    """What the catalog must find in the moment of the commit. Properties have no requirement: they are compared just
    before.
    """
    return [
        {"type": "assert-table-uuid", "uuid": seen.table_uuid},
        {"type": "assert-current-schema-id", "current-schema-id": seen.schema_id},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": seen.last_column_id},
        {"type": "assert-default-spec-id", "default-spec-id": seen.spec_id},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": seen.last_partition_id},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": seen.order_id},
    ]
