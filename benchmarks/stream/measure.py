"""Runs the cases in turns and sets them side by side."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.batch.measure import Cost
from benchmarks.report import Figure, Options, compare

MOST_CPU = 1.25  # times what plain Spark takes
WRITERS = ("ours", "plain")


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    messages: int
    batch: int
    rounds: int


FULL, QUICK = Size(2_000_000, 250_000, 3), Size(300_000, 100_000, 1)


def measure_all(options: Options) -> list[Figure]:
    """Both cases in turns, on one topic."""
    from frazil.catalog.embedded import running_catalog
    from frazil.client import connect

    size = QUICK if options.quick else FULL
    with (
        tempfile.TemporaryDirectory(prefix="frazil-bench-") as text,
        running_kafka(Path(text)) as brokers,
        running_catalog() as server,
    ):
        connect(uri=server.uri).create_namespace("bench")
        topic = fill_topic(brokers, size.messages)
        measure: dict[str, list[Cost]] = {writer: [] for writer in WRITERS}
        for _ in range(size.rounds):
            for writer in WRITERS:
                measure[writer].append(_run(writer, Path(text), server.uri, brokers, topic, size.batch))
    ours, plain = (_typical(measure[writer]) for writer in WRITERS)
    assert ours.rows == plain.rows == size.messages
    label, peer = f"{size.messages / 1e6:g}M messages", "plain Structured Streaming, no checks"
    return [
        compare(f"{label}, CPU s", ours.cpu_s, plain.cpu_s, peer, goal=1 / MOST_CPU, less_is_better=True),
        compare(f"{label}, events/s", size.messages / ours.wall_s, size.messages / plain.wall_s, peer),
        compare(f"{label}, peak MB", ours.peak_mb, plain.peak_mb, peer, less_is_better=True),
    ]


@contextmanager
def running_kafka(folder: Path) -> Iterator[str]:
    """A broker of the benchmark's own."""
    from frazil.config import load_settings
    from frazil.services import ports
    from frazil.services.kafka import Kafka

    flags = {"stack.folder": str(folder / "stack"), "stack.ports.kafka": str(ports.free_port())}
    service = Kafka(load_settings(flags=flags, environ={}, folder=folder))
    service.start()
    try:
        yield service.endpoint
    finally:
        service.stop()


def fill_topic(brokers: str, count: int) -> str:
    """The name of a topic of two partitions with so many uplink messages; one in a hundred cannot be read."""
    from confluent_kafka.admin import AdminClient, NewTopic

    from examples.uplink.messages import make_messages, send

    topic = f"uplink-{uuid.uuid4().hex[:8]}"
    client = AdminClient({"bootstrap.servers": brokers})  # it must live until the topic is there
    client.create_topics([NewTopic(topic, 2)])[topic].result(30)
    send(brokers, topic, make_messages(count, bad_share=0.01))
    return topic


def _typical(costs: list[Cost]) -> Cost:
    cpu, wall, peak = (
        statistics.median(getattr(cost, name) for cost in costs) for name in ("cpu_s", "wall_s", "peak_mb")
    )
    return Cost(cpu, wall, peak, costs[0].rows)


def _run(writer: str, folder: Path, uri: str, brokers: str, topic: str, batch: int) -> Cost:
    command = [sys.executable, "-m", "benchmarks.stream.case", writer, str(folder), uri, brokers, topic, str(batch)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{writer} failed:\n{done.stderr[-2000:]}")
    cost = Cost(**json.loads(done.stdout.splitlines()[-1]))
    print(
        f"  {writer:6s} {cost.rows:>10,} rows in: {cost.cpu_s:6.1f} CPU s {cost.wall_s:6.1f} s {cost.peak_mb:6.0f} MB",
        flush=True,
    )
    return cost
