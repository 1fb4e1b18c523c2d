"""The servers of a campaign: SeaweedFS, Kafka and the catalog, each of which can be struck down and got up again."""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace

from frazil.services.stack import Stack
from tests.faults.sink_lake import WrittenLake, make_lake
from tests.faults.sink_topic import Topic
from tests.faults.sink_writer import Job
from tests.kit.stack import Project
from tests.kit.stack_lake import connection

STORE, CATALOG = "object-store", "catalog"


@dataclass(frozen=True)
class Servers:
    """The servers of a project."""

    project: Project

    @property
    def brokers(self) -> str:
        return f"127.0.0.1:{self.project.settings.stack.ports.kafka}"

    def send_signal(self, service: str, number: signal.Signals) -> None:
        os.killpg(Stack(self.project.settings).service(service).state()["pid"], number)  # each leads a group of its own

    @contextlib.contextmanager
    def away(self, service: str, *, frozen: bool = False) -> Iterator[None]:
        """The service is dead inside the block, and runs again after it; or it only does not move."""
        self.send_signal(service, signal.SIGSTOP if frozen else signal.SIGKILL)
        try:
            yield
        finally:
            if frozen:
                self.send_signal(service, signal.SIGCONT)
            else:
                Stack(self.project.settings).service(service).start()

    def new_topic(self) -> Topic:
        topic = Topic(self.brokers)
        topic.create()
        return topic

    def new_lake(self, host: str, kind: str, topic: Topic) -> WrittenLake:
        """A table on SeaweedFS for the rows of the topic."""
        keys, name = connection(self.project), f"t{uuid.uuid4().hex[:8]}"
        if kind == "iceberg":
            job = Job(kind, keys["uri"], 0, table=f"faults.{name}", connection=keys)
        else:
            job = Job(kind, f"{keys['warehouse']}delta/{name}", 0, connection=storage_options(keys))
        job = replace(job, host=host, brokers=self.brokers, topic=topic.name)
        return make_lake(job, ["bucket(2, id)"])


def storage_options(keys: dict[str, str]) -> dict[str, str]:
    """How delta-rs reaches the store."""
    return {
        "AWS_ENDPOINT_URL": keys["s3.endpoint"],
        "AWS_ACCESS_KEY_ID": keys["s3.access-key-id"],
        "AWS_SECRET_ACCESS_KEY": keys["s3.secret-access-key"],
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
