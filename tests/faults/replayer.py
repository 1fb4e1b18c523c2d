"""A replay that is killed, stopped and cut off: the program that its fault tests run in processes of their own."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from typing import Any

from frazil.client import FrazilCatalog
from frazil.errors import CommitUnknown, WriterFenced
from frazil.quarantine.replay import IcebergQuarantine, Rules
from frazil.quarantine.replay_delta import DeltaQuarantine
from frazil.write.commit.publish import RetryPolicy

FENCED = 3
RULES = Rules(checks=("note <> 'lost'",))


@dataclass(frozen=True)
class Replay:
    """What is to be replayed, and what is to happen at the n-th step."""

    kind: str  # iceberg or delta
    place: str  # the address of the catalog, or of the Delta table
    fault: str = ""  # kill, stop, lose reply, lose request
    at_step: int = 0
    broken: str = ""  # a rule to switch off, so that the tests can be seen to fail


@dataclass
class Steps:
    """Counts steps, and lets the fault happen at its turn."""

    job: Replay
    seen: int = 0

    def __call__(self, name: str) -> None:
        self.seen += 1
        if self.job.fault == "kill" and self.seen == self.job.at_step:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.job.fault == "stop" and self.seen == self.job.at_step:
            os.kill(os.getpid(), signal.SIGSTOP)
        due = {"lose reply": "after commit", "lose request": "before commit"}
        if due.get(self.job.fault) == name and self.job.at_step <= self.seen < self.job.at_step + 6:
            raise OSError("unknown outcome") if self.job.kind == "delta" else CommitUnknown("unknown outcome")


def quarantine_of_job(job: Replay, retry: RetryPolicy) -> IcebergQuarantine | DeltaQuarantine:
    if job.kind == "delta":
        return DeltaQuarantine(job.place, retry=retry)
    return IcebergQuarantine(FrazilCatalog("lake", uri=job.place), ("lake", "events"), retry)


def replay(job: Replay) -> None:
    """Replays all that passes."""
    if job.broken:
        _switch_off(job.broken)
    retry = RetryPolicy(give_up_seconds=240, longest_pause_seconds=0.05, on_step=Steps(job))
    try:
        quarantine_of_job(job, retry).replay(RULES)
    except WriterFenced:
        sys.exit(FENCED)


def _switch_off(rule: str) -> None:
    """Removes what makes it exactly once. Only here, in a process that a test has started for this."""
    if rule == "one commit":

        def commit_apart(self: IcebergQuarantine, changes: list[Any], files: Any) -> None:
            for change in changes:
                self.retry.on_step("before commit")
                self.catalog.commit_changes([change])
                self.retry.on_step("after commit")
            files.hand_over()

        IcebergQuarantine._commit = commit_apart  # type: ignore[method-assign]
    elif rule == "plan":
        finish, written = DeltaQuarantine._finish, []
        write = DeltaQuarantine._write_plan

        def write_plan(self: DeltaQuarantine, ids: Any) -> str:
            written.append(write(self, ids))
            return written[-1]

        def finish_own(self: DeltaQuarantine, value: Any) -> None:
            if self._pending(value).plan in written:
                finish(self, value)

        DeltaQuarantine._write_plan = write_plan  # type: ignore[method-assign]
        DeltaQuarantine._finish = finish_own  # type: ignore[method-assign]
        pending = DeltaQuarantine._pending
        DeltaQuarantine._pending = lambda self, item: (  # type: ignore[method-assign, assignment]
            result if (result := pending(self, item)).plan in written else type(result)()
        )
    else:
        raise ValueError(rule)
