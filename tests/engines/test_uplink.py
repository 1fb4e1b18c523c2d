"""The uplink example on Bytewax, with the live Kafka, catalog and SeaweedFS: every message is a row, once, however
often it is killed.
"""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from examples.uplink.events import flatten
from examples.uplink.messages import make_messages, message_id, message_name, send
from frazil.client import FrazilCatalog
from frazil.project import load_project
from frazil.tables.apply import apply_steps, plan
from tests.conftest import Campaign
from tests.kit.stack import Project
from tests.kit.stack_lake import connection, environment

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/uplink"
TABLE = "lakehouse.uplink"


@dataclass
class Stream:
    """A topic of its own, the example's table, and the flow between them."""

    project: Project
    folder: Path
    catalog: FrazilCatalog
    topic: str = field(default_factory=lambda: f"uplink-{uuid.uuid4().hex[:8]}")

    @property
    def brokers(self) -> str:
        return f"127.0.0.1:{self.project.settings.stack.ports.kafka}"

    def create_topic(self, partitions: int) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        client = AdminClient({"bootstrap.servers": self.brokers})
        (done,) = client.create_topics([NewTopic(self.topic, partitions)]).values()
        done.result(120)

    def send(self, count: int, *, first: int = 0) -> None:
        assert send(self.brokers, self.topic, make_messages(count, first=first)) == count

    @contextmanager
    def running(self, *, recovery: str = "recovery", **settings: str) -> Iterator[subprocess.Popen[bytes]]:
        """The flow as a user starts it; killed, if it still runs when the block ends."""
        folder = self.folder / recovery
        if not folder.exists():
            folder.mkdir()
            subprocess.run([sys.executable, "-m", "bytewax.recovery", str(folder), "1"], check=True)
        command = [sys.executable, "-m", "bytewax.run", "flow:flow", "-r", str(folder), "-s", "1", "-b", "0", "-w", "2"]
        environ = environment(self.project) | {"BROKERS": self.brokers, "TOPIC": self.topic, **settings}
        with (self.folder / "flow.log").open("ab") as log:
            process = subprocess.Popen(command, cwd=EXAMPLE, env=environ, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def finish(self, **settings: str) -> None:
        """Runs the flow to the end of the topic."""
        with self.running(FOLLOW="no", **settings) as process:
            assert process.wait(400) == 0, (self.folder / "flow.log").read_text()[-3000:]

    def commits(self) -> int:
        return len(self.catalog.load_table(TABLE).snapshots())

    def wait_for_commits(self, more: int, process: subprocess.Popen[bytes]) -> None:
        """Waits until the flow has made some commits."""
        wanted, deadline = self.commits() + more, time.monotonic() + 240
        while self.commits() < wanted and process.poll() is None:
            assert time.monotonic() < deadline, (self.folder / "flow.log").read_text()[-3000:]
            time.sleep(0.02)

    def ids(self) -> list[str]:
        rows = self.catalog.load_table(TABLE).scan(selected_fields=("payload", "raw")).to_arrow().to_pylist()
        return sorted(message_id(row["payload"] or row["raw"]) for row in rows)


def make_table(catalog: FrazilCatalog) -> None:
    for table in load_project(EXAMPLE).tables:
        list(apply_steps(plan(table, catalog), catalog))


@pytest.fixture
def stream(live_stack: Project, tmp_path: Path) -> Iterator[Stream]:
    catalog = FrazilCatalog("lake", **connection(live_stack))
    make_table(catalog)
    yield Stream(live_stack, tmp_path, catalog)
    catalog.purge_table(TABLE)


@pytest.mark.requirement("sink.uplink")
@pytest.mark.requirement("sink.bytewax")
def test_messages_from_kafka_are_the_rows_of_the_transformation(stream: Stream) -> None:
    stream.create_topic(2)
    stream.send(3000)
    stream.finish()
    table = stream.catalog.load_table(TABLE)
    rows = table.scan().to_arrow().to_pylist()
    wanted = flatten(make_messages(3000)).to_pylist()
    assert sorted(rows, key=str) == sorted(wanted, key=str)
    assert len(table.inspect.partitions()) == 8  # seven days, and those without a time


@pytest.mark.requirement("sink.exactly-once")
@pytest.mark.requirement("sink.parallel")
def test_a_flow_killed_again_and_again_brings_every_message_in_once(stream: Stream, campaign: Campaign) -> None:
    count, chance = campaign.size(short=8000, full=400_000), campaign.random()
    stream.create_topic(3)
    stream.send(count)
    for number in range(campaign.size(short=2, full=30)):
        # Now and then the recovery store is lost, too: the table alone knows then.
        with stream.running(recovery=f"recovery-{number // 2}", BATCH_SIZE=str(chance.randrange(300, 1500))) as process:
            stream.wait_for_commits(chance.randrange(1, 5), process)
            time.sleep(chance.random() / 5)
    assert stream.ids() == sorted(set(stream.ids()))  # so far, none twice
    stream.finish(recovery="recovery-0")
    assert stream.ids() == [message_name(number) for number in range(count)]


@pytest.mark.requirement("sink.bytewax")
def test_a_flow_that_follows_brings_in_what_arrives_later_and_a_drained_one_may_change_its_parts(
    stream: Stream,
) -> None:
    stream.create_topic(2)
    stream.send(500)
    stream.finish(NUM_PARTITIONS="2")
    stream.send(500, first=500)
    stream.finish(NUM_PARTITIONS="3")
    with stream.running(NUM_PARTITIONS="3") as process:
        stream.send(500, first=1000)
        stream.wait_for_commits(2, process)
        deadline = time.monotonic() + 240
        while len(stream.ids()) < 1500 and time.monotonic() < deadline:
            time.sleep(0.1)
    assert stream.ids() == [message_name(number) for number in range(1500)]
