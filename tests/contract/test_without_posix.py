"""What runs where Python has no modules and functions of POSIX, as on Windows: all but servers and the local stack.

A fresh interpreter hides them, and works on a catalog that runs here. Paths of Windows are not part of this.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog

HIDE = """
import os, signal, sys
import asyncio, ctypes, multiprocessing, shutil, socket, subprocess, tempfile  # each asks at its import what there is

MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "readline", "curses", "uvloop"}
FUNCTIONS = '''
    chown chroot fchmod fchown fork forkpty getegid geteuid getgid getgroups getloadavg getpgid getpgrp getpriority
    getuid initgroups killpg lchown mkfifo mknod nice pipe2 posix_fadvise posix_fallocate posix_spawn posix_spawnp pread
    preadv pwrite pwritev sched_getaffinity sched_setaffinity sched_yield sendfile setegid seteuid setgid setpgid
    setpriority setsid setuid statvfs fstatvfs sync sysconf wait wait3 wait4 O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK
'''.split()
SIGNALS = "SIGALRM SIGCHLD SIGHUP SIGKILL SIGPIPE SIGQUIT SIGUSR1 SIGUSR2 alarm pthread_sigmask setitimer".split()


class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


for name in MODULES & set(sys.modules):
    del sys.modules[name]
sys.meta_path.insert(0, Hidden())
for place, names in ((os, FUNCTIONS), (signal, SIGNALS)):
    for name in names:
        if hasattr(place, name):
            delattr(place, name)
"""

PUBLIC = """
import importlib

for package in PACKAGES:
    module = importlib.import_module(f"frazil.{package}")
    for name in module.__all__:
        getattr(module, name)
importlib.import_module("frazil.catalog.pytest_plugin")  # pytest imports it wherever Frazil is installed
"""

USE = """
import pyarrow as pa
import frazil, frazil.sinks
from frazil.client import connect

catalog = connect(uri=URI)
catalog.create_namespace("plain")
schema = pa.schema([pa.field("id", pa.int64())])
with catalog.transaction() as tx:
    tx.create_table("plain.a", schema).append(pa.table({"id": [1, 2]}))
    tx.create_table("plain.b", schema).append(pa.table({"id": [3]}))
print("client", [len(table.scan().to_arrow()) for table in catalog.load_tables(["plain.a", "plain.b"])])

columns = frazil.column("id", "long", required=True), frazil.column("site", "string")
with frazil.connect(URI) as lake:
    declared = frazil.Table("lake.events", *columns)
    print("tables", [str(step) for step in lake.plan(declared)])
    lake.apply(declared)
    with frazil.sinks.open("lake.events", name="events", catalog=lake, checks="id >= 0", bad_rows="quarantine") as sink:
        sink.write([{"id": number - 1, "site": "oslo"} for number in range(100)], position=100)
    events = lake.table("lake.events")
    events.upsert([{"id": 5, "site": "rome"}], key="id")
    scan = events.scan("site = 'rome'")
    print("scan", scan.to_arrow().to_pylist(), events.count(), lake.table("lake.events__quarantine").count())
    print("explain", "lake.events" in str(scan.explain()))
    print("history", [entry.operation for entry in events.history()])
    query = "SELECT site, count(*) AS n FROM lake.events GROUP BY ALL ORDER BY ALL"
    print("sql", lake.sql(query).to_arrow().to_pylist())
catalog.close()
"""


@pytest.fixture
def server() -> Iterator[EmbeddedCatalog]:
    with running_catalog() as running:
        yield running


def without_posix(program: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HIDE + program, *words]
    return subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, check=False)


def test_every_public_name_of_the_client_tables_sinks_and_scan_can_be_imported(tmp_path: Path) -> None:
    packages = ("client", "tables", "sinks", "scan", "history", "quarantine", "upkeep", "vector", "lake")
    done = without_posix(PUBLIC.replace("PACKAGES", repr(packages)), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_client_tables_sinks_and_scan_work(server: EmbeddedCatalog, tmp_path: Path) -> None:
    done = without_posix(USE.replace("URI", repr(server.uri)), tmp_path)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "client [2, 1]",
        "tables ['+ namespace lake', '+ table lake.events (2 columns)']",
        "scan [{'id': 5, 'site': 'rome'}] 99 1",
        "explain True",
        "history ['overwrite', 'append', 'append']",
        "sql [{'site': 'oslo', 'n': 98}, {'site': 'rome', 'n': 1}]",
    ]


def test_a_command_that_cannot_run_there_says_so(tmp_path: Path) -> None:
    done = without_posix("from frazil.cli.main import main\nmain()", tmp_path, "serve", "--port", "0")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: this command does not run here: this Python has no module ")
    assert "docs/install.md" in done.stderr
