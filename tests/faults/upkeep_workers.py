"""Workers of upkeep and readers as processes of their own, which tests kill, pause and let go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frazil.processes import wait_until
from tests.faults.upkeep_writers import Meeting, expected_ids
from tests.kit.upkeep import make_worker, own_database


@dataclass
class WorkerCommand:
    """`frazil upkeep` in a process of its own; `log` has what it says."""

    log: Path
    uri: str
    database: str
    settings: Mapping[str, object] = field(default_factory=dict)
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> WorkerCommand:
        eager = {"poll_seconds": 0.1, "table_seconds": 0, "quiet_seconds": 0, "share": 1, **self.settings}
        values = {"catalog.uri": self.uri, "server.database": self.database}
        values |= {f"upkeep.{key}": str(value) for key, value in eager.items()}
        command = [sys.executable, "-m", "frazil"]
        command += [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
        with self.log.open("w") as file:
            self.process = subprocess.Popen([*command, "upkeep"], cwd=self.log.parent, stdout=file, stderr=file)
        return self

    def wait_for(self, text: str) -> None:
        """Waits until the worker has said this."""
        assert wait_until(lambda: text in self.said or self.process.poll() is not None, 120)
        assert text in self.said, self.said

    @property
    def said(self) -> str:
        return self.log.read_text()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def maintain_forever(meeting: Meeting, database: str, settings: Mapping[str, Any]) -> None:
    """A worker that is killed sooner or later, or ends with the others."""
    with own_database(database) as opened:
        worker = make_worker(opened, meeting.properties, **settings)
        worker.on_step = lambda _: worker.stop() if meeting.is_over() else None
        while not meeting.is_over():
            worker.run(once=True)


def maintain_and_pause(meeting: Meeting, database: str, settings: Mapping[str, Any], step: str) -> None:
    """A worker whose process stops (SIGSTOP) at a step of its first commit, renewals of its lease included."""
    with own_database(database) as opened:
        worker, pauses = make_worker(opened, meeting.properties, **settings), [step]

        def on_step(name: str) -> None:
            if name in pauses:
                pauses.clear()
                os.kill(os.getpid(), signal.SIGSTOP)

        worker.on_step = on_step
        worker.run(once=True)


def read_forever(meeting: Meeting) -> None:
    """A reader: each time it reads all rows of the newest snapshot, which must be those of its progress."""
    catalog = meeting.catalog()
    while not meeting.is_over():
        table = catalog.load_table(meeting.name)
        head = table.current_snapshot()
        if head is not None:
            rows = sorted(table.scan(snapshot_id=head.snapshot_id).to_arrow()["id"].to_pylist())
            assert rows == expected_ids(table.metadata, head)
