"""How commands print snapshots, and what they were made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from frazil.units import count, size

if TYPE_CHECKING:
    from frazil.history import LandingFile, LogEntry, OffsetRange, Origins

SHOWN_FILES = 10
SHOWN_LENGTH = 80  # of a value


def describe_entry(entry: LogEntry) -> str:
    """A snapshot in one line: when, what, how much, by whom."""
    from frazil.scan.planning import show_time

    by = f", by {entry.by}" if entry.by else ""
    rows = f"+{entry.added_rows:,} -{entry.removed_rows:,} rows"
    return f"snapshot {entry.snapshot_id} of {show_time(entry.time_ms)} UTC: {entry.operation}, {rows}{by}"


def describe_origins(origins: Origins) -> Iterator[str]:
    """What a snapshot's rows were made from, a line each."""
    if origins.run is not None:
        started = f", started at {origins.run.started_at:%Y-%m-%d %H:%M:%S} UTC" if origins.run.started_at else ""
        yield f"pipeline {origins.run.pipeline}, run {origins.run.run_id}{started}"
    yield from _describe_files(origins.files)
    if origins.run is not None and origins.run.files and not origins.files:
        yield f"{count(origins.run.files, 'landing file')}, which the ledger does not list any more"
    if origins.part is not None and origins.run is None:
        yield f"sink part {origins.part}, commit {origins.commit}"
    yield from (describe_offsets(offsets) for offsets in origins.offsets)
    if origins.replayed is not None:
        yield f"{count(origins.replayed, 'row')} from quarantine"


def _describe_files(files: Sequence[LandingFile]) -> Iterator[str]:
    """The landing files of a run; those that the row's line was found in, if it was."""
    matches = [file for file in files if file.lines]
    for file in matches:
        lines = ", ".join(map(str, file.lines))
        what = "row" if ".parquet" in file.path else "line"
        yield f"landing file {file.path} ({size(file.size)}), {what}{'s' * (len(file.lines) > 1)} {lines}"
    if matches:
        return
    if len(files) > 1:
        yield f"one of {count(len(files), 'landing file')}:"
    indent = "  " if len(files) > 1 else "landing file "
    yield from (f"{indent}{file.path} ({size(file.size)})" for file in files[:SHOWN_FILES])
    if hidden := max(len(files) - SHOWN_FILES, 0):
        yield f"  ... and {hidden:,} more"


def describe_offsets(offsets: OffsetRange) -> str:
    """
    >>> from frazil.history import OffsetRange
    >>> describe_offsets(OffsetRange("uplink@Xf3k9aQ2/0", 120, 180)), describe_offsets(OffsetRange("0", None, 5))
    ('source partition uplink/0, offsets 120 to 179', 'source partition 0, offsets up to 4')
    """
    start = "up" if offsets.start is None else f"{offsets.start}"
    return f"source partition {offsets.partition}, offsets {start} to {offsets.end - 1}"


def describe_values(values: Mapping[str, Any]) -> str:
    """A row in one line; long values are cut short.

    >>> describe_values({"id": 7, "note": "x" * 100})[:12]
    'id=7, note=x'
    """
    shown = ((name, str(value)) for name, value in values.items())
    return ", ".join(
        f"{name}={text if len(text) <= SHOWN_LENGTH else text[:SHOWN_LENGTH] + '...'}" for name, text in shown
    )


def origins_as_json(origins: Origins) -> dict[str, Any]:
    """The same for programs."""
    offsets = [{**asdict(offsets), "partition": offsets.partition} for offsets in origins.offsets]
    return {**asdict(origins), "offsets": offsets}
