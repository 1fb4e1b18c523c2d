"""The driver of the uplink stream is killed (-9) at random moments, the folder of its state goes, snapshots expire:
every id is in once.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from examples.uplink.messages import make_messages, message_id, message_name, send
from frazil.client import FrazilCatalog
from frazil.project import load_project
from frazil.tables.apply import apply_steps, plan
from tests.conftest import Campaign
from tests.kit.stack import Project
from tests.kit.stack_lake import connection, environment

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/uplink"
TABLE, ASIDE = "lakehouse.uplink", "lakehouse.uplink__quarantine"
PARTITIONS, BATCHES = 3, 4  # batches of what comes between two kills
MOST_CALLS = 24  # to the catalog, for these batches
LONGEST_WAIT_SECONDS = 5.0
# Some of the drivers audit their batches on a branch before main has them.
TARGET = "    target=uplink,\n"
AUDITED = TARGET + "    audit=[\"event_timestamp >= timestamp_ntz '2000-01-01'\"] if os.environ.get('AUDIT') else [],\n"


@dataclass
class Uplink:
    """The example with a topic of its own, on the servers of the fault tests."""

    project: Project
    folder: Path
    catalog: FrazilCatalog
    topic: str
    count: int
    kills: int

    @property
    def chunk(self) -> int:
        """How many messages come between two kills."""
        return self.count // (self.kills + 1) + 1

    @property
    def brokers(self) -> str:
        return f"127.0.0.1:{self.project.settings.stack.ports.kafka}"

    def prepare(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        shutil.copytree(
            EXAMPLE, self.folder, ignore=shutil.ignore_patterns(".frazil", "__pycache__"), dirs_exist_ok=True
        )
        client = AdminClient({"bootstrap.servers": self.brokers})  # it must live until the topic is there
        (done,) = client.create_topics([NewTopic(self.topic, PARTITIONS)]).values()
        done.result(120)
        declared = (self.folder / "lakehouse.py").read_text()
        assert declared.count(TARGET) == 1
        (self.folder / "lakehouse.py").write_text(declared.replace(TARGET, AUDITED))
        for table in load_project(self.folder).tables:
            list(apply_steps(plan(table, self.catalog), self.catalog))

    def send(self, first: int, end: int) -> int:
        """Messages of these numbers are in the topic; one in a hundred cannot be read."""
        return send(self.brokers, self.topic, make_messages(end - first, first=first, bad_share=0.01))

    @contextlib.contextmanager
    def driver(self, *, die_at: int = 0, when: str = "before", audit: bool = False) -> Iterator[subprocess.Popen[str]]:
        """A driver that is ready to begin, in a process group of its own; nothing of it is left at the end."""
        own = {
            "BROKERS": self.brokers,
            "TOPIC": self.topic,
            "BATCH_SIZE": str(self.chunk // BATCHES),
            "PYTHONPATH": str(ROOT),
        }
        own |= {"AUDIT": "yes"} if audit else {}
        command = [sys.executable, "-m", "tests.faults.stream_runner", str(self.folder), str(die_at), when]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with (self.folder / "runner.log").open("a") as log:
            environ = environment(self.project) | own
            process = subprocess.Popen(
                command, **pipes, stderr=log, text=True, start_new_session=True, env=environ, cwd=self.folder
            )  # type: ignore[call-overload]
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the JVM, too
            process.wait(60)
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.stdout.close()

    def begin(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "begin\n", self.log()
        process.stdin.write("go\n")
        process.stdin.flush()

    def log(self) -> str:
        return (self.folder / "runner.log").read_text()[-3000:]

    def kill_once(self, chance: random.Random) -> bool:
        """A driver that is killed at a call to the catalog, or after some time; False if it was done before that."""
        by_call = chance.random() < 0.7
        die_at = chance.randint(1, MOST_CALLS) if by_call else 0
        with self.driver(
            die_at=die_at, when=chance.choice(["before", "after"]), audit=chance.random() < 0.4
        ) as process:
            self.begin(process)
            if not by_call:
                time.sleep(chance.uniform(0, LONGEST_WAIT_SECONDS))
                process.kill()
            process.wait(600)
        assert process.returncode in (0, -signal.SIGKILL), self.log()
        return process.returncode != 0

    def finish(self) -> None:
        with self.driver() as process:
            self.begin(process)
            assert process.wait(3600) == 0, self.log()

    def expire(self) -> None:
        for name in filter(self.catalog.table_exists, (TABLE, ASIDE)):
            table = self.catalog.load_table(name)
            named = {ref.snapshot_id for ref in table.metadata.refs.values()}  # main, and a branch that a kill has left
            old = [snapshot.snapshot_id for snapshot in table.snapshots() if snapshot.snapshot_id not in named]
            if old:
                table.maintenance.expire_snapshots().by_ids(old).commit()

    def ids(self, table: str, column: str) -> list[str]:
        rows = self.catalog.load_table(table).scan(selected_fields=(column,)).to_arrow()[column]
        return [message_id(text) for text in rows.to_pylist()]


@pytest.fixture
def uplink(fault_stack: Project, tmp_path: Path, campaign: Campaign) -> Iterator[Uplink]:
    catalog = FrazilCatalog("lake", **connection(fault_stack))
    count, kills = campaign.size(short=8000, full=2_000_000), campaign.size(short=2, full=30)
    uplink = Uplink(fault_stack, tmp_path, catalog, f"uplink-{uuid.uuid4().hex[:8]}", count, kills)
    uplink.prepare()
    yield uplink
    for name in (TABLE, ASIDE, f"{TABLE}__runs"):
        if catalog.table_exists(name):
            catalog.purge_table(name)


@pytest.mark.timeout(0)
@pytest.mark.requirement("spark.stream")
@pytest.mark.requirement("sink.exactly-once")
def test_a_stream_killed_at_random_moments_brings_every_message_in_once(uplink: Uplink, campaign: Campaign) -> None:
    chance, kills = campaign.random(), uplink.kills
    sent = killed = tries = 0
    while killed < kills:
        if sent < uplink.count:
            sent += uplink.send(sent, min(sent + uplink.chunk, uplink.count))
        killed += uplink.kill_once(chance)
        tries += 1
        assert tries <= 3 * kills, f"only {killed} of {tries} drivers were killed before they were done"
        if tries == max(kills // 3, 1):
            shutil.rmtree(uplink.folder / "state", ignore_errors=True)  # the kill may have come before it was made
        if tries == max(kills * 2 // 3, 2):
            uplink.expire()
    uplink.send(sent, uplink.count)
    uplink.finish()
    good, bad = uplink.ids(TABLE, "payload"), uplink.ids(ASIDE, "raw")
    assert sorted(good + bad) == [message_name(number) for number in range(uplink.count)]
    assert 0.005 < len(bad) / uplink.count < 0.02
    command = [sys.executable, "-m", "frazil", "audit", TABLE]
    process = subprocess.run(
        command, cwd=uplink.folder, env=environment(uplink.project), capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
