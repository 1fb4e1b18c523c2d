"""What `spark-submit` runs: the command line of Frazil, as the driver of a pipeline whose JVM is there already."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path


def main() -> None:
    """Does the errand; the exit code is that of the command."""
    from frazil import cli
    from frazil.spark import ERRAND, Errand

    errand = Errand.from_json(os.environ.pop(ERRAND))
    part = Path(f"{errand.pid_file}.part")
    part.write_text(str(os.getpid()))
    part.replace(errand.pid_file)
    threading.Thread(target=_end_with, args=(errand.parent, errand.parent_started), daemon=True).start()
    if errand.output:
        output = os.open(errand.output, os.O_WRONLY | os.O_APPEND)
        os.dup2(output, sys.stdout.fileno())
    sys.argv = ["frazil", *errand.arguments]  # in memory alone: `ps` does not see it
    cli.main()


def _end_with(parent: int, started: str) -> None:
    """Ends this process when the one that submitted it is gone, killed perhaps: its output would be lost."""
    from frazil import processes

    while processes.is_running(processes.ProcessId(parent, started)):
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose modules are not meant to be found by their bare names
    main()
