"""Ports on loopback: free ones, taken ones, and who took them."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import random
import socket
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from frazil import processes
from frazil.artifacts import cache_folder

HOST = "127.0.0.1"
ANSWER_SECONDS = 5.0  # a server that takes longer is not ready; one on a busy machine may well take two
RESERVED_SECONDS = 120.0  # how long a chosen port is left alone by other choosers, until its server listens
_RESERVATIONS = "ports"  # a file of the cache folder: a chosen port and when, a line each
_LISTEN = "0A"  # the state of a listening socket in /proc/net/tcp


def is_free(port: int) -> bool:
    """Whether a server could listen there; a connection still closing (TIME_WAIT) does not count."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, port))
        except OSError:
            return False
        return True


def free_port(*, avoid: Collection[int] = (), offset: int = 0) -> int:
    """A free port; with `offset`, port + offset is free as well.

    Both are below the range from which the system serves outgoing connections, so that none of those sits on it at the
    next start. They are reserved for a while: between the choice and the server's start, other processes of this user
    that choose a port choose another one.
    """
    while True:
        port = random.randrange(10_000, 32_000 - offset)  # noqa: S311  # no secret
        wanted = {port, port + offset}
        if not wanted & set(avoid) and all(map(is_free, wanted)) and _reserve(wanted):
            return port


def _reserve(wanted: Collection[int]) -> bool:
    """Whether these ports are ours now: no other process chose one of them a short time ago."""
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / _RESERVATIONS).open("a+", errors="replace") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            young = {port: since for port, since in _lines(file.read()) if time.time() - since < RESERVED_SECONDS}
            if young.keys() & set(wanted):
                return False
            file.truncate(0)
            file.writelines(f"{port} {since}\n" for port, since in (young | dict.fromkeys(wanted, time.time())).items())
    except OSError:  # no room, or a folder that cannot be written to: the ports are free, and that must do
        return True
    return True


def _lines(text: str) -> Iterator[tuple[int, float]]:
    """The port and the time of each line that has them; one that was cut short has not."""
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            port, since = line.split()
            yield int(port), float(since)


def accepts(port: int, *, seconds: float = ANSWER_SECONDS) -> bool:
    """Whether a server listens there."""
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=seconds):
        return True
    return False


def http_status(port: int, path: str, *, seconds: float = ANSWER_SECONDS) -> int | None:
    """The status of GET `path`, or None when nothing that speaks HTTP answers."""
    connection = http.client.HTTPConnection(HOST, port, timeout=seconds)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def owner(port: int) -> str | None:
    """Who listens on the port, such as `java (pid 12)`; None when the system does not tell."""
    inodes = _listening_inodes(port)
    for folder in Path("/proc").glob("[0-9]*/fd") if inodes else ():
        with contextlib.suppress(OSError):
            if any(str(link.readlink()) in inodes for link in folder.iterdir()):
                return processes.command_name(int(folder.parent.name))
    return None


def _listening_inodes(port: int) -> set[str]:
    wanted = f"{port:04X}"
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and fields[1].endswith(f":{wanted}"):
                    inodes.add(f"socket:[{fields[9]}]")
    return inodes
