"""What compaction would do to a table as it is now: planned by upkeep itself, on the same manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.catalog import Context, Request, Response, as_bad_request
from frazil.console.answers import console_json
from frazil.console.files import EDGES, bucket_of, policy_of
from frazil.console.manifests import reading_slot
from frazil.console.rows import deadline_check

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from frazil.upkeep import CompactionPlan, Group

MOST_GROUPS = 50  # in an answer: those that save the most files
MOST_SECONDS = 5.0


def show_compaction(ctx: Context, request: Request) -> Response:
    """The groups of files that a run would rewrite, what would come of each, and the files that it would leave."""
    with reading_slot(request):
        from frazil.console.served import open_table
        from frazil.upkeep import plan_compaction

        hint = "plan it with frazil maintain TABLE --only compact --dry-run"
        check = deadline_check(request, MOST_SECONDS, what="Planning the compaction", hint=hint)
        served = as_bad_request(lambda: open_table(ctx, request, check))
        policy = policy_of(served.table.metadata.properties, str(request.name()))
        plan = as_bad_request(lambda: plan_compaction(served.table, policy, cache=served.manifests))
    return console_json(describe(served.table, plan))


def describe(table: Table, plan: CompactionPlan) -> dict[str, Any]:
    """A plan as plain values; `change` is what it does to each bucket of the histogram of sizes."""
    groups = [_describe_group(table, group, plan.target_bytes) for group in plan.groups[:MOST_GROUPS]]
    return {
        "target_bytes": plan.target_bytes,
        "files_before": plan.files_before,
        "files_after": plan.files_after,
        "bytes": plan.bytes,
        "group_count": len(plan.groups),
        "groups": groups,
        "left": [{"reason": reason, "files": files} for reason, files in sorted(plan.left.items())],
        "change": _change(plan),
    }


def _describe_group(table: Table, group: Group, target_bytes: int) -> dict[str, Any]:
    from frazil.console.stored_values import PartitionTexts

    spec = table.specs().get(group.spec_id)
    partition = ""
    if spec is not None and len(spec.fields) == len(group.partition):
        partition = PartitionTexts(spec, table.schema()).line(group.partition)
    return {
        "partition": partition,
        "older_spec": group.spec_id != table.spec().spec_id,
        "files": len(group.files),
        "files_after": group.files_after(target_bytes),
        "bytes": group.bytes,
        "rows": group.rows,
        "with_deletes": sum(bool(file.deletes) for file in group.files),
    }


def _change(plan: CompactionPlan) -> list[int]:
    """How many data files of each size there are more, or fewer; new files count as equal parts of their group."""
    change = [0] * (len(EDGES) + 1)
    for group in plan.groups:
        for file in group.files:
            change[bucket_of(file.bytes)] -= 1
        files = group.files_after(plan.target_bytes)
        change[bucket_of(group.bytes // files)] += files
    return change
