"""How a stream is doing: lag, rows a second, time of a batch; as a line, as JSON, and as Prometheus reads it."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

_HELP = {
    "rows_total": ("counter", "Rows written to the table since the stream began."),
    "quarantined_total": ("counter", "Messages or rows set aside since the stream began."),
    "batches_total": ("counter", "Batches committed since the stream began."),
    "lag_messages": ("gauge", "Messages in the source that the table does not have, at most."),
    "batch_seconds": ("gauge", "How long the last batch took, up to its commit."),
    "batch_rows_per_second": ("gauge", "Rows a second of the last batch."),
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

    def count(self, rows: int, quarantined: int, seconds: float, snapshot_id: int | None) -> None:
        """Adds a batch that is committed."""
        self.batches += 1
        self.rows += rows
        self.quarantined += quarantined
        self.batch_rows, self.batch_seconds = rows + quarantined, seconds
        self.committed_at, self.snapshot_id = time.time(), snapshot_id or self.snapshot_id

    @property
    def rows_per_second(self) -> float:
        return self.batch_rows / self.batch_seconds if self.batch_seconds else 0.0

    def line(self) -> str:
        """All of it in a line.

        >>> StreamProgress("uplink", "l.uplink", 3, 1200, 4, 0, 2.0, 500).line()
        'uplink: batch 3, 1,200 rows, 4 quarantined, 250 rows/s, 2.0 s a batch, lag 0'
        """
        behind = "" if self.lag is None else f", lag {self.lag:,}"
        speed = f"{self.rows_per_second:,.0f} rows/s, {self.batch_seconds:.1f} s a batch"
        return f"{self.pipeline}: batch {self.batches:,}, {self.rows:,} rows, {self.quarantined:,} quarantined, {speed}{behind}"

    def render(self) -> str:
        """Prometheus' text format."""
        values = {
            "rows_total": self.rows,
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
    """Answers `GET /metrics` on loopback until the block ends; gives the port, which 0 leaves to the system."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = {"/metrics": (progress.render, "text/plain; version=0.0.4"), "/progress": (progress.to_json, "application/json")}
            if self.path not in known:
                self.send_error(404)
                return
            render, kind = known[self.path]
            body = render().encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing: the screen belongs to the stream."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True, name="frazil-metrics")
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
