"""Remembers in a project's folder which catalog `frazil serve` and `frazil up` serve there, so that the project's
commands use it.

`<stack folder>/catalog.json` holds one entry for `serve` and one for `up`, each with its address, warehouses and
process. The entry of a running server counts before one whose server has ended, and the later one before the earlier.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from frazil.local_stack import make_private_folder, write_private

FILE_NAME = "catalog.json"
Command = Literal["serve", "up"]


@dataclass(frozen=True)
class Served:
    """A catalog that was started for this project."""

    command: Command
    uri: str
    pid: int
    warehouses: Mapping[str, str] = field(default_factory=dict)
    at: float = field(default_factory=time.time)

    @property
    def is_running(self) -> bool:
        """Whether a process of its id is there; another program may have the id by now."""
        if os.name == "nt":
            return False  # there, no server of ours runs, and signal 0 is Ctrl-C
        try:
            os.kill(self.pid, 0)
        except PermissionError:
            return True
        except (OSError, OverflowError):
            return False
        return True


def record_served(folder: Path, served: Served) -> None:
    """Writes the entry into a project's folder. A folder that cannot be written has no entry: the server is of use
    without it.
    """
    _write(folder, {entry.command: entry for entry in read_all(folder)} | {served.command: served})


def forget_served(folder: Path, command: Command) -> None:
    """Removes the entry of a command, and the file with the last one."""
    others = {entry.command: entry for entry in read_all(folder) if entry.command != command}
    if others:
        _write(folder, others)
    else:
        (folder / FILE_NAME).unlink(missing_ok=True)


def _write(folder: Path, entries: Mapping[Command, Served]) -> None:
    with contextlib.suppress(OSError):
        make_private_folder(folder)
        write_private(
            folder / FILE_NAME,
            json.dumps({command: asdict(entry) for command, entry in entries.items()}, indent=2) + "\n",
        )


def read_served(folder: Path) -> Served | None:
    """The catalog of a project: the one that runs, else the one that was started last; None if none was
    started here.
    """
    return max(read_all(folder), key=lambda entry: (entry.is_running, entry.at), default=None)


def read_all(folder: Path) -> list[Served]:
    """Every entry; a file that cannot be understood has none."""
    try:
        stored: dict[str, dict[str, Any]] = json.loads((folder / FILE_NAME).read_text())
        return [Served(**entry) for entry in stored.values()]
    except (OSError, ValueError, TypeError, AttributeError):
        return []


def reachable_uri(host: str, port: int, scheme: str = "http") -> str:
    """The address at which this machine reaches a server that listens on `host`.

    >>> reachable_uri("0.0.0.0", 8181), reachable_uri("::", 8181), reachable_uri("10.0.0.1", 80)
    ('http://127.0.0.1:8181', 'http://[::1]:8181', 'http://10.0.0.1:80')
    """
    local = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # an address that is replaced
    return f"{scheme}://[{local}]:{port}" if ":" in local else f"{scheme}://{local}:{port}"
