"""What can happen to a writer, its table and its servers: each fault is a function of a trial, and leaves it ready for
the next one.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.faults.sink_lake import WrittenLake, with_place
from tests.faults.sink_processes import end_of, let_go_on, run, start, wait_until_stopped, wake, zombie
from tests.faults.sink_stack import CATALOG, STORE, Servers
from tests.faults.sink_topic import Topic
from tests.faults.sink_writer import FAILED, FENCED, Job, expected_ids
from tests.kit.lossy_proxy import lossy_proxy
from tests.kit.stack_lake import s3_endpoint

ROWS_A_ROUND = 24
MOST_STEPS = 25
KILLED = -9


@dataclass
class Trial:
    """One table and one topic, and all that has happened to them so far."""

    servers: Servers
    lake: WrittenLake
    topic: Topic
    chance: random.Random
    folder: Path
    down_seconds: float = 2.0  # how long a server is away
    lost: set[int] = field(default_factory=set)  # ids that a rollback without the progress has taken out for good

    def __post_init__(self) -> None:
        self.state = self.new_state()
        # how long a writer takes; corrected as soon as one is seen
        self.usual_seconds = 8.0 if self.lake.job.host == "spark" else 1.5

    def new_state(self) -> str:
        """An empty place for what the host remembers of itself: as if the old one were lost."""
        folder = self.folder / uuid.uuid4().hex[:8]
        folder.mkdir(parents=True)
        if self.lake.job.host == "bytewax":
            from bytewax.recovery import init_db_dir

            init_db_dir(folder, 1)
        return str(folder)

    def wait_a_while(self) -> None:
        """As long as a writer takes for its job, or less."""
        time.sleep(self.chance.uniform(0, self.usual_seconds))

    def next_job(self, fault: str = "", **changes: Any) -> Job:
        """More rows arrive; the job that is to bring them in."""
        self.topic.send(self.topic.sent + ROWS_A_ROUND)
        chance = self.chance
        sizes = {
            "at_step": chance.randint(1, MOST_STEPS),
            "batch_rows": chance.randint(1, 17),
            "flush_rows": chance.randint(4, 40),
        }
        return replace(self.lake.job, **{"state": self.state, "fault": fault, **sizes, **changes})

    def check(self) -> None:
        """No row is in twice, in the wrong table, or in though it was taken out; the audit agrees."""
        for ids, possible, out in zip(self.lake.ids(), expected_ids(self.topic.sent), (self.lost, set()), strict=True):
            assert len(ids) == len(set(ids)), f"in twice: {sorted({number for number in ids if ids.count(number) > 1})}"
            assert set(ids) <= set(possible) - out
        assert self.lake.problems() == ()

    def finish(self) -> None:
        """A last writer without a fault; then every row is in exactly once."""
        assert run(replace(self.lake.job, state=self.state)) == 0
        good, quarantined = expected_ids(self.topic.sent)
        assert self.lake.ids() == (sorted(set(good) - self.lost), quarantined)
        assert self.lake.problems() == ()


def a_kill_at_a_step(trial: Trial) -> None:
    assert run(trial.next_job("kill")) in (0, KILLED)


def a_kill_at_any_time(trial: Trial) -> None:
    """Also in the midst of a file, or of a request."""
    writer = start(trial.next_job())
    trial.wait_a_while()
    writer.kill()
    writer.join()


def a_zombie_that_wakes_after_a_take_over(trial: Trial) -> None:
    job = trial.next_job("stop")
    trial.state = trial.new_state()  # the old one may be locked by the sleeper
    zombie(job, replace(job, fault="", state=trial.state))


def an_expiry_between_crash_and_resume(trial: Trial) -> None:
    # after the take-over: the audit needs a commit of ours
    job = trial.next_job("kill", at_step=trial.chance.randint(7, MOST_STEPS))
    assert run(job) in (0, KILLED)
    trial.lake.expire()


def a_lost_answer(trial: Trial) -> None:
    began, job = time.monotonic(), trial.next_job(trial.chance.choice(["lose reply", "lose request"]))
    assert run(job) == 0
    trial.usual_seconds = time.monotonic() - began


def a_loss_on_the_wire(trial: Trial) -> None:
    """Requests and replies vanish on their way to the catalog or, for Delta, to the store."""
    job, methods = (
        trial.next_job(),
        [b"POST ", b"GET "] if trial.lake.job.kind == "iceberg" else [b"PUT ", b"PUT ", b"GET "],
    )
    target = job.place if job.kind == "iceberg" else s3_endpoint(trial.servers.project)
    with lossy_proxy(target) as proxy:
        for _ in range(trial.chance.randint(1, 4)):
            trial.chance.choice([proxy.lose_reply, proxy.lose_request])(trial.chance.choice(methods))
        assert run(with_place(job, proxy.uri)) in (0, FAILED)  # one that loses its very first question does not begin


def strangers_that_commit(trial: Trial) -> None:
    writer = start(trial.next_job())
    for _ in range(trial.chance.randint(3, 20)):
        trial.lake.disturb()
        writer.join(trial.chance.uniform(0, 0.3))
    assert end_of(writer) == 0


def rivals_for_the_same_part(trial: Trial) -> None:
    """Two writers start at once: for each part one of them wins."""
    job = trial.next_job()
    other = replace(job, state=trial.new_state(), flush_rows=job.flush_rows + 3)
    writers = [start(job), start(other)]
    assert {end_of(writer) for writer in writers} <= {0, FENCED}
    trial.state = trial.chance.choice([job.state, other.state])


def _a_rollback(trial: Trial, *, with_progress: bool) -> None:
    """A writer sleeps while the table goes back, and goes on after it: fenced if the progress went back, too."""
    writer = start(trial.next_job("stop", at_step=trial.chance.randint(5, MOST_STEPS)))
    stopped = wait_until_stopped(writer)
    before = set(trial.lake.table_ids())
    undone = trial.lake.roll_back(trial.chance, with_progress=with_progress)
    if undone is not None and undone.position is not None:
        passed = {
            value for value, (source, offset) in trial.topic.offsets.items() if offset < undone.position.get(source, 0)
        }
        trial.lost = (passed & set(expected_ids(trial.topic.sent)[0])) - undone.ids
    elif undone is not None:
        trial.lost = (trial.lost | before) - undone.ids
    # What Bytewax remembers is ahead of the table after a rollback with the progress: Frazil refuses it, and asks for a
    # new store.
    assert wake(writer) in ((0, FENCED, *([FAILED] if with_progress else [])) if stopped else (0,))
    if with_progress:
        trial.state = trial.new_state()


def a_rollback_with_the_progress(trial: Trial) -> None:
    _a_rollback(trial, with_progress=True)


def a_rollback_without_the_progress(trial: Trial) -> None:
    _a_rollback(trial, with_progress=False)


def a_store_that_goes_away(trial: Trial) -> None:
    """At any time, so in mid-write too; the writer waits or fails, and nothing is lost."""
    writer = start(trial.next_job())
    trial.wait_a_while()
    with trial.servers.away(STORE, frozen=trial.chance.random() < 0.5):
        time.sleep(trial.down_seconds)
    assert end_of(writer) in (0, FAILED)


def a_catalog_that_goes_away(trial: Trial) -> None:
    """A writer that has begun waits for it. Delta has no catalog: there it is the store."""
    if trial.lake.job.kind == "delta":
        a_store_that_goes_away(trial)
        return
    writer = start(trial.next_job("stop", at_step=trial.chance.randint(4, 9)))
    wait_until_stopped(writer)
    with trial.servers.away(CATALOG):
        let_go_on(writer)
        time.sleep(trial.down_seconds)
    assert end_of(writer) == 0


def a_catalog_that_is_away_for_a_minute(trial: Trial) -> None:
    trial.down_seconds, usual = 60, trial.down_seconds
    a_catalog_that_goes_away(trial)
    trial.down_seconds = usual


def sees_a_row_twice(lake: WrittenLake, job: Job, successor: Job, *, at_step: int) -> bool:
    """Whether a zombie that wakes just before it commits, in a build that lacks a rule, shows. Its first rows are all
    good.
    """
    sleeper = start(replace(job, fault="stop", step_name="before commit", at_step=at_step, batch_rows=5, flush_rows=5))
    stopped = wait_until_stopped(sleeper)
    assert run(successor) == 0
    if stopped:
        wake(sleeper)
    table_ids = lake.table_ids()
    return len(table_ids) > len(set(table_ids))


Fault = Callable[[Trial], None]
FAULTS: tuple[Fault, ...] = (
    a_kill_at_a_step,
    a_zombie_that_wakes_after_a_take_over,
    a_rollback_with_the_progress,
    a_loss_on_the_wire,
    a_catalog_that_goes_away,
    rivals_for_the_same_part,
    a_kill_at_any_time,
    a_rollback_without_the_progress,
    an_expiry_between_crash_and_resume,
    a_store_that_goes_away,
    strangers_that_commit,
    a_lost_answer,
)
