"""What a warm Spark says about itself in a file, and whether a command's settings fit it.

A warm Spark is a driver that `frazil up --with spark` keeps running. Its file, readable by its owner only, has the
port and the secret by which commands attach, and the settings that cannot be changed any more once a JVM runs.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from frazil.config import is_secret
from frazil.local_stack import write_private
from frazil.processes import ProcessId, is_running

FILE_NAME = "driver.json"
SESSION = "spark.sql."  # settings of one session begin so; a few of them are fixed for all sessions all the same
# Variables that a JVM reads once, when it starts.
JVM_VARIABLES = ("AWS_", "HADOOP_", "SPARK_", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "HTTP_PROXY", "HTTPS_PROXY")
OF_PYSPARK = ("SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE", "SPARK_HOME", "SPARK_ENV_LOADED")  # set by itself


@dataclass(frozen=True)
class WarmRecord:
    """A warm Spark: how to reach it, and what it was started with. Secret values are kept as hashes."""

    pid: int
    started: str
    port: int
    secret: str
    frazil: str
    pyspark: str
    conf: Mapping[str, str]
    jars: tuple[str, ...]  # coordinates
    variables: Mapping[str, str]
    environment: Mapping[str, str]  # a hash of each variable of its own environment

    @property
    def is_alive(self) -> bool:
        return is_running(ProcessId(self.pid, self.started))

    def write(self, folder: Path) -> None:
        """Puts the file into the folder; only its owner can read it."""
        write_private(folder / FILE_NAME, json.dumps(asdict(self), indent=2))


def read_record(folder: Path) -> WarmRecord | None:
    """What the file in the folder says; None if there is none, or one of another version."""
    try:
        content = json.loads((folder / FILE_NAME).read_text())
        return WarmRecord(**{**content, "jars": tuple(content["jars"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def forget_record(folder: Path) -> None:
    """Removes the file."""
    (folder / FILE_NAME).unlink(missing_ok=True)


def fixed_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings that a JVM has for good, as they are compared.

    >>> sorted(fixed_conf({"spark.master": "local[2]", "spark.x.password": "p", "spark.sql.shuffle.partitions": "4"}))
    ['spark.master', 'spark.x.password']
    >>> fixed_conf({"spark.x.password": "p"})["spark.x.password"][:11]
    'sha256:148d'
    """
    return {key: _comparable(key, value) for key, value in conf.items() if not key.startswith(SESSION)}


def jvm_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that the JVM of a Spark reads, hashed.

    >>> list(jvm_variables({"AWS_REGION": "x", "PATH": "/bin", "SPARK_HOME": "/s"}))
    ['AWS_REGION']
    """
    wanted = (name for name in environ if name.upper().startswith(JVM_VARIABLES) and name not in OF_PYSPARK)
    return {name: digest(environ[name]) for name in sorted(wanted)}


def digest(text: str) -> str:
    """A text that changes with the given one and does not show it."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def misfit(
    record: WarmRecord, *, conf: Mapping[str, str], jars: Iterable[str], environ: Mapping[str, str] = os.environ
) -> str | None:
    """Why a command with these settings cannot use the warm Spark; None if it can."""
    return (
        _other_version(record)
        or _first_difference("setting", dict(record.conf), _with_fixed(record, conf))
        or _first_difference("variable", dict(record.variables), jvm_variables(environ))
        or next((f"it has no jar {jar}" for jar in jars if jar not in record.jars), None)
    )


def session_conf_of(record: WarmRecord, conf: Mapping[str, str]) -> dict[str, str]:
    """The settings that a command gives to its own session."""
    return {key: value for key, value in conf.items() if key.startswith(SESSION) and key not in record.conf}


def _with_fixed(record: WarmRecord, conf: Mapping[str, str]) -> dict[str, str]:
    """The command's fixed settings, with those of a session that the warm Spark has fixed for all."""
    return fixed_conf(conf) | {key: conf.get(key, "") for key in record.conf if key.startswith(SESSION)}


def _other_version(record: WarmRecord) -> str | None:
    import pyspark

    import frazil

    for name, there, here in (
        ("Frazil", record.frazil, frazil.__version__),
        ("PySpark", record.pyspark, pyspark.__version__),
    ):
        if there != here:
            return f"it has {name} {there}, and this is {here}"
    return None


def _first_difference(kind: str, there: Mapping[str, str], here: Mapping[str, str]) -> str | None:
    for key in sorted({*there, *here}):
        if there.get(key) != here.get(key):
            return f"{kind} {key} is {_shown(here.get(key))} here and {_shown(there.get(key))} there"
    return None


def _shown(value: str | None) -> str:
    return "not set" if value is None else "another secret value" if value.startswith("sha256:") else f"'{value}'"


def _comparable(key: str, value: str) -> str:
    return digest(value) if is_secret(key) else value
