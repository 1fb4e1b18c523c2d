"""A warm Spark: a driver that keeps running, so that commands need not start a JVM each."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

import frazil
from frazil.artifacts import resolve_jars
from frazil.errors import ConfigError
from frazil.processes import Launch
from frazil.services import ports
from frazil.services.service import Report, Service, silent
from frazil.spark import DriverPlan, is_local, read_record, session_environment, spark_conf, warm_jars

PLAN = "plan.json"


class Spark(Service):
    """The driver. It has no data: `down` and the next `up` lose nothing."""

    name = "spark"
    stop_seconds = 15.0
    min_free_bytes = 256 * 1024 * 1024

    @property
    def endpoint(self) -> str:
        return f"{ports.HOST}:{self.port}"

    def version(self) -> str:
        return metadata.version("pyspark")

    def prepare(self, report: Report = silent) -> None:
        """Finds Java and the jars, or downloads them."""
        super().prepare(report)
        master = self.settings.spark.master
        if not is_local(master):
            raise ConfigError(
                f"a warm Spark runs on this machine, and spark.master is {master}",
                hint="frazil up without --with spark: commands start their own driver for the cluster; or set "
                "spark.master to local[*]",
                option="spark.master",
                got=master,
            )
        self.launch()

    def launch(self) -> Launch:
        jars = (*warm_jars(), *self.settings.spark.packages)
        plan = DriverPlan(
            folder=str(self.folder),
            port=self.port,
            project=str(Path.cwd()),
            # Catalogs are of a session: each command brings its own, with its own keys.
            conf={k: v for k, v in spark_conf(self.settings).items() if not k.startswith("spark.sql.catalog.")},
            jars=jars,
            paths=tuple(map(str, resolve_jars(jars, ivy_settings=self.settings.spark.ivy_settings))),
        )
        argv = [sys.executable, "-m", "frazil.spark.warm_driver", str(self.folder / PLAN)]
        return Launch(
            argv,
            env=session_environment(self.settings),
            files={self.folder / PLAN: json.dumps(asdict(plan), indent=2)},
            depends_on=(frazil.__version__,),
            cwd=self.folder,
        )

    def ready(self) -> bool:
        """The driver has written its file, and answers."""
        record = read_record(self.folder)
        if record is None or not record.is_alive:
            return False
        with contextlib.suppress(OSError, ValueError, AttributeError):
            return bool(_ask(record.port, {"secret": record.secret}).get("ready"))
        return False


def _ask(port: int, question: dict[str, str]) -> dict[str, object]:
    """The driver's answer."""
    with socket.create_connection((ports.HOST, port), timeout=ports.ANSWER_SECONDS) as line:
        line.sendall(json.dumps(question).encode() + b"\n")
        with line.makefile("rb") as answers:
            answer: dict[str, object] = json.loads(answers.readline())
            return answer
