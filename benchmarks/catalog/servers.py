"""The servers that the catalog benchmark measures, each with its CPU time."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.catalog.workload import Place
from tools.iceberg_java import reference_server
from tools.own_database import postgres_database
from tools.own_server import own_server

WORKERS = 2
OURS, REFERENCE, POSTGRES = "Frazil", "Java reference", "Frazil on PostgreSQL"


@dataclass
class Server:
    """A running catalog: where it is, what its paths start with, and which processes it is made of."""

    name: str
    address: str
    place: Place
    process: psutil.Process

    def cpu_seconds(self) -> float:
        """CPU time that its processes have used so far."""
        family = [self.process, *self.process.children(recursive=True)]
        return sum(_cpu_seconds(process) for process in family)


def _cpu_seconds(process: psutil.Process) -> float:
    """To the nanosecond where the kernel tells it (the first field of schedstat, for each thread), else to its tick."""
    files = [Path(f"/proc/{process.pid}/task/{thread.id}/schedstat") for thread in process.threads()]
    try:
        return sum(int(file.read_text().split()[0]) for file in files) / 1e9
    except OSError:
        times = process.cpu_times()
        return float(times.user + times.system)


@contextlib.contextmanager
def both_on_sqlite(folder: Path) -> Iterator[list[Server]]:
    """Ours and the Java reference, on SQLite and local files of the same disk."""
    with (
        reference_server(folder / "java") as (java, java_process),
        own_server(folder / "ours", workers=WORKERS) as (ours, own_process),
    ):
        yield [_server(OURS, ours, own_process.pid), _server(REFERENCE, java, java_process.pid)]


@contextlib.contextmanager
def ours_on_postgres(folder: Path) -> Iterator[list[Server]]:
    with (
        postgres_database(folder / "postgres") as url,
        own_server(folder / "ours", database=url, workers=WORKERS) as (address, process),
    ):
        yield [_server(POSTGRES, address, process.pid)]


def _server(name: str, address: str, pid: int) -> Server:
    with urllib.request.urlopen(f"{address}/v1/config") as reply:
        config = json.load(reply)
    prefix = config.get("overrides", {}).get("prefix") or config.get("defaults", {}).get("prefix")
    return Server(name, address, Place(f"/v1/{prefix}" if prefix else "/v1"), psutil.Process(pid))
