"""Publishes an environment: one commit moves main of all its tables to their branches, or nothing moves.

A table can be published if main has not moved since the branch began: then main's head is on the branch's line, and
the commit requires that it still is there. The progress of the branch becomes main's; the input snapshots that it names
must be on main then, so that the next run on main goes on from them. Companion tables are only appended to: where main
of one has moved, the files of the branch are added to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation

from frazil.client import Change
from frazil.errors import EnvironmentMoved
from frazil.history.environments import (
    Member,
    changed_meanwhile,
    drop_branch,
    find_members,
    forget_progress,
    has_moved,
    load_tables,
    no_environment,
    own_snapshots,
)
from frazil.history.refs import merge_progress
from frazil.protocol import SUMMARY_REF, SUMMARY_STAGED_BY
from frazil.scan.planning import ancestors
from frazil.write.commit import (
    MAIN,
    Draft,
    InputState,
    Progress,
    RetryPolicy,
    as_added,
    at_snapshot,
    count_added,
    drop_ref,
    guards,
    head,
    move_ref,
    property_key,
    read_entries,
    read_list,
    read_progress,
    set_properties,
    until_decided,
    write_by_spec,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from frazil.client import FrazilCatalog


@dataclass(frozen=True)
class TableMove:
    """Main of a table moves to the head of the branch: over these snapshots, with the progress of these parts."""

    table: str
    main_id: int | None
    head_id: int
    snapshots: tuple[int, ...]
    parts: tuple[str, ...]


@dataclass(frozen=True)
class EnvironmentPublication:
    """What publishing an environment does. Of `unchanged` tables the branch has nothing of its own, and goes. If
    `was_published`, all of it is on main already.
    """

    environment: str
    moves: tuple[TableMove, ...] = ()
    unchanged: tuple[str, ...] = ()
    was_published: bool = False


def plan_environment_publication(
    catalog: FrazilCatalog, names: Sequence[str], environment: str
) -> EnvironmentPublication:
    """What it takes to publish the environment; `EnvironmentMoved` if it cannot be. Changes nothing."""
    members = find_members(catalog, names, environment)
    if not any(each.of is None for each in members):
        if _was_published(catalog, names, environment):
            return EnvironmentPublication(environment, was_published=True)
        raise no_environment(environment, names)
    return _plan(catalog, members, environment)


def publish_environment(
    catalog: FrazilCatalog,
    names: Sequence[str],
    plan: EnvironmentPublication,
    *,
    retry: RetryPolicy | None = None,
) -> None:
    """Everything is on main when this returns, and the branches are gone; if anything has moved since the plan, nothing
    is changed. Safe to call again.
    """
    retry = retry or RetryPolicy()

    def attempt(number: int) -> None:
        members = find_members(catalog, names, plan.environment)
        if not members and _is_done(catalog, plan):  # the reply was lost, the commit was not
            return
        if _plan(catalog, members, plan.environment) != plan:
            raise changed_meanwhile(plan.environment, "publish")
        retry.on_step("before commit")
        catalog.commit_changes(list(_changes(members, plan, number)))
        retry.on_step("after commit")

    until_decided(attempt, name=f"environment {plan.environment}", retry=retry)


# --- deciding --------------------------------------------------------------------------------------------------------


def _plan(catalog: FrazilCatalog, members: Sequence[Member], environment: str) -> EnvironmentPublication:
    moves, unchanged, refused = list[TableMove](), list[str](), dict[str, str]()
    tables = [each for each in members if each.of is None]
    for member in tables:
        own = own_snapshots(member.metadata, environment)
        if not own:
            unchanged.append(member.name)
        elif reason := _refusal(member.metadata, environment):
            refused[member.name] = reason
        else:
            moves.append(_move(member, environment, own))
    for member in tables:
        if member.name not in refused and (reason := _false_input(catalog, member, tables, moves, environment)):
            refused[member.name] = reason
    if refused:
        raise EnvironmentMoved(environment, refused)
    return EnvironmentPublication(environment, tuple(moves), tuple(unchanged))


def _refusal(metadata: TableMetadata, environment: str) -> str | None:
    """Why main cannot move to the branch."""
    on_branch, main = head(metadata, environment), head(metadata)
    summary = on_branch.summary.additional_properties if on_branch and on_branch.summary else {}
    if pipeline := summary.get(SUMMARY_STAGED_BY):
        return f"the branch holds rows that pipeline '{pipeline}' has staged for its audit"
    if main is not None and has_moved(metadata, environment):
        line = {snapshot.snapshot_id for snapshot in ancestors(metadata, on_branch)}
        since = [each.snapshot_id for each in ancestors(metadata, main) if each.snapshot_id not in line]
        return f"main has moved to snapshot {main.snapshot_id} since the branch began ({len(since)} on main alone)"
    return None


def _move(member: Member, environment: str, own: tuple[int, ...]) -> TableMove:
    main, parts = head(member.metadata), read_progress(member.metadata, environment).parts
    return TableMove(member.name, main.snapshot_id if main else None, own[0], own, tuple(sorted(parts)))


def _false_input(
    catalog: FrazilCatalog,
    member: Member,
    tables: Sequence[Member],
    moves: Sequence[TableMove],
    environment: str,
) -> str | None:
    """Why the progress of the branch would not be true on main: an input snapshot that main does not have then."""
    ends = {move.table: move.head_id for move in moves}
    if member.name not in ends:
        return None
    for name, state in _new_inputs(member.metadata, environment):
        known = next((each.metadata for each in tables if each.name == name), None)
        if known is None:
            known = next((each.metadata for each in load_tables(catalog, [name]) if each.of is None), None)
        if known is None or str(known.table_uuid) != state.uuid:
            return f"it was made from {name}, which is not there any more"
        main = head(known)
        end_id = ends.get(name, main.snapshot_id if main else None)
        end = known.snapshot_by_id(end_id) if end_id is not None else None
        line = {snapshot.snapshot_id for snapshot in ancestors(known, end)}
        if state.snapshot_id is not None and state.snapshot_id not in line:
            return f"it was made from {name} at snapshot {state.snapshot_id}, which main does not have"
    return None


def _new_inputs(metadata: TableMetadata, environment: str) -> Iterator[tuple[str, InputState]]:
    """The inputs that the progress of the branch names, of parts that have made progress there."""
    main = read_progress(metadata)
    for name, part in read_progress(metadata, environment).parts.items():
        if part != main.part(name):
            yield from part.inputs.items()


def _was_published(catalog: FrazilCatalog, names: Sequence[str], environment: str) -> bool:
    """Whether the last snapshot on main of a table was written in the environment: a publication has just moved it."""
    heads = [head(each.metadata) for each in load_tables(catalog, names) if each.of is None]
    summaries = [each.summary.additional_properties for each in heads if each is not None and each.summary]
    return any(summary.get(SUMMARY_REF) == environment for summary in summaries)


def _is_done(catalog: FrazilCatalog, plan: EnvironmentPublication) -> bool:
    """Whether main of every table has what the plan moves it to."""
    ends = {move.table: move.head_id for move in plan.moves}
    loaded = {each.name: each.metadata for each in load_tables(catalog, list(ends)) if each.of is None}
    return all(
        name in loaded and end in {each.snapshot_id for each in ancestors(loaded[name], head(loaded[name]))}
        for name, end in ends.items()
    )


# --- doing -----------------------------------------------------------------------------------------------------------


def _changes(members: Sequence[Member], plan: EnvironmentPublication, number: int) -> Iterator[Change]:
    moves, tables = {move.table: move for move in plan.moves}, {each.name for each in members if each.of is None}
    for member in members:
        if member.of is not None:
            is_left = member.of not in tables  # of a branch that another tool has dropped
            yield drop_branch(member, plan.environment) if is_left else _publish_companion(member, plan, number)
        elif member.name in moves:
            yield _publish(member, moves[member.name], plan.environment)
        else:
            yield drop_branch(member, plan.environment)


def _publish(member: Member, move: TableMove, environment: str) -> Change:
    metadata, progress = member.metadata, Progress()
    if move.parts:
        theirs = read_progress(metadata, environment)
        progress = merge_progress(read_progress(metadata), theirs, branch=environment, table=member.name)
    return _move_main(member.table, move.main_id, move.head_id, environment, progress)


def _move_main(
    table: Table, main_id: int | None, head_id: int, environment: str, progress: Progress | None = None
) -> Change:
    metadata = table.metadata
    required = (*guards(metadata, MAIN, main_id), at_snapshot(environment, head_id))
    known = set_properties({property_key(): progress.dump()} if progress and progress.parts else {})
    gone = (drop_ref(environment), *forget_progress(metadata, environment))
    return Change(table.name(), required, (move_ref(metadata, MAIN, head_id), *known, *gone))


def _publish_companion(member: Member, plan: EnvironmentPublication, number: int) -> Change:
    """Main of a companion table gets the rows of the branch, wherever it stands."""
    metadata, environment = member.metadata, plan.environment
    own, main, on_branch = own_snapshots(metadata, environment), head(metadata), head(metadata, environment)
    if not own or on_branch is None:
        return drop_branch(member, environment)
    if not has_moved(metadata, environment):
        return _move_main(member.table, main.snapshot_id if main else None, own[0], environment)
    return _carry_over(member.table, own, environment, number)


def _carry_over(table: Table, own: Sequence[int], environment: str, number: int) -> Change:
    """Adds the files that the branch has added to main: the files themselves, no copies."""
    metadata, on_branch = table.metadata, head(table.metadata, environment)
    assert on_branch is not None
    entries = [entry for manifest in read_list(table, on_branch) for entry in read_entries(table, manifest)]
    files = [entry.data_file for entry in entries if entry.snapshot_id in own]
    draft = Draft.after_head(table, MAIN, metadata.new_snapshot_id(), number)
    added = write_by_spec(table, [as_added(file, draft.snapshot_id) for file in files], snapshot_id=draft.snapshot_id)
    snapshot = draft.write(Operation.APPEND, [*added, *draft.manifests], count_added(files), {})
    required = (*guards(metadata, MAIN, draft.parent_id), at_snapshot(environment, on_branch.snapshot_id))
    gone = (drop_ref(environment), *forget_progress(metadata, environment))
    return Change(table.name(), required, (*draft.updates(snapshot), *gone))
