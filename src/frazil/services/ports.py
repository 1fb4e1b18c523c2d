"""Ports on loopback: free ones, taken ones, and who took them."""

from __future__ import annotations

import contextlib
import http.client
import random
import socket
from collections.abc import Collection
from pathlib import Path

from frazil import processes

HOST = "127.0.0.1"
ANSWER_SECONDS = 5.0  # a server that takes longer is not ready; one on a busy machine may well take two
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
    next start.
    """
    while True:
        port = random.randrange(10_000, 32_000 - offset)  # noqa: S311  # no secret
        if not {port, port + offset} & set(avoid) and is_free(port) and is_free(port + offset):
            return port


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
