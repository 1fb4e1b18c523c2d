"""Kafka on loopback: one node in KRaft mode, broker and controller in one process."""

from __future__ import annotations

import base64
import socket
import struct
import subprocess
import uuid
from pathlib import Path
from typing import ClassVar

from frazil.artifacts import JavaNeed, describe, find_java, jars_folder, resolve_jars
from frazil.errors import ServiceError
from frazil.local_stack import write_private
from frazil.processes import Launch
from frazil.services import ports
from frazil.services.service import Report, Service, silent

VERSION = "4.3.1"
# Without the binding of log4j Kafka runs and logs nothing.
JARS = (f"org.apache.kafka:kafka_2.13:{VERSION}", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4")
JARS_BYTES = 47_600_000  # what a cold download brings, for the progress bar's end
_HEAP = ("-Xms128m", "-Xmx512m", "-XX:+ExitOnOutOfMemoryError")


class Kafka(Service):
    """The broker. Topics are made on first use, with one partition unless a client asks for more."""

    name = "kafka"
    extra_ports: ClassVar[tuple[str, ...]] = ("controller",)
    min_free_bytes = 256 * 1024 * 1024

    @property
    def endpoint(self) -> str:
        """What clients call the bootstrap server."""
        return f"{ports.HOST}:{self.port}"

    def version(self) -> str:
        return VERSION

    def prepare(self, report: Report = silent) -> None:
        super().prepare(report)
        resolve_jars(
            JARS,
            transitive=True,
            ivy_settings=self.settings.spark.ivy_settings,
            total_bytes=JARS_BYTES,
            on_progress=lambda progress: report(describe(progress)),
        )
        find_java(JavaNeed.KAFKA, on_progress=lambda progress: report(describe(progress)))
        if not (self.data / "meta.properties").exists():
            report("formatting the data folder")
            self._format()

    def launch(self) -> Launch:
        config, logging = self.folder / "server.properties", self.folder / "log4j2.properties"
        files = {
            config: server_properties(self.data, port=self.port, controller_port=self.extra_port("controller")),
            logging: _LOGGING,
        }
        argv = [*self._java(), f"-Dlog4j2.configurationFile={logging}", "kafka.Kafka", str(config)]
        return Launch(argv, files=files, cwd=self.folder)

    def ready(self) -> bool:
        """The broker lists itself in its metadata: it takes requests, and clients would find it."""
        return count_brokers(self.port) > 0

    def _java(self) -> list[str]:
        java = find_java(JavaNeed.KAFKA)
        return [
            str(java.executable),
            *_HEAP,
            "-Djava.awt.headless=true",
            "-cp",
            f"{jars_folder(JARS, transitive=True)}/*",
        ]

    def _format(self) -> None:
        """The data folder gets the identity without which the broker does not start."""
        config = self.folder / "format.properties"
        # The controller's port is chosen later, and the format does not keep it.
        write_private(config, server_properties(self.data, port=self.port, controller_port=1))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        command = [*self._java(), "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", f"--config={config}"]
        with self.log.open("ab") as log:
            code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False).returncode
        config.unlink()
        if code != 0:
            hint = (
                f"see that {self.data} can be written to; if what is in it can go: frazil down --purge, then frazil up"
            )
            raise ServiceError(
                self.name, f"could not format {self.data}", hint=hint, log=self.log, log_tail=self.log_tail()
            )


def server_properties(data: Path, *, port: int, controller_port: int) -> str:
    """The broker's configuration: every internal topic has one replica, since there is one node.

    >>> print(server_properties(Path("/d"), port=9092, controller_port=9093).splitlines()[3])
    listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
    """
    properties = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{ports.HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{ports.HOST}:{port},CONTROLLER://{ports.HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{ports.HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": data,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 4,
        "group.initial.rebalance.delay.ms": 0,
        # A killed broker may come back only after its old session ran out: 9 s by default.
        "broker.session.timeout.ms": 5000,
        "broker.heartbeat.interval.ms": 1000,
    }
    return "".join(f"{key}={value}\n" for key, value in properties.items())


_LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c{1})%n
"""


def count_brokers(port: int, *, seconds: float = ports.ANSWER_SECONDS) -> int:
    """The number of brokers that the one on `port` knows of, by a Metadata request (version 1, no topics); 0 if it does
    not answer.

    Asked over a plain socket, so that the stack needs no Kafka client. https://kafka.apache.org/protocol (Metadata API,
    key 3)
    """
    client = b"frazil"
    body = struct.pack(">hhih", 3, 1, 1, len(client)) + client + struct.pack(">i", 0)
    try:
        with socket.create_connection((ports.HOST, port), timeout=seconds) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            head = connection.recv(12, socket.MSG_WAITALL)  # length, correlation id, number of brokers
    except OSError:
        return 0
    length, correlation, brokers = struct.unpack(">iii", head) if len(head) == 12 else (0, 0, 0)
    return int(brokers) if correlation == 1 and length >= 12 else 0
