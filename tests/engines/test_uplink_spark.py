"""The uplink example on Spark, with the live Kafka, catalog and SeaweedFS: the rows of Bytewax, once, however often it
is killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from frazil.sinks.audit import audit
from tests.conftest import Campaign
from tests.engines.test_uplink import EXAMPLE, TABLE, Stream, make_table, stream
from tests.kit.stack_lake import environment

__all__ = ["stream"]  # the fixture
pytestmark = pytest.mark.usefixtures("live_stack")


@contextmanager
def running(stream: Stream, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """The example as a user starts it; killed with its JVM and its workers, if it still runs when the block ends."""
    own = {
        "BROKERS": stream.brokers,
        "TOPIC": stream.topic,
        "CHECKPOINT": str(stream.folder / "checkpoint"),
        **settings,
    }
    with (stream.folder / "spark.log").open("ab") as log:
        command = [sys.executable, str(EXAMPLE / "on_spark.py")]
        environ = environment(stream.project) | own
        process = subprocess.Popen(
            command, cwd=stream.folder, env=environ, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def finish(stream: Stream, **settings: str) -> None:
    """Runs the example to the end of the topic."""
    with running(stream, FOLLOW="no", **settings) as process:
        assert process.wait(600) == 0, (stream.folder / "spark.log").read_text()[-3000:]


def rows(stream: Stream) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = stream.catalog.load_table(TABLE).scan().to_arrow().to_pylist()
    return sorted(result, key=str)


def wait_for_commits(stream: Stream, wanted: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 600
    while stream.commits() < wanted and process.poll() is None:
        assert time.monotonic() < deadline, (stream.folder / "spark.log").read_text()[-3000:]
        time.sleep(0.02)


@pytest.mark.requirement("sink.uplink")
@pytest.mark.requirement("sink.exactly-once")
@pytest.mark.requirement("spark.stream")
@pytest.mark.soak  # streams that are killed run in every `make test`: test_stream_kills
@pytest.mark.timeout(1500)  # two Spark sessions and Bytewax, on a machine that may be busy
def test_spark_killed_and_without_its_checkpoint_makes_the_same_rows_as_bytewax(
    stream: Stream, campaign: Campaign
) -> None:
    count, chance = campaign.size(short=4000, full=200_000), campaign.random()
    stream.create_topic(2)
    stream.send(count)
    stream.finish()
    by_bytewax = rows(stream)
    stream.catalog.purge_table(TABLE)
    make_table(stream.catalog)
    for number in range(campaign.size(short=1, full=20)):
        with running(stream, FOLLOW="no", BATCH_SIZE=str(count // chance.randrange(10, 40))) as process:
            wait_for_commits(stream, stream.commits() + chance.randrange(2, 5), process)
            time.sleep(chance.random() / 5)
        if number % 2 == 0:
            shutil.rmtree(stream.folder / "checkpoint")  # the table alone knows then
    finish(stream)
    assert rows(stream) == by_bytewax
    assert len(by_bytewax) == count
    assert audit(stream.catalog.load_table(TABLE).metadata).problems == ()
