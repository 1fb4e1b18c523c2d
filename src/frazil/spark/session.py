"""A Spark session that is ready for our catalog: a Java that fits, the jars, the settings; its noise goes to a log
file.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.config import Settings, is_secret
from frazil.errors import MissingExtra, PipelineError
from frazil.spark.cluster import check_executors, check_place, describe_executors, executor_python, is_local, place_conf
from frazil.spark.scratch import scratch_conf
from frazil.spark.warm import warm_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ICEBERG_RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
ICEBERG_AWS = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"
EXTENSIONS = "spark.sql.extensions"
ICEBERG_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
# Spark's Kafka source, for who asks for it. Named one by one: the token provider of the same version cannot be had
# everywhere.
KAFKA_JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)


def warm_jars() -> tuple[str, ...]:
    """The coordinates of all jars that a command may ask for."""
    return (ICEBERG_RUNTIME, ICEBERG_AWS, *KAFKA_JARS)


def spark_conf(settings: Settings) -> dict[str, str]:
    """The Spark settings that make `<catalog name>.<namespace>.<table>` work; the user's own come last and win."""
    catalog = settings.catalog
    prefix = f"spark.sql.catalog.{catalog.name}"
    conf = {
        "spark.master": settings.spark.master,
        "spark.driver.memory": settings.spark.driver_memory,
        **place_conf(settings.spark),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.daemon.module": "frazil.spark.worker_daemon",
        # A batch of 10,000 rows, Spark's default, costs the contract a third more CPU a row.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "rest",
        f"{prefix}.uri": catalog.uri,
        f"{prefix}.cache-enabled": "false",
        **{f"{prefix}.{key}": value for key, value in catalog.properties.items()},
    }
    if catalog.warehouse:
        conf[f"{prefix}.warehouse"] = catalog.warehouse
    if catalog.token:
        conf[f"{prefix}.token"] = catalog.token.get_secret_value()
    if settings.s3.endpoint:
        conf |= {f"{prefix}.{key}": value for key, value in _s3_conf(settings).items()}
    return conf | settings.spark.conf | {EXTENSIONS: _extensions(settings.spark.conf.get(EXTENSIONS))}


def _extensions(own: str | None) -> str:
    """Iceberg's extensions, which MERGE needs, and those that the settings add.

    >>> _extensions("io.delta.sql.DeltaSparkSessionExtension").split(",")[1:]
    ['io.delta.sql.DeltaSparkSessionExtension']
    """
    return own if own and ICEBERG_EXTENSIONS in own else ",".join(filter(None, (ICEBERG_EXTENSIONS, own)))


def _s3_conf(settings: Settings) -> dict[str, str]:
    s3 = settings.s3
    conf = {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": s3.endpoint or "",
        "s3.path-style-access": str(s3.path_style_access).lower(),
        "client.region": s3.region,
    }
    if s3.access_key_id and s3.secret_access_key:
        conf["s3.access-key-id"] = s3.access_key_id.get_secret_value()
        conf["s3.secret-access-key"] = s3.secret_access_key.get_secret_value()
    return conf


def session_conf(settings: Settings, more_jars: Sequence[str] = ()) -> dict[str, str]:
    """All settings of a session, with the jars that it needs, from the cache or downloaded into it.

    On a cluster, too, these are files of this machine: the driver hands them to each executor. So the cluster needs no
    repository.
    """
    from frazil.artifacts import resolve_jars, show_progress

    wanted = [ICEBERG_RUNTIME, ICEBERG_AWS] if settings.s3.endpoint else [ICEBERG_RUNTIME]
    wanted += [*more_jars, *settings.spark.packages]
    jars = resolve_jars(wanted, ivy_settings=settings.spark.ivy_settings, on_progress=show_progress())
    conf = spark_conf(settings)
    return conf | {"spark.jars": ",".join([*map(str, jars), *filter(None, [conf.get("spark.jars")])])}


def session_environment(settings: Settings) -> dict[str, str]:
    """The variables that a Spark of ours is started with."""
    from frazil.artifacts import JavaNeed, find_java, show_progress

    java = find_java(JavaNeed.SPARK, java_home=settings.spark.java_home, on_progress=show_progress())
    python = executor_python(settings.spark, sys.executable)
    return {"JAVA_HOME": str(java.home), "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable}


@contextmanager
def spark_session(
    settings: Settings,
    *,
    app_name: str,
    log: Path,
    more_jars: Sequence[str] = (),
    project: Path | None = None,
    tell: Callable[[str], None] | None = None,
) -> Iterator[SparkSession]:
    """A running session, stopped at the end; what the JVM prints is in `log`. `more_jars` are coordinates, such as
    `KAFKA_JARS`.

    It is that of the stack's warm Spark, if there is one and the settings fit, and then only left at the end. On a
    cluster, executors can import the modules of the folder `project`; `tell` is called with the executors.
    """
    with ExitStack() as stack:
        jars = (*more_jars, *settings.spark.packages)
        spark = None if is_submitted() else warm_session(stack, settings, spark_conf, app_name, jars, tell)
        if spark is None:
            spark = _started(settings, app_name, log, more_jars)
            stack.callback(spark.stop)
            if not is_local(settings.spark.master):
                _prepare_executors(spark, settings, project, tell)
        _quiet_query_errors()
        yield spark


def _started(settings: Settings, app_name: str, log: Path, more_jars: Sequence[str]) -> SparkSession:
    try:
        import pyspark  # noqa: F401
    except ImportError as exc:
        raise MissingExtra("pyspark", extra="spark") from exc
    check_place(settings.spark)
    if is_submitted():
        conf = spark_conf(settings)  # the jars are there: spark-submit has them
        conf.pop("spark.jars", None)
    else:
        os.environ |= session_environment(settings)
        conf = session_conf(settings, more_jars)
        if is_local(conf["spark.master"]):
            conf |= scratch_conf(conf)
    try:
        with _stderr_to(log):
            start_jvm(conf)
            return open_session(conf, app_name)
    except Exception as exc:
        java = os.environ.get("JAVA_HOME", "the JVM of spark-submit")
        raise PipelineError(
            f"Spark did not start with {java}: {exc}", hint=f"see {log}, or run: frazil doctor", reason=str(exc)
        ) from exc


def _quiet_query_errors() -> None:
    """PySpark prints every wrong column or statement as a line of JSON, before the error that says the same."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def is_submitted() -> bool:
    """Whether `spark-submit` has started this process, with its JVM there already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _prepare_executors(
    spark: SparkSession, settings: Settings, project: Path | None, tell: Callable[[str], None] | None
) -> None:
    if project and not is_submitted():  # else the zip came with spark-submit
        from frazil.spark.pack import pack_project

        spark.sparkContext.addPyFile(str(pack_project(project, settings.stack.folder.absolute() / "spark").path))
    seen = check_executors(spark, settings.spark)
    if tell:
        tell(f"{spark.sparkContext.master}: {describe_executors(seen)}")


def is_private(key: str) -> bool:
    """Whether a Spark setting stays off the JVM's command line, which every user of the machine can read.

    >>> is_private("spark.sql.catalog.lake.token"), is_private("spark.hadoop.fs.s3a.secret.key"), is_private("spark.driver.memory")
    (True, True, False)
    """  # noqa: E501
    return key.startswith("spark.sql.catalog.") or is_secret(key)


def start_jvm(conf: dict[str, str]) -> None:
    """Starts a JVM with what it must know at its start. PySpark would make all settings its arguments; the private ones
    follow over a socket.
    """
    from pyspark import SparkConf, SparkContext

    public = [(key, value) for key, value in conf.items() if not is_private(key)]
    with _interrupt_later():
        SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(public))


def open_session(conf: dict[str, str], app_name: str) -> SparkSession:
    """A session with these settings in the JVM that was started."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


@contextmanager
def _interrupt_later() -> Iterator[None]:
    """Holds Ctrl-C back until the block is over: PySpark, interrupted while it starts a JVM, leaves that JVM behind for
    good.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Sends the standard error of processes started inside to `log`: a JVM keeps the descriptor that it was started
    with.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as target:
        os.dup2(target.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
