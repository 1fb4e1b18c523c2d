"""A Spark standalone cluster on loopback, out of PySpark's own jars: a master and workers of one core each, that end
with the tests.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path

import psutil

from frazil.artifacts.java import JavaNeed, find_java
from frazil.processes import wait_until
from frazil.services import ports
from frazil.spark.submit import spark_home
from tools.spark_archive import SHORT_LIVED_JVM, archive_options

SHORT_LIVED = f"{SHORT_LIVED_JVM} {archive_options()}".strip()
# The kernel ends them when the tests are killed; their executors end with them.
WITH_PARENT = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()


class SparkCluster:
    """Servers as `sbin/start-master.sh` and `start-worker.sh` start them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.page = ports.free_port(), ports.free_port()
        self.master = f"spark://127.0.0.1:{self.port}"
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, *, workers: int) -> None:
        """A master and as many workers, all of them known to it."""
        self._start("master", "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.page))
        assert wait_until(lambda: self.alive_workers() == 0, 240, pause=0.2), self._log("master")
        for number in range(workers):
            options = [
                "--host",
                "127.0.0.1",
                "--port",
                "0",
                "--webui-port",
                str(ports.free_port()),
                "--cores",
                "1",
                "--memory",
                "1g",
            ]
            self._start(f"worker-{number}", *options, "--work-dir", str(self.folder / f"worker-{number}"), self.master)
        assert wait_until(lambda: self.alive_workers() == workers, 240, pause=0.2), self._log("worker-0")

    def alive_workers(self) -> int | None:
        """What the master's page says; nothing, while there is none."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.page}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except OSError:
            return None

    def worker_of(self, folder: Path) -> int:
        """The number of the worker in whose folder an executor works."""
        return int(folder.relative_to(self.folder).parts[0].removeprefix("worker-"))

    def kill_worker(self, number: int) -> None:
        """The worker and its executor are gone at once, as when a machine is."""
        worker = psutil.Process(self.processes[1 + number].pid)
        for process in [worker, *worker.children(recursive=True)]:
            process.send_signal(signal.SIGKILL)

    def stop(self) -> None:
        """Nothing of the cluster is left."""
        alive = [psutil.Process(process.pid) for process in self.processes if process.poll() is None]
        below = [child for process in alive for child in process.children(recursive=True)]
        for process in reversed(self.processes):  # workers first: they would look for their master
            process.terminate()
            process.wait(120)
        _, left = psutil.wait_procs(below, timeout=60)
        for process in left:
            process.kill()

    def _start(self, name: str, *arguments: str) -> None:
        role = name.partition("-")[0]
        command = [
            *WITH_PARENT,
            str(spark_home() / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{role}.{role.title()}",
            *arguments,
        ]
        own = {
            "SPARK_HOME": str(spark_home()),
            "JAVA_HOME": str(find_java(JavaNeed.SPARK).home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # its port is always the same
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
        }
        with (self.folder / f"{name}.log").open("wb") as log:
            environ = {**os.environ, **own}
            process = subprocess.Popen(
                command, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )
        self.processes.append(process)

    def _log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-3000:]
