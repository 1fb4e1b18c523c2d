"""`frazil serve` in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from frazil.processes import wait_until


@contextmanager
def serving(folder: Path, environment: Mapping[str, str], places: Mapping[str, str], *more: str) -> Iterator[str]:
    """The address of a server with these warehouses; `server.log` in the folder has what it says."""
    command = [sys.executable, "-m", "frazil", "serve", "--port", "0", "--log-level", "debug", *more]
    command += [part for name, place in places.items() for part in ("--warehouse", f"{name}={place}")]
    log = folder / "server.log"
    with (
        log.open("w") as file,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=file, stderr=file) as server,
    ):
        try:
            assert wait_until(lambda: "catalog on http://" in log.read_text() or server.poll() is not None, 60)
            yield re.findall(r"catalog on (http://\S+)", log.read_text())[0]
        finally:
            server.terminate()
