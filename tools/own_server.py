"""`frazil serve` as users start it, in its own process, for tests and benchmarks that look at it from outside."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from frazil.services import ports


@contextlib.contextmanager
def own_server(
    folder: Path,
    *,
    database: str | None = None,
    warehouse: str | None = None,
    workers: int = 1,
    options: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Our catalog on `database` (default: SQLite) and `warehouse` (default: local files below `folder`): its address
    and its process.
    """
    port = ports.free_port()
    (folder / "warehouse").mkdir(parents=True, exist_ok=True)
    frazil = [sys.executable, "-m", "frazil"]
    # The database may hold a password: it goes by the environment, where no list of processes shows it.
    environment = {
        **os.environ,
        **(variables or {}),
        "FRAZIL_SERVER__DATABASE": database or f"sqlite:///{folder / 'catalog.db'}",
    }
    if database:  # a new SQLite file gets its tables by itself
        subprocess.run(
            [*frazil, "catalog", "migrate"], env=environment, check=True, cwd=folder, stdout=subprocess.DEVNULL
        )
    command = [*frazil, "serve", "--host", ports.HOST, "--port", str(port), "--workers", str(workers)]
    command += ["--warehouse", f"default={warehouse or folder / 'warehouse'}", *options]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_until_ready(port, process, "/readyz", log=folder / "server.log")
        yield f"http://{ports.HOST}:{port}", process
    finally:
        process.terminate()
        process.wait(60)


def wait_until_ready(
    port: int, process: subprocess.Popen[bytes], path: str, *, log: Path, seconds: float = 180
) -> None:
    """Returns when GET `path` answers 200; a server that died or never answers is an error with the end of its log."""
    deadline = time.monotonic() + seconds
    while ports.http_status(port, path) != 200:
        if process.poll() is not None or time.monotonic() > deadline:
            word = "ended" if process.poll() is not None else f"is not ready after {seconds:g} s"
            raise RuntimeError(
                f"{process.args!r} {word}; the end of its log:\n{log.read_text(errors='replace')[-3000:]}"
            )
        time.sleep(0.05)
