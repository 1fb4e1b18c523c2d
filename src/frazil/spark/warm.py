"""Attaches a command to the warm Spark that `frazil up --with spark` keeps, so that no JVM is started for it.

The command stays a process of its own and reads the project itself; only the JVM is shared. Where the warm Spark does
not fit or does not answer, the command says so and starts a Spark of its own.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frazil.config import Settings
from frazil.spark.cluster import is_local
from frazil.spark.messages import spark_error, spark_errors
from frazil.spark.warm_record import WarmRecord, digest, misfit, read_record, session_conf_of
from frazil.spark.worker_daemon import FOLDER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOST = "127.0.0.1"
ANSWER_SECONDS = 20.0
SERVICE = "spark"  # the folder of the stack
# Variables that differ between two terminals and mean nothing to the functions of a project.
UNIMPORTANT = (
    *("_", "SHLVL", "PWD", "OLDPWD", "COLUMNS", "LINES", "TERM", "COLORTERM", "WINDOWID", "PS1", "PROMPT_COMMAND"),
    *("JAVA_HOME", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE", "PYTHONHASHSEED", "FRAZIL_SERVICE_FOLDER"),
)
UNIMPORTANT_PREFIXES = ("SSH_", "TERM_", "TMUX", "VTE_", "XDG_", "DBUS_", "PYSPARK_", "PYTEST_", "FRAZIL_", "_FRAZIL_")
log = logging.getLogger(__name__)
SparkConfOf = Callable[[Settings], dict[str, str]]


def warm_session(
    stack: ExitStack,
    settings: Settings,
    conf_of: SparkConfOf,
    app_name: str,
    more_jars: Sequence[str],
    tell: Callable[[str], None] | None,
) -> SparkSession | None:
    """A session of the project's warm Spark, left when the stack ends; None if there is none that fits."""
    record = read_record(settings.stack.folder.absolute() / SERVICE)
    if record is None or not settings.spark.warm or _has_spark():
        return None
    from py4j.protocol import Py4JError

    conf = conf_of(settings)
    reason = _unfit(record, conf, more_jars)
    if reason is None:
        try:
            return stack.enter_context(attached(record, session_conf_of(record, conf), app_name))
        except ValueError as exc:
            reason = str(exc)
        except (OSError, KeyError, Py4JError) as exc:
            log.debug("cannot attach to the warm Spark", exc_info=True)
            reason = f"it does not answer ({type(exc).__name__})"
    sentence = f"the warm Spark is not used, a new one is started: {reason}"
    if tell is None:
        log.warning(sentence)
    else:
        tell(f"{sentence}; 'frazil up --with spark' restarts it with the settings of now")
    return None


def _unfit(record: WarmRecord, conf: Mapping[str, str], more_jars: Sequence[str]) -> str | None:
    if not record.is_alive:
        return "it has ended"
    if not is_local(conf["spark.master"]):
        return f"spark.master is {conf['spark.master']}, and it runs on this machine alone"
    return misfit(record, conf=conf, jars=more_jars)


def _has_spark() -> bool:
    """Whether this process has started a JVM already: PySpark knows one at a time."""
    try:
        from pyspark import SparkContext
    except ImportError:
        return True  # the caller says what is missing
    return SparkContext._gateway is not None


@contextmanager
def attached(record: WarmRecord, conf: Mapping[str, str], app_name: str) -> Iterator[SparkSession]:
    """A session in the JVM of the warm Spark; at the end it is left, and whatever still runs in it is cancelled."""
    with _Line(record, app_name) as line, _interrupting(line) as interrupt_own_jobs:
        spark = _open(line.port, line.secret, environment=worker_environment(record))
        interrupt_own_jobs()
        try:
            _configure(spark, conf)
            yield spark
        finally:
            _leave(spark)


def _configure(spark: SparkSession, conf: Mapping[str, str]) -> None:
    for key, value in conf.items():
        try:
            spark.conf.set(key, value)
        except spark_errors() as exc:
            raise ValueError(f"it cannot set {key} for one session: {spark_error(str(exc))}") from exc


class _Line:
    """The connection that stands for the client: the warm Spark cancels the client's jobs when it ends."""

    def __init__(self, record: WarmRecord, name: str) -> None:
        self.socket = socket.create_connection((HOST, record.port), timeout=ANSWER_SECONDS)
        hello = {"secret": record.secret, "attach": f"{name} (pid {os.getpid()})"}
        self.socket.sendall(json.dumps(hello).encode() + b"\n")
        with self.socket.makefile("rb") as answers:
            answer = json.loads(answers.readline() or b'{"error": "it hung up"}')
        if "error" in answer:
            self.socket.close()
            raise ValueError(answer["error"])
        self.port: int = answer["port"]
        self.secret: str = answer["secret"]

    def cancel(self) -> None:
        """Cancels all jobs of this client."""
        with suppress(OSError):
            self.socket.sendall(b"cancel\n")

    def __enter__(self) -> _Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def worker_environment(record: WarmRecord, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What Python workers need in their environment to be as those of a Spark of this process.

    Spark keeps a process to fork workers from for each environment. So these are only the variables that are other than
    the warm Spark's, and equal commands share one.
    """
    other = {
        name: value
        for name, value in environ.items()
        if name not in UNIMPORTANT
        and not name.startswith(UNIMPORTANT_PREFIXES)
        and record.environment.get(name) != digest(value)
    }
    return {**other, FOLDER: str(Path.cwd())}


def _open(port: int, secret: str, *, environment: dict[str, str]) -> SparkSession:
    from py4j.java_gateway import JavaObject
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    class Borrowed(JavaObject):  # type: ignore[misc]  # no types are published
        """The context of the warm Spark. PySpark stops a context when its session ends or fails: not this one."""

        def __init__(self, owned: Any) -> None:
            super().__init__(owned._target_id, owned._gateway_client)
            self._owned = owned  # Py4J drops the object in the JVM with the last reference to it here

        def stop(self) -> None:
            pass

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    connection = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ |= connection
    try:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]  # PySpark's
    finally:
        for name in connection:
            del os.environ[name]
    session = gateway.entry_point
    java_context = Borrowed(gateway.jvm.JavaSparkContext(session.sparkContext()))
    conf = SparkConf(_jconf=java_context.sc().getConf())
    context = SparkContext(gateway=gateway, jsc=java_context, conf=conf, environment=environment)
    return SparkSession(context, session)


def _leave(spark: SparkSession) -> None:
    """Makes this process one without Spark again; the JVM goes on."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context, gateway = spark.sparkContext, SparkContext._gateway
    shutil.rmtree(context._temp_dir, ignore_errors=True)
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None

    def close() -> None:
        """Waits for threads of PySpark and Py4J, which may take a second, or for good: not on the caller's time."""
        with suppress(Exception):  # the JVM may have ended
            context._accumulatorServer.shutdown()
            if gateway is not None:
                gateway.close()
                gateway.shutdown_callback_server()

    threading.Thread(target=close, daemon=True, name="frazil-warm-close").start()


@contextmanager
def _interrupting(line: _Line) -> Iterator[Callable[[], None]]:
    """A function that makes Ctrl-C cancel the jobs of this client, until the block ends: PySpark would cancel those of
    all clients.
    """
    before = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()

    def interrupt(*_: object) -> None:
        line.cancel()
        raise KeyboardInterrupt

    def take_over() -> None:
        if in_main:
            signal.signal(signal.SIGINT, interrupt)

    try:
        yield take_over
    finally:
        if in_main:
            signal.signal(signal.SIGINT, before)
