"""Spark beyond this process: the settings of a session on a cluster, and a check of the executors before anything
begins.

Spark tries for a minute to reach a master that is not there, waits for ever for executors that are not granted, and
says of a Python that does not fit what is in a stack trace of another machine. Here each of these is one sentence,
soon.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.config import SparkSettings
from frazil.errors import ConfigError, PipelineError
from frazil.spark.messages import spark_error, spark_errors
from frazil.units import count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENVIRONMENT = (
    "environment"  # the folder, in an executor's working directory, that a packed environment is unpacked into
)
MASTER_SECONDS = 5.0
SETTLE_SECONDS = 1.0  # executors of one cluster come one after the other
LOOPBACK = ("127.0.0.1", "localhost", "::1")
NOTHING_DONE = "nothing was begun"


def is_local(master: str) -> bool:
    """Whether everything runs on this machine, in one JVM.

    >>> is_local("local[*]"), is_local("local"), is_local("spark://10.0.0.5:7077"), is_local("yarn")
    (True, True, False, False)
    """
    return master.startswith("local")


def local_partitions(master: str, cores: int) -> str:
    """How many partitions a shuffle makes on one machine: some for each core, not Spark's 200, of which each costs a
    small load a task.

    >>> local_partitions("local[*]", 8), local_partitions("local[2]", 8), local_partitions("local", 8)
    ('32', '8', '8')
    """
    count = re.fullmatch(r"local\[(\d+)(?:,\s*\d+)?\]", master)
    own = int(count[1]) if count else 1 if master == "local" else cores
    return str(max(8, 4 * own))


def place_conf(spark: SparkSettings) -> dict[str, str]:
    """The Spark settings that follow from where the work is done.

    >>> place_conf(SparkSettings(master="spark://10.0.0.5:7077", executors=4, executor_cores=2, driver_host="10.0.0.9"))["spark.cores.max"]
    '8'
    """  # noqa: E501
    if is_local(spark.master):
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": local_partitions(spark.master, os.cpu_count() or 1),
        }
    conf = {
        "spark.driver.host": spark.driver_host or _loopback(spark.master),
        "spark.executor.instances": _text(spark.executors),
        "spark.executor.cores": _text(spark.executor_cores),
        "spark.executor.memory": spark.executor_memory,
        "spark.archives": f"{spark.environment.expanduser().absolute()}#{ENVIRONMENT}" if spark.environment else None,
    }
    if spark.executors and spark.executor_cores and spark.master.startswith("spark://"):
        # A standalone master knows no number of executors: it hands out cores up to this number.
        conf["spark.cores.max"] = str(spark.executors * spark.executor_cores)
    return {key: value for key, value in conf.items() if value is not None}


def executor_python(spark: SparkSettings, own: str) -> str:
    """The interpreter that executors start; `own` is this one's path.

    >>> executor_python(SparkSettings(), "/py"), executor_python(SparkSettings(master="yarn", environment=Path("e.tar.gz")), "/py")
    ('/py', './environment/bin/python')
    """  # noqa: E501
    if is_local(spark.master):
        return own
    return spark.python or (f"./{ENVIRONMENT}/bin/python" if spark.environment else own)


def check_place(spark: SparkSettings) -> None:
    """Refuses settings that cannot work, before a JVM is started for them."""
    if is_local(spark.master):
        return
    if spark.environment and not spark.environment.expanduser().is_file():
        hint = (
            "pack one (docs/cluster.md), or remove the setting: executors then use the interpreter of the same "
            "path as here"
        )
        raise ConfigError(
            f"spark.environment is {spark.environment}, which is no file",
            hint=hint,
            option="spark.environment",
            got=str(spark.environment),
        )
    if spark.conf.get("spark.submit.deployMode") == "cluster":
        raise ConfigError(
            "spark.submit.deployMode is 'cluster': the driver of a pipeline runs where the command does",
            hint="leave the setting out, and run the command on a machine (or in a pod) that the executors reach",
            option="spark.submit.deployMode",
            got="cluster",
        )
    if spark.master.startswith("spark://"):
        if spark.executors and not spark.executor_cores:
            raise ConfigError(
                f"spark.executors is {spark.executors} and spark.executor_cores is not set: a standalone master hands "
                f"out cores",
                hint="say how many each gets, such as spark.executor_cores=4; or leave both out, for all that the "
                "workers have",
                option="spark.executor_cores",
            )
        _check_master(spark.master)


def master_addresses(master: str) -> list[tuple[str, int]]:
    """Host and port of each master that the setting names.

    >>> master_addresses("spark://a:7077,[::1]:7078")
    [('a', 7077), ('::1', 7078)]
    """
    addresses = []
    for part in master.removeprefix("spark://").split(","):
        address = re.fullmatch(r"\[?([^\]/]+?)\]?:(\d+)", part)
        if address is None:
            raise ConfigError(
                f"spark.master is '{master}', expected spark://HOST:PORT",
                hint="the master's page shows its address",
                option="spark.master",
                expected="spark://HOST:PORT",
                got=master,
            )
        addresses.append((address[1], int(address[2])))
    return addresses


def _check_master(master: str) -> None:
    refused = []
    for host, port in master_addresses(master):
        try:
            with socket.create_connection((host, port), timeout=MASTER_SECONDS):
                return
        except OSError as exc:
            refused.append(f"{host}:{port}: {exc.strerror or exc}")
    raise PipelineError(
        f"no Spark master answers at {master} ({'; '.join(refused)}); {NOTHING_DONE}",
        hint="see that it runs and listens on an address that this machine can reach; frazil --set "
        "spark.master='local[*]' does without",
        problem="unreachable",
    )


# --- the executors ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Executor:
    """An executor, as a task in it sees it; those on one host have a folder each."""

    folder: str
    host: str
    python: str
    version: str
    frazil: str
    pyarrow: str


def check_executors(spark: SparkSession, settings: SparkSettings) -> list[Executor]:
    """The executors, each of which can run our tasks; or an error that says what is wrong with one."""
    _wait_for_executors(spark, settings)
    context = spark.sparkContext
    count = max(context.defaultParallelism, 1)
    try:
        seen = sorted(set(context.parallelize(range(count), count).mapPartitions(_look_around).collect()))
    except spark_errors() as exc:
        raise explain_worker(str(exc), context.pythonExec) from exc
    import frazil

    for executor in seen:
        if executor.frazil != frazil.__version__:
            raise PipelineError(
                f"the executor on {executor.host} has frazil {executor.frazil} in {executor.python}, the driver has "
                f"{frazil.__version__}; {NOTHING_DONE}",
                hint=f"install there: pip install 'frazil[spark]=={frazil.__version__}'",
            )
        if not executor.pyarrow:
            raise PipelineError(
                f"the executor on {executor.host} has no pyarrow in {executor.python}; {NOTHING_DONE}",
                hint=f"install there: pip install 'frazil[spark]=={frazil.__version__}'",
            )
    return seen


def describe_executors(seen: Sequence[Executor]) -> str:
    """The executors in a line.

    >>> describe_executors([Executor("/0", "w1", "/py", "3.11.7", "1", "20"), Executor("/1", "w2", "/py", "3.11.7", "1", "20")])
    '2 executors on w1, w2; Python 3.11.7 at /py'
    """  # noqa: E501
    ids, hosts = {(executor.host, executor.folder) for executor in seen}, sorted({executor.host for executor in seen})
    pythons = sorted({f"Python {executor.version} at {executor.python}" for executor in seen})
    shown = ", ".join(hosts[:5]) + (f" and {len(hosts) - 5} more" if len(hosts) > 5 else "")
    return f"{count(len(ids), 'executor')} on {shown}; {'; '.join(pythons)}"


def explain_worker(text: str, python: str) -> PipelineError:
    """What a failed look around says, in one sentence.

    >>> explain_worker('java.io.IOException: Cannot run program "/py": error=2, No such file or directory', "/py").message
    'the executors have no Python at /py; nothing was begun'
    """  # noqa: E501
    if match := re.search(r"different version:? \(?'?([\d., ]+?)'?\)? than that in\s+driver:? \(?'?([\d., ]+\d)", text):
        message = f"the executors have Python {match[1]} ({python}), the driver has {match[2]}"
        hint = (
            "start the command with the same minor version, or name another interpreter: [spark] python = "
            "'/path/on/the/workers'"
        )
    elif "Cannot run program" in text:
        message = f"the executors have no Python at {python}"
        hint = (
            "install the environment there at the same path, or say where it is: [spark] python, or environment "
            "(docs/cluster.md)"
        )
    elif match := re.search(r"No module named '?([\w.]+)", text):
        message = f"the executors' Python ({python}) has no module {match[1]}"
        hint = "install there what this environment has: pip install 'frazil[spark]', and what the project imports"
    else:
        message, hint = (
            f"a first task on the executors failed: {spark_error(text)}",
            "see the executors' own logs, in the workers' folders",
        )
    return PipelineError(f"{message}; {NOTHING_DONE}", hint=hint, reason=message)


def _look_around(_: object) -> Iterator[Executor]:
    import platform
    import sys
    from importlib.metadata import PackageNotFoundError, version

    import frazil

    try:
        pyarrow = version("pyarrow")
    except PackageNotFoundError:
        pyarrow = ""
    yield Executor(
        str(Path.cwd()), socket.gethostname(), sys.executable, platform.python_version(), frazil.__version__, pyarrow
    )


def _wait_for_executors(spark: SparkSession, settings: SparkSettings) -> None:
    """Returns when as many as were asked for are there, or, where no number was, when no more come."""
    from py4j.protocol import Py4JError

    deadline = time.monotonic() + settings.executor_seconds
    count, changed = 0, time.monotonic()
    while time.monotonic() < deadline:
        try:
            now = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1  # one of them is the driver
        except Py4JError as exc:
            raise _no_executor(settings, f"the cluster gave the application up: {str(exc).splitlines()[0]}") from exc
        if now != count:
            count, changed = now, time.monotonic()
        if count >= (settings.executors or 1) and (settings.executors or time.monotonic() - changed > SETTLE_SECONDS):
            return
        time.sleep(0.05)
    if not count:
        raise _no_executor(settings, f"no executor came within {settings.executor_seconds:.0f} s")


def _no_executor(settings: SparkSettings, what: str) -> PipelineError:
    asked = [f"{settings.executor_cores} cores" if settings.executor_cores else "", settings.executor_memory or "1g"]
    return PipelineError(
        f"{settings.master}: {what} (asked for {', '.join(filter(None, asked))} each); {NOTHING_DONE}",
        hint="see on the master's page that workers are registered and have so much left, and that they can reach "
        "this machine "
        "([spark] driver_host is the address that they call)",
    )


def _loopback(master: str) -> str | None:
    """A master on loopback reaches a driver there."""
    hosts = [host for host, _ in master_addresses(master)] if master.startswith("spark://") else []
    return "127.0.0.1" if hosts and all(host in LOOPBACK for host in hosts) else None


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)
