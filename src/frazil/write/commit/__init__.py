"""Commits: progress, snapshots, manifests, and publishing them exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.write.commit.builder import (
        Counts,
        Draft,
        at_snapshot,
        check_branch,
        count_added,
        count_dropped,
        count_written,
        drop_ref,
        guards,
        head,
        move_ref,
        set_properties,
    )
    from frazil.write.commit.delete_files import (
        POSITION_SCHEMA,
        DeletedRows,
        PositionFile,
        write_position_deletes,
        write_position_file,
        write_vectors,
    )
    from frazil.write.commit.entries import as_added, as_existing, file_key, read_entries, read_files, write_entries
    from frazil.write.commit.events import report_commit, report_failure, report_repeat, report_retry, report_takeover
    from frazil.write.commit.format3 import with_lineage
    from frazil.write.commit.manifests import drop_files, merge_small, portions, read_list, write_added, write_by_spec
    from frazil.write.commit.part_counts import Parts, highest_offsets, part_name, take_over_others
    from frazil.write.commit.progress import (
        MAIN,
        Claim,
        InputState,
        Mark,
        PartProgress,
        PlannedTakeover,
        Progress,
        apply_claim,
        merge,
        progress_at,
        property_key,
        read_progress,
        take_over,
    )
    from frazil.write.commit.publish import (
        CommitCatalog,
        Committed,
        Overtaken,
        Publication,
        Published,
        Publisher,
        RetryPolicy,
        SingleTableCatalog,
        ignore,
        is_lasting,
        load_existing,
        publish_together,
        until_decided,
    )
    from frazil.write.commit.publish import Patience as Patience
    from frazil.write.commit.quarantine_table import (
        SCHEMA,
        OpenQuarantine,
        QuarantinedRow,
        QuarantinedRows,
        as_arrow,
        exact_position,
        position_in_batch,
        quarantine_of,
    )
    from frazil.write.commit.replace import Overwrite, Replace
    from frazil.write.commit.rewrite import Rewrite
    from frazil.write.commit.rollback import roll_back
    from frazil.write.commit.snapshots import Append, Move, Publishable
    from frazil.write.commit.totals import count_marked

__all__ = [
    "MAIN",
    "POSITION_SCHEMA",
    "SCHEMA",
    "Append",
    "Claim",
    "CommitCatalog",
    "Committed",
    "Counts",
    "DeletedRows",
    "Draft",
    "InputState",
    "Mark",
    "Move",
    "OpenQuarantine",
    "Overtaken",
    "Overwrite",
    "PartProgress",
    "Parts",
    "PlannedTakeover",
    "PositionFile",
    "Progress",
    "Publication",
    "Publishable",
    "Published",
    "Publisher",
    "QuarantinedRow",
    "QuarantinedRows",
    "Replace",
    "RetryPolicy",
    "Rewrite",
    "SingleTableCatalog",
    "apply_claim",
    "as_added",
    "as_arrow",
    "as_existing",
    "at_snapshot",
    "check_branch",
    "count_added",
    "count_dropped",
    "count_marked",
    "count_written",
    "drop_files",
    "drop_ref",
    "exact_position",
    "file_key",
    "guards",
    "head",
    "highest_offsets",
    "ignore",
    "is_lasting",
    "load_existing",
    "merge",
    "merge_small",
    "move_ref",
    "part_name",
    "portions",
    "position_in_batch",
    "progress_at",
    "property_key",
    "publish_together",
    "quarantine_of",
    "read_entries",
    "read_files",
    "read_list",
    "read_progress",
    "report_commit",
    "report_failure",
    "report_repeat",
    "report_retry",
    "report_takeover",
    "roll_back",
    "set_properties",
    "take_over",
    "take_over_others",
    "until_decided",
    "with_lineage",
    "write_added",
    "write_by_spec",
    "write_entries",
    "write_position_deletes",
    "write_position_file",
    "write_vectors",
]

__getattr__ = lazy_names(__name__)
