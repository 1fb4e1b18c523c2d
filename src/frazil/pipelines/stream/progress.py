"""The progress of a stream: lag, rows per second, time of a batch; as a line, as JSON, and as Prometheus reads it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from frazil.metrics import CONTENT_TYPE, Prometheus, serving_pages, use
from frazil.pipelines import report_batch

OUTCOMES = ("inserted", "updated", "deleted", "unchanged", "duplicates")  # of the changes of an upsert
_HELP = {
    "rows_total": ("counter", "Rows written to the table since the stream began."),
    "inserted_total": ("counter", "Of an upsert: changes that added a row."),
    "updated_total": ("counter", "Of an upsert: changes that replaced a row."),
    "deleted_total": ("counter", "Of an upsert: changes that deleted a row."),
    "unchanged_total": ("counter", "Of an upsert: late changes, and deletes of keys that the table did not have."),
    "duplicates_total": ("counter", "Of an upsert: changes with a later one of their key in the same batch."),
    "quarantined_total": ("counter", "Messages or rows quarantined since the stream began."),
    "batches_total": ("counter", "Batches committed since the stream began."),
    "lag_messages": ("gauge", "Messages in the source that the table does not have, at most."),
    "batch_seconds": ("gauge", "How long the last batch took, up to its commit."),
    "batch_rows_per_second": ("gauge", "Rows per second of the last batch."),
    "last_commit_timestamp_seconds": ("gauge", "When the last batch was committed."),
}


@dataclass
class StreamProgress:
    """What a stream has done since it began."""

    pipeline: str
    table: str
    batches: int = 0
    rows: int = 0
    quarantined: int = 0
    lag: int | None = None
    batch_seconds: float = 0.0
    batch_rows: int = 0
    committed_at: float | None = None
    snapshot_id: int | None = None
    accepted_losses: list[str] = field(default_factory=list)
    rows_in: int = 0  # what was read for all of it
    merged: dict[str, int] = field(default_factory=dict)  # of an upsert: what became of the changes, by `OUTCOMES`
    uncounted: int = 0  # changes of merges of which Spark did not say what became of them; they are among `rows`

    def count(
        self,
        rows: int,
        quarantined: int,
        seconds: float,
        snapshot_id: int | None,
        *,
        merged: Mapping[str, int] | None = None,
    ) -> None:
        """Adds a committed batch with its number of rows or changes; `merged` counts what an upsert did with the
        changes.
        """
        self.batches += 1
        self.rows += rows if merged is None else merged["rows"]
        self.rows_in += rows + quarantined
        self.quarantined += quarantined
        if merged is not None:
            self.merged = {name: self.merged.get(name, 0) + merged[name] for name in OUTCOMES}
        self.batch_rows, self.batch_seconds = rows + quarantined, seconds
        self.committed_at, self.snapshot_id = time.time(), snapshot_id or self.snapshot_id
        report_batch(self.pipeline, self.table, rows=rows, quarantined=quarantined, seconds=seconds)

    @property
    def rows_per_second(self) -> float:
        return self.batch_rows / self.batch_seconds if self.batch_seconds else 0.0

    def line(self) -> str:
        """All of it in a line.

        >>> StreamProgress("uplink", "l.uplink", 3, 1200, 4, 0, 2.0, 500).line()
        'uplink: batch 3, 1,200 rows, 4 quarantined, 250 rows/s, 2.0 s a batch, lag 0'
        >>> outcomes = {"inserted": 900, "updated": 300, "deleted": 2, "unchanged": 1, "duplicates": 0}
        >>> StreamProgress("crm", "l.crm", 3, 1200, 4, 0, 2.0, 500, merged=outcomes).line()
        'crm: batch 3, 900 inserted, 300 updated, 2 deleted, 1 unchanged, 0 duplicates, 4 quarantined, 250 rows/s, 2.0 s a batch, lag 0'
        """  # noqa: E501
        behind = "" if self.lag is None else f", lag {self.lag:,}"
        speed = f"{self.rows_per_second:,.0f} rows/s, {self.batch_seconds:.1f} s a batch"
        return (
            f"{self.pipeline}: batch {self.batches:,}, {self.outcome()}, {self.quarantined:,} quarantined, "
            f"{speed}{behind}"
        )

    def outcome(self) -> str:
        """What became of the rows that are not quarantined.

        >>> StreamProgress("uplink", "l.uplink", rows=1200).outcome()
        '1,200 rows'
        >>> StreamProgress("crm", "l.crm", rows=6, merged={"inserted": 1, "updated": 2, "deleted": 0}, uncounted=3).outcome()
        '1 inserted, 2 updated, 0 deleted, 3 changes whose outcome Spark did not report'
        """  # noqa: E501
        counts = [f"{count:,} {name}" for name, count in self.merged.items()]
        if self.uncounted:
            counts.append(f"{self.uncounted:,} changes whose outcome Spark did not report")
        return ", ".join(counts) or f"{self.rows:,} rows"

    def render(self) -> str:
        """Prometheus' text format."""
        values = {
            "rows_total": self.rows,
            **{f"{name}_total": self.merged.get(name) for name in OUTCOMES},
            "quarantined_total": self.quarantined,
            "batches_total": self.batches,
            "lag_messages": self.lag,
            "batch_seconds": self.batch_seconds,
            "batch_rows_per_second": self.rows_per_second,
            "last_commit_timestamp_seconds": self.committed_at,
        }
        lines = []
        for name, (kind, text) in _HELP.items():
            if (value := values[name]) is not None:
                lines += [f"# HELP frazil_stream_{name} {text}", f"# TYPE frazil_stream_{name} {kind}"]
                lines.append(f'frazil_stream_{name}{{pipeline="{self.pipeline}"}} {value:.17g}')
        return "\n".join(lines) + "\n"

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps({**asdict(self), "rows_per_second": round(self.rows_per_second, 1)})

    def save(self, path: Path) -> None:
        """Leaves the progress in a file, for who looks at a stream from outside."""
        draft = path.with_suffix(".draft")
        draft.write_text(self.to_json() + "\n")
        draft.replace(path)


OnChange = Callable[[StreamProgress], None]


def ignore(progress: StreamProgress) -> None:
    """Takes no notice."""


@contextmanager
def serving_metrics(progress: StreamProgress, port: int) -> Iterator[int]:
    """Answers `GET /metrics` on loopback until the block ends; gives the port, which 0 leaves to the system.

    Metrics of the write path are recorded meanwhile, and answered with those of the stream.
    """
    recorded = Prometheus()

    def render() -> str:
        return progress.render() + recorded.render()

    pages = {"/metrics": (render, CONTENT_TYPE), "/progress": (progress.to_json, "application/json")}
    before = use(recorded)
    try:
        with serving_pages(pages, port) as bound:
            yield bound
    finally:
        use(before)
