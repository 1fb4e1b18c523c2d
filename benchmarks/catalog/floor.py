"""What the disk itself takes for a create and an append: the same files and syncs and a pointer in SQLite, with no
server around them.
"""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import sqlite3
import sys
import threading
import time
import uuid
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.catalog.servers import WORKERS

FILE = b"x" * 2_000  # about the metadata of a small table


def bare_rate(folder: Path, *, clients: int, operations: int, create: bool) -> tuple[float, float]:
    """Operations a second, and CPU milliseconds for each, of as many threads as there are clients, in as many processes
    as there are workers. Each creates a file, syncs it, and writes a row in a transaction of its own.
    """
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "pointers.db") as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE pointers (name TEXT PRIMARY KEY, location TEXT)")
    context, workers = get_context("spawn"), min(WORKERS, clients)
    ends: list[Connection] = []
    processes = []
    for number in range(workers):
        ours, theirs = context.Pipe()
        each = clients // workers
        processes.append(
            context.Process(target=_worker, args=(theirs, folder, number, each, operations // clients, create))
        )
        processes[-1].start()
        ends.append(ours)
    for end in ends:
        end.recv()  # they are ready
    started = time.perf_counter()
    for end in ends:
        end.send(None)
    cpu = sum(float(end.recv()) for end in ends)
    seconds = time.perf_counter() - started
    for process in processes:
        process.join()
    shutil.rmtree(folder)
    done = operations // clients * (clients // workers) * workers
    return done / seconds, cpu * 1000 / done


def _worker(pipe: Connection, folder: Path, number: int, threads: int, each: int, create: bool) -> None:
    sys.setswitchinterval(0.0005)
    gate = os.open(folder / "gate", os.O_RDWR | os.O_CREAT)
    database = sqlite3.connect(folder / "pointers.db", isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA synchronous=FULL")
    turn = threading.Lock()

    def work(thread: int) -> None:
        table = folder / f"{number}-{thread}"
        if not create:
            (table / "metadata").mkdir(parents=True)
        for count in range(each):
            if create:
                table = folder / f"{number}-{thread}-{count}"
                table.mkdir()
                (table / "metadata").mkdir()
            location = str(table / "metadata" / f"{uuid.uuid4()}.json")
            descriptor = os.open(location, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.write(descriptor, FILE)
            os.fsync(descriptor)
            os.close(descriptor)
            with turn:
                fcntl.flock(gate, fcntl.LOCK_EX)
                database.execute("BEGIN IMMEDIATE")
                database.execute("INSERT OR REPLACE INTO pointers VALUES (?, ?)", (str(table), location))
                database.execute("COMMIT")
                fcntl.flock(gate, fcntl.LOCK_UN)

    runners = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    pipe.send(None)
    pipe.recv()
    before = resource.getrusage(resource.RUSAGE_SELF)
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    after = resource.getrusage(resource.RUSAGE_SELF)
    pipe.send(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
