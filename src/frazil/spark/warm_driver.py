"""The process behind `frazil up --with spark`: a Spark driver that commands attach to.

It starts one JVM and listens on loopback. A client sends the secret of the driver's file and gets a session and a Py4J
gateway of its own: a port, a new secret, its own objects and its own callbacks. The connection stays open for as long
as the client lives. When it ends, for whatever reason, the client's jobs and streams are cancelled and its gateway is
closed.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
import signal
import socketserver
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import frazil
from frazil.processes import start_time
from frazil.spark.messages import spark_errors
from frazil.spark.scratch import scratch_conf
from frazil.spark.session import open_session, start_jvm
from frazil.spark.warm_record import SESSION, WarmRecord, digest, fixed_conf, forget_record, jvm_variables
from frazil.spark.worker_daemon import FOLDER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOST = "127.0.0.1"
LINE_BYTES = 4096
HELLO_SECONDS = 5.0
JVM_POLL_SECONDS = 1.0
CATALOG = "spark.sql.catalog."
ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DriverPlan:
    """What a warm Spark is started with, as the service writes it into a file."""

    folder: str  # of its record
    port: int
    project: str  # the folder in which most of its commands run
    conf: dict[str, str]
    jars: tuple[str, ...]  # coordinates
    paths: tuple[str, ...]  # of those jars

    @classmethod
    def read(cls, path: Path) -> DriverPlan:
        return cls(**json.loads(path.read_text()))


class Clients(socketserver.ThreadingTCPServer):
    """Accepts clients, a thread each."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, spark: SparkSession, port: int, secret: str) -> None:
        self.spark, self.secret = spark, secret
        super().__init__((HOST, port), _Client)


class _Client(socketserver.StreamRequestHandler):
    server: Clients

    def handle(self) -> None:
        self.request.settimeout(HELLO_SECONDS)
        try:
            hello = json.loads(self.rfile.readline(LINE_BYTES))
            known = hmac.compare_digest(str(hello["secret"]), self.server.secret)
        except (OSError, ValueError, KeyError, TypeError):
            return
        if not known:
            self._say({"error": "another secret"})
        elif hello.get("attach"):
            self._serve(str(hello["attach"]))
        else:
            self._say({"ready": not self.server.spark.sparkContext._jsc.sc().isStopped()})

    def _serve(self, name: str) -> None:
        """A session for the client, until it hangs up."""
        place = Seat(self.server.spark, tag=f"frazil-{secrets.token_hex(8)}")
        log.info("%s attached (%s)", name, place.tag)
        try:
            self._say({"port": place.port, "secret": place.secret, "tag": place.tag})
            self.request.settimeout(None)
            while self.rfile.readline(LINE_BYTES):  # a line is a Ctrl-C there
                place.cancel()
        except OSError:
            log.info("%s broke off", name)
        finally:
            place.close()
            log.info("%s is gone", name)

    def _say(self, answer: Mapping[str, object]) -> None:
        with suppress(OSError):
            self.wfile.write(json.dumps(answer).encode() + b"\n")


class Seat:
    """A client's place in the JVM: a session, and a gateway that leads to it.

    Threads of a JVM inherit the active session and the tags of their jobs. So both are set by the calling thread, which
    must be new, and hold in every thread that the gateway starts for the client.
    """

    def __init__(self, spark: SparkSession, *, tag: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self.jvm = jvm
        self.context, self.tag, self.secret = spark.sparkContext._jsc.sc(), tag, secrets.token_hex(32)
        self.session = spark._jsparkSession.newSession()
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(self.session)
        self.context.addJobTag(tag)
        builder = getattr(jvm.py4j, "ClientServer$ClientServerBuilder")(self.session)
        loopback = jvm.java.net.InetAddress.getLoopbackAddress()
        builder = builder.javaPort(0).javaAddress(loopback).pythonPort(0).pythonAddress(loopback)
        self.gateway = builder.authToken(self.secret).build()
        self.gateway.startServer()
        self.port: int = self.gateway.getJavaServer().getListeningPort()

    def cancel(self) -> None:
        """No job and no stream of the client goes on."""
        for query in self.session.streams().active():
            with suppress(*spark_errors()):
                query.stop()
        self.context.cancelJobsWithTag(self.tag)
        self.session.interruptAll()

    def close(self) -> None:
        """Nothing of the client is left."""
        try:
            self.cancel()
            self.gateway.shutdown()
            self._close_catalogs()
        except spark_errors():  # the JVM may be ending
            log.info("a client's session could not be closed", exc_info=True)

    def _close_catalogs(self) -> None:
        """Ends the connections and threads of the session's Iceberg catalogs, which Spark keeps open."""
        conf = self.jvm.scala.jdk.javaapi.CollectionConverters.asJava(self.session.conf().getAll())
        manager = self.session.sessionState().catalogManager()
        for key, implementation in dict(conf).items():
            if key.startswith(CATALOG) and "." not in key[len(CATALOG) :] and implementation == ICEBERG_CATALOG:
                manager.catalog(key[len(CATALOG) :]).icebergCatalog().close()


def start_spark(plan: DriverPlan) -> tuple[SparkSession, dict[str, str]]:
    """A Spark with the settings that hold for all sessions, and these settings, as they are compared."""
    from pyspark import SparkContext

    conf = {key: value for key, value in plan.conf.items() if not key.startswith(SESSION)}
    jars = ",".join([*plan.paths, *filter(None, [conf.get("spark.jars")])])
    # A worker that is used again keeps the modules of the project that it has imported, which may have changed since. A
    # new one is forked from a process that has ours loaded, which takes some milliseconds.
    own = {"spark.jars": jars, "spark.python.worker.reuse": "false", **scratch_conf(conf)}
    start_jvm(conf | own)
    jvm: Any = SparkContext._jvm
    jvm.org.apache.spark.sql.internal.StaticSQLConf.SPARK_SESSION_EXTENSIONS()  # its class names the fixed settings
    is_static = jvm.org.apache.spark.sql.internal.SQLConf.isStaticConfigKey
    fixed = {key: value for key, value in plan.conf.items() if key.startswith(SESSION) and is_static(key)}
    spark = open_session(conf | own | fixed, "frazil warm")
    spark.sparkContext.environment[FOLDER] = plan.project
    return spark, fixed_conf(conf) | fixed


def warm_up(spark: SparkSession) -> None:
    """Starts the process that forks Python workers, which takes seconds."""
    spark.range(2).mapInArrow(lambda batches: batches, "id bigint").collect()


def main(path: str) -> None:
    """Serves until SIGTERM, or until the JVM ends."""
    import pyspark

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    for noisy in ("py4j", "pyspark"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    plan, environ = DriverPlan.read(Path(path)), dict(os.environ)
    folder = Path(plan.folder)
    forget_record(folder)
    over = threading.Event()
    spark, fixed = start_spark(plan)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    warm_up(spark)
    secret = secrets.token_hex(32)
    with Clients(spark, plan.port, secret) as clients:
        threading.Thread(target=clients.serve_forever, daemon=True).start()
        WarmRecord(
            pid=os.getpid(),
            started=start_time(os.getpid()) or "",
            port=plan.port,
            secret=secret,
            frazil=frazil.__version__,
            pyspark=pyspark.__version__,
            conf=fixed,
            jars=plan.jars,
            variables=jvm_variables(environ),
            environment={name: digest(value) for name, value in environ.items()},
        ).write(folder)
        _wait(spark, over)
    forget_record(folder)
    if not over.is_set():
        sys.exit("the JVM ended")
    spark.stop()


def _wait(spark: SparkSession, over: threading.Event) -> None:
    """Returns when it is time to end."""
    jvm = spark.sparkContext._gateway.proc  # type: ignore[union-attr]  # there is one
    while not over.wait(JVM_POLL_SECONDS) and jvm.poll() is None:
        pass


if __name__ == "__main__":
    main(sys.argv[1])
