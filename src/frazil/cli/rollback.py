"""`frazil rollback`: the rows of an older snapshot, after a look at what that means."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from frazil.cli.complete import complete_any_ref, complete_branches, complete_tables
from frazil.cli.context import Context
from frazil.cli.show import OUTPUT, REFERENCE, echo, print_json
from frazil.errors import HistoryError
from frazil.units import count

if TYPE_CHECKING:
    from frazil.history import LogEntry, RollbackPlan


@click.command()
@click.argument("table", shell_complete=complete_tables)
@click.option("--to", metavar="REFERENCE", shell_complete=complete_any_ref, help="The same as --at.")
@click.option(
    "--at",
    metavar="REFERENCE",
    shell_complete=complete_any_ref,
    help=f"The state to go back to: {REFERENCE}. A timestamp is looked up on --ref.",
)
@click.option(
    "--ref", default="main", shell_complete=complete_branches, show_default=True, help="The branch that goes back."
)
@click.option(
    "--with-progress/--keep-progress",
    default=None,
    help="Whether sinks and pipelines go back, too: then their rows come again; else they stay out for good.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@OUTPUT
@click.pass_obj
def rollback(
    context: Context,
    table: str,
    to: str | None,
    at: str | None,
    ref: str,
    with_progress: bool | None,
    yes: bool,
    output: str,
) -> None:
    """Go back to an older snapshot; shows first what that undoes.

    It ends in a new snapshot with the old one's files: nothing is deleted, and a second rollback brings back what this
    one undid.
    """
    from frazil.history import perform_rollback
    from frazil.lake import Lake

    if (to is None) == (at is None):
        hint = f"--at REFERENCE: {REFERENCE}"
        raise HistoryError("a rollback needs the state to go back to, once: --at, or --to", hint=hint, option="at")
    target = to or at or ""
    plan = Lake(context.settings, catalog=context.catalog).table(table).plan_rollback(target, ref=ref)
    may_ask = output == "text" and sys.stdin.isatty()
    if output == "text":
        for line in describe(plan):
            echo(line)
    chosen = _choose_progress(plan, with_progress, may_ask=may_ask)
    question = f"roll '{ref}' of {table} back to snapshot {plan.target.snapshot.snapshot_id}?"
    if not yes and not _confirm(question, may_ask=may_ask):
        echo("nothing was changed")
        return
    snapshot_id = perform_rollback(context.catalog, plan, with_progress=chosen)
    if output == "json":
        print_json(as_json(plan, snapshot_id, with_progress=chosen))
        return
    echo(
        f"'{ref}' of {table} is back, as snapshot {snapshot_id}; to undo this: frazil rollback {table} --to "
        f"{plan.head_id}"
    )


def as_json(plan: RollbackPlan, snapshot_id: int, *, with_progress: bool) -> dict[str, object]:
    """What the rollback has done, for programs: docs/cli-json.md has its shape."""
    return {
        "table": plan.table,
        "ref": plan.ref,
        "snapshot_id": snapshot_id,
        "before_snapshot_id": plan.head_id,
        "target_snapshot_id": plan.target.snapshot.snapshot_id,
        "with_progress": with_progress,
        "undone": [entry.snapshot_id for entry in plan.undone],
        "restored": [entry.snapshot_id for entry in plan.restored],
    }


def describe(plan: RollbackPlan) -> Iterator[str]:
    """What the rollback would do, a line each."""
    from frazil.scan.planning import show_time

    when = show_time(plan.target.snapshot.timestamp_ms)
    yield (
        f"'{plan.ref}' of {plan.table} goes back from snapshot {plan.head_id} to {plan.target.snapshot.snapshot_id} "
        f"of {when} UTC"
    )
    for title, entries in (("undone", plan.undone), ("brought back", plan.restored)):
        if entries:
            yield f"  {count(len(entries), 'snapshot')} {title}:"
        yield from (f"    {_describe_entry(entry)}" for entry in entries[:10])
        if len(entries) > 10:
            yield f"    ... and {len(entries) - 10} more"
    yield f"  {_sums(plan, '-')} go, {_sums(plan, '+')} come back; no file is deleted"
    if plan.schema_since:
        yield f"  the schema stays as it is now; changed since then: {'; '.join(plan.schema_since)}"
    yield from _describe_progress(plan)


def _describe_entry(entry: LogEntry) -> str:
    from frazil.scan.planning import show_time

    refs = f"({', '.join(entry.refs)})" if entry.refs else ""
    rows = f"+{entry.added_rows:,} -{entry.removed_rows:,} rows"
    return "  ".join(
        filter(None, [str(entry.snapshot_id), show_time(entry.time_ms), entry.operation, rows, entry.by, refs])
    )


def _sums(plan: RollbackPlan, sign: str) -> str:
    data, deletes = plan.diff.sum(sign), plan.diff.sum(sign, deletes=True)
    more = f" and {count(deletes.files, 'delete file')} ({count(deletes.rows, 'row')})" if deletes.files else ""
    return f"{count(data.files, 'data file')} ({count(data.rows, 'row')}){more}"


def _describe_progress(plan: RollbackPlan) -> Iterator[str]:
    if not plan.has_progress:
        return
    yield "  written by sinks or pipelines, which remember how far they have come:"
    for part in plan.parts:
        if part.now or part.then:
            yield f"    sink part {part.part}: now {_offsets(part.now)}, then {_offsets(part.then)}"
        elif not plan.ledger:  # a pipeline over files: what it has loaded is in its ledger
            yield f"    sink part {part.part}: it has written since, and keeps no offsets"
    if plan.ledger:
        said = [f"{count(plan.ledger.forgets, 'file')} loaded since"] if plan.ledger.forgets else []
        said += [f"{count(plan.ledger.remembers, 'file')} loaded then"] if plan.ledger.remembers else []
        yield f"    {plan.ledger.table}: {', '.join(said)}"
    if plan.quarantine:
        said = [f"{count(plan.quarantine.forgets, 'row')} quarantined since"] if plan.quarantine.forgets else []
        said += [f"{count(plan.quarantine.remembers, 'row')} quarantined then"] if plan.quarantine.remembers else []
        yield f"    {plan.quarantine.table}: {', '.join(said)}"
    if not plan.progress_known:
        yield "    how far they were then is no longer known (expired): only --keep-progress is possible"
    yield f"    --with-progress: {_with_progress(repeats=plan.repeats, resumes=plan.resumes)}"
    yield f"    --keep-progress: {_keep_progress(repeats=plan.repeats, resumes=plan.resumes)}"


def _with_progress(*, repeats: bool, resumes: bool) -> str:
    """
    >>> _with_progress(repeats=True, resumes=False)
    'they go back as well; what was undone is read and written again, and running writers are fenced'
    """
    said = ["what was undone is read and written again"] if repeats else []
    said += ["what is brought back counts as written"] if resumes else []
    return f"they go back as well; {', '.join(said) or 'no row is read again'}, and running writers are fenced"


def _keep_progress(*, repeats: bool, resumes: bool) -> str:
    """
    >>> _keep_progress(repeats=False, resumes=True)
    'they stay where they are; what is brought back is written a second time'
    """
    said = ["what was undone stays out for good"] if repeats else []
    said += ["what is brought back is written a second time"] if resumes else []
    return f"they stay where they are; {', and '.join(said) or 'no row is read again'}"


def _offsets(offsets: Mapping[str, int]) -> str:
    """
    >>> _offsets({"events/0": 120}), _offsets({})
    ('events/0=120', 'the beginning')
    """
    shown = [f"{name}={value}" for name, value in sorted(offsets.items())]
    return ", ".join([*shown[:4], *(["..."] if len(shown) > 4 else [])]) or "the beginning"


def _choose_progress(plan: RollbackPlan, keep: bool | None, *, may_ask: bool) -> bool:
    """Whether progress goes back: as the option says or as the user answers; False if there is none."""
    if keep is not None or not plan.has_progress:
        return bool(keep)
    if not may_ask:
        raise HistoryError(
            f"{plan.table}: sinks or pipelines have written since; nothing was changed",
            problem="progress-undecided",
            hint="say what becomes of their progress: --with-progress (their rows come again) or --keep-progress "
            "(they stay out)",
            table=plan.table,
        )
    answer: str = click.prompt(
        "does progress go back, too?", type=click.Choice(["with-progress", "keep-progress"]), err=True
    )
    return answer == "with-progress"


def _confirm(question: str, *, may_ask: bool) -> bool:
    if not may_ask:
        raise HistoryError(
            f"confirmation required, and there is no terminal: {question} nothing was changed",
            hint="add --yes",
            problem="no-terminal",
        )
    return click.confirm(question, err=True)
