"""Environments: branches of one name over the tables of a project, and nothing else that is stored.

A run in an environment reads a table's branch of that name where there is one, and main elsewhere; what it writes goes
to the branches. A branch begins at main's head, with the progress of main there. Companion tables (ledger, runs,
quarantine) branch in the same commit, so that the ledger of a branch names exactly the files whose rows it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import RemovePropertiesUpdate, TableUpdate

from frazil.client import Change
from frazil.errors import HistoryError
from frazil.ownership import companions
from frazil.protocol import ROLLBACK_TAG_PREFIX, STAGING_PREFIX
from frazil.scan.planning import ancestors
from frazil.write.commit import (
    MAIN,
    Append,
    RetryPolicy,
    at_snapshot,
    drop_ref,
    guards,
    head,
    move_ref,
    property_key,
    read_progress,
    until_decided,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Identifier

    from frazil.client import FrazilCatalog

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
RESERVED = (STAGING_PREFIX, ROLLBACK_TAG_PREFIX, "audit-")  # how branches and tags begin that Frazil makes itself


def check_environment(name: str) -> str:
    """The name, if it can be that of an environment.

    >>> check_environment("dev")
    'dev'
    """
    if not NAME.fullmatch(name) or name.lower() in (MAIN, "head") or name.startswith(RESERVED):
        reserved = ", ".join(f"{prefix}..." for prefix in RESERVED)
        raise HistoryError(
            f"'{name}' cannot name an environment",
            hint=f"a name of letters, digits, '_', '-' and '.' that begins with a letter; not main, and not {reserved}",
            name=name,
            problem="environment-name",
        )
    return name


def ref_in(metadata: TableMetadata, environment: str | None, *, table: str) -> str:
    """The ref of a table that an environment reads: its branch where there is one, else main."""
    if environment is None or environment not in metadata.refs:
        return MAIN
    if metadata.refs[environment].snapshot_ref_type != SnapshotRefType.BRANCH:
        raise HistoryError(
            f"'{environment}' of {table} is a tag, and an environment needs a branch of that name",
            hint=f"choose another name, or drop the tag: frazil tag drop {table} {environment}",
            table=table,
            ref=environment,
            problem="tag",
        )
    return environment


# --- the tables of an environment ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Member:
    """A table that has a branch of the environment; `of` is the table that a companion table belongs to."""

    table: Table
    of: str | None = None

    @property
    def name(self) -> str:
        return ".".join(self.table.name())

    @property
    def metadata(self) -> TableMetadata:
        return self.table.metadata


def load_tables(catalog: FrazilCatalog, names: Sequence[str]) -> list[Member]:
    """The tables of these names that exist, each followed by its companion tables."""
    wanted: list[tuple[Identifier, str | None]] = []
    for name in dict.fromkeys(names):
        identifier = tuple(name.split("."))
        wanted += [(identifier, None), *((companion, name) for companion in companions(identifier))]
    loaded = zip(wanted, catalog.load_each([identifier for identifier, _ in wanted]), strict=True)
    return [Member(table, of) for (_, of), result in loaded if (table := _existing(result)) is not None]


def _existing(result: Table | Exception) -> Table | None:
    """The table; None if there is none. Another error hides nothing: a table that cannot be read may be one of the
    environment's.
    """
    if isinstance(result, NoSuchTableError | NoSuchNamespaceError):
        return None
    if isinstance(result, Exception):
        raise result
    return result


def find_members(catalog: FrazilCatalog, names: Sequence[str], environment: str) -> list[Member]:
    """Those of the tables, and of their companion tables, that have a branch of the environment."""
    tables = load_tables(catalog, names)
    return [each for each in tables if ref_in(each.metadata, environment, table=each.name) == environment]


def no_environment(environment: str, names: Iterable[str]) -> HistoryError:
    """No table has such a branch."""
    return HistoryError(
        f"there is no environment '{environment}': none of {', '.join(names) or 'no tables'} has a branch of that name",
        hint="frazil env list shows those that there are; frazil run --env NAME begins one",
        name=environment,
        ref=environment,
        problem="no-environment",
    )


@dataclass(frozen=True)
class EnvironmentInfo:
    """An environment: its tables, those with snapshots of its own, and those where main has moved on since."""

    name: str
    tables: tuple[str, ...]
    changed: tuple[str, ...]
    moved: tuple[str, ...]
    time_ms: int | None  # of the newest snapshot


def list_environments(catalog: FrazilCatalog, names: Sequence[str]) -> list[EnvironmentInfo]:
    """The environments of these tables, by name."""
    tables = [each for each in load_tables(catalog, names) if each.of is None]
    known = {ref for each in tables for ref in each.metadata.refs if _is_environment(each.metadata, ref)}
    return [_describe(name, [each for each in tables if name in each.metadata.refs]) for name in sorted(known)]


def _is_environment(metadata: TableMetadata, ref: str) -> bool:
    is_branch = metadata.refs[ref].snapshot_ref_type == SnapshotRefType.BRANCH
    return is_branch and ref != MAIN and not ref.startswith(RESERVED)


def _describe(name: str, members: Sequence[Member]) -> EnvironmentInfo:
    heads = [snapshot for each in members if (snapshot := head(each.metadata, name)) is not None]
    return EnvironmentInfo(
        name,
        tuple(each.name for each in members),
        tuple(each.name for each in members if own_snapshots(each.metadata, name)),
        tuple(each.name for each in members if has_moved(each.metadata, name)),
        max((snapshot.timestamp_ms for snapshot in heads), default=None),
    )


def own_snapshots(metadata: TableMetadata, environment: str) -> tuple[int, ...]:
    """The snapshots of the branch that main does not have, the newest first."""
    on_main = {snapshot.snapshot_id for snapshot in ancestors(metadata, head(metadata))}
    line = (snapshot.snapshot_id for snapshot in ancestors(metadata, head(metadata, environment)))
    return tuple(snapshot_id for snapshot_id in line if snapshot_id not in on_main)


def has_moved(metadata: TableMetadata, environment: str) -> bool:
    """Whether main has snapshots that the branch does not have."""
    main = head(metadata)
    line = (snapshot.snapshot_id for snapshot in ancestors(metadata, head(metadata, environment)))
    return main is not None and main.snapshot_id not in line


# --- branching -------------------------------------------------------------------------------------------------------


def branch_table(
    catalog: FrazilCatalog, target: Identifier, environment: str, *, retry: RetryPolicy | None = None
) -> None:
    """The table has a branch of the environment when this returns: a new one begins at main's head. Companion tables
    branch in the same commit; one that has no rows yet does with its first.
    """
    name = ".".join(target)

    def attempt(number: int) -> None:
        table, *others = load_tables(catalog, [name])
        if ref_in(table.metadata, environment, table=name) == MAIN:
            changes = [_begin(table, environment, number), *(_begin_companion(each, environment) for each in others)]
            catalog.commit_changes([change for change in changes if change is not None])

    until_decided(attempt, name=name, retry=retry or RetryPolicy())


def _begin(member: Member, environment: str, number: int) -> Change:
    metadata, main = member.metadata, head(member.metadata)
    if main is None:  # a branch needs a snapshot
        empty = Append(member.table.name(), ref=environment, new_branch=True)
        return empty.build(member.table, attempt=number, summary={}, properties={})
    required = (*guards(metadata, MAIN, main.snapshot_id), at_snapshot(environment, None))
    updates = (move_ref(metadata, environment, main.snapshot_id), *forget_progress(metadata, environment))
    return Change(member.table.name(), required, updates)


def _begin_companion(member: Member, environment: str) -> Change | None:
    """The branch of a companion table at main's head. One that another tool has left speaks of other rows: it goes."""
    metadata, main, old = member.metadata, head(member.metadata), head(member.metadata, environment)
    if main is None and old is None:
        return None
    main_id, old_id = (snapshot.snapshot_id if snapshot else None for snapshot in (main, old))
    required = (*guards(metadata, MAIN, main_id), at_snapshot(environment, old_id))
    update = drop_ref(environment) if main_id is None else move_ref(metadata, environment, main_id)
    return Change(member.table.name(), required, (update,))


def forget_progress(metadata: TableMetadata, environment: str) -> tuple[TableUpdate, ...]:
    """Removes the progress of a branch that is gone."""
    key = property_key(environment)
    return (RemovePropertiesUpdate(removals=[key]),) if key in metadata.properties else ()


# --- dropping --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DroppedBranch:
    """The branch of one table: its snapshots that main does not have, and the parts whose progress goes with it."""

    table: str
    snapshot_id: int
    snapshots: tuple[int, ...]
    parts: tuple[str, ...]


@dataclass(frozen=True)
class EnvironmentDrop:
    """What is lost with an environment; branches of companion tables go, too."""

    environment: str
    tables: tuple[DroppedBranch, ...]


def plan_environment_drop(members: Sequence[Member], environment: str) -> EnvironmentDrop:
    """What would be lost with the branches of these tables."""
    dropped = []
    for each in members:
        on_branch = head(each.metadata, environment)
        if each.of is None and on_branch is not None:
            parts = tuple(sorted(read_progress(each.metadata, environment).parts))
            own = own_snapshots(each.metadata, environment)
            dropped.append(DroppedBranch(each.name, on_branch.snapshot_id, own, parts))
    return EnvironmentDrop(environment, tuple(dropped))


def perform_environment_drop(
    catalog: FrazilCatalog, names: Sequence[str], plan: EnvironmentDrop, *, retry: RetryPolicy | None = None
) -> None:
    """All branches are gone when this returns, in one commit; if one has moved since the plan, none is."""

    def attempt(_: int) -> None:
        members = find_members(catalog, names, plan.environment)
        if not members:  # the reply was lost, the commit was not
            return
        if plan_environment_drop(members, plan.environment) != plan:
            raise changed_meanwhile(plan.environment, "drop")
        catalog.commit_changes([drop_branch(each, plan.environment) for each in members])

    until_decided(attempt, name=f"environment {plan.environment}", retry=retry or RetryPolicy())


def drop_branch(member: Member, environment: str) -> Change:
    """Removes the branch and its progress, if it is where it was read."""
    metadata, on_branch = member.metadata, head(member.metadata, environment)
    required = guards(metadata, environment, on_branch.snapshot_id if on_branch else None)
    return Change(member.table.name(), required, (drop_ref(environment), *forget_progress(metadata, environment)))


def changed_meanwhile(environment: str, verb: str) -> HistoryError:
    """The environment is not what was shown."""
    return HistoryError(
        f"environment '{environment}' has changed since it was read; nothing was changed",
        hint=f"look at it again, and repeat: frazil env {verb} {environment}",
        ref=environment,
        problem="changed",
    )
