"""Processes that outlive their parent: started in a session of their own, found again by pid and start time, stopped
without a rest.

A pid alone is not an identity: the kernel hands it out again. So a process is remembered with its start time, and a
process with the same pid and another start time is a different one. Every server also carries `FRAZIL_SERVICE_FOLDER`
in its environment, by which it is found even when the parent was killed between starting it and writing its pid down.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MARKER = "FRAZIL_SERVICE_FOLDER"
PR_SET_DUMPABLE = 4  # of sys/prctl.h
_PROC = Path("/proc")


@dataclass(frozen=True)
class Account:
    """The user that a server runs as, when it is not the one who called."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class Launch:
    """All that starting a server takes: decided first, compared with what runs, then done.

    `files` are written before the start; `secrets` are added to the environment like `env`, but never printed; `unset`
    names variables of the caller that would mislead the server; `depends_on` holds what else it was prepared with, so
    that a change of it is seen.
    """

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    unset: Sequence[str] = ()
    files: Mapping[Path, str] = field(default_factory=dict, repr=False)
    depends_on: Sequence[str] = field(default=(), repr=False)
    cwd: Path | None = None
    account: Account | None = None


@dataclass(frozen=True)
class ProcessId:
    """One process for all time: its pid, and when it started."""

    pid: int
    started: str


class _Detached(subprocess.Popen[bytes]):
    """A child that is meant to outlive this process, so no warning is due when the object goes first."""

    def __del__(self, *_: Any) -> None:
        pass


# held so that a dead child of this very process is reaped, and not seen as running
_children: dict[int, _Detached] = {}


def spawn(launch: Launch, *, log: Path, marker: Path) -> ProcessId:
    """The server's process, running in its own session with its output appended to `log`."""
    inherited = {name: value for name, value in os.environ.items() if name not in launch.unset}
    env = {**inherited, **launch.env, **launch.secrets, MARKER: str(marker)}
    as_user: dict[str, Any] = {}
    if launch.account is not None:
        as_user = {"user": launch.account.uid, "group": launch.account.gid, "extra_groups": [launch.account.gid]}
    with log.open("ab") as output:
        child = _Detached(
            list(launch.argv),
            env=env,
            cwd=launch.cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **as_user,
        )
    _children[child.pid] = child
    return ProcessId(child.pid, start_time(child.pid) or "")


def start_time(pid: int) -> str | None:
    """When the process started, in a form that differs between two processes of one pid; None when there is no such
    process.
    """
    if pid in _children and _children[pid].poll() is not None:
        return None
    if not _PROC.joinpath("self").exists():
        return _start_time_by_ps(pid)
    fields = _stat(pid)
    # A zombie has ended; only its parent has not looked yet.
    return None if fields is None or fields[0] in "ZX" else f"{_boot_id()}/{fields[19]}"


def is_running(process: ProcessId) -> bool:
    return start_time(process.pid) == process.started


def marked(folder: Path) -> list[ProcessId]:
    """Every process that was started for the service in `folder`, its children included."""
    wanted = f"{MARKER}={folder}".encode()
    matching = []
    for pid in _pids():
        with contextlib.suppress(OSError):
            if wanted in _PROC.joinpath(str(pid), "environ").read_bytes().split(b"\0") and (started := start_time(pid)):
                matching.append(ProcessId(pid, started))
    return matching


def stop(process: ProcessId, *, sign: signal.Signals, seconds: float) -> bool:
    """Asks the process to end and waits; after `seconds` it is killed. True if it ended by itself."""
    if not is_running(process):
        return True
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, sign)
    if wait_until(lambda: not is_running(process), seconds):
        return True
    kill(process)
    return False


def kill(process: ProcessId) -> None:
    """Ends the process and its whole group at once."""
    if is_running(process):
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if _is_leader(process.pid) else os.kill)(process.pid, signal.SIGKILL)
        wait_until(lambda: not is_running(process), 10)


def wait_until(condition: Callable[[], bool], seconds: float, *, pause: float = 0.02) -> bool:
    """True as soon as the condition holds, False once the time is over."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


def memory_bytes(pid: int) -> int | None:
    """Memory in use by the process and its descendants; pages that children share with it are counted once."""
    if (own := _statm(pid)) is None:
        return None
    children = (_statm(child) or (0, 0) for child in _descendants(pid))
    return own[0] + sum(resident - shared for resident, shared in children)


def command_name(pid: int) -> str | None:
    """A short name for people: `java (pid 12)`."""
    try:
        return f"{_PROC.joinpath(str(pid), 'comm').read_text().strip()} (pid {pid})"
    except OSError:
        return None


# --- /proc -----------------------------------------------------------------------------------------------------------


def _pids() -> Iterator[int]:
    if _PROC.exists():
        yield from (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name, which may itself hold spaces and brackets."""
    try:
        return _PROC.joinpath(str(pid), "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _statm(pid: int) -> tuple[int, int] | None:
    """Resident and shared bytes."""
    try:
        fields = _PROC.joinpath(str(pid), "statm").read_text().split()
    except OSError:
        return None
    page = os.sysconf("SC_PAGE_SIZE")
    return int(fields[1]) * page, int(fields[2]) * page


def _descendants(pid: int) -> list[int]:
    parents = {child: int(fields[1]) for child in _pids() if (fields := _stat(child)) is not None}
    family = [pid]
    for parent in family:  # grows while it is walked
        family += [child for child, its_parent in parents.items() if its_parent == parent]
    return family[1:]


def _is_leader(pid: int) -> bool:
    try:
        return os.getpgid(pid) == pid
    except ProcessLookupError:
        return False


def _boot_id() -> str:
    # Start times count from boot: after a restart of the machine the same pid with the same ticks is possible.
    try:
        return _PROC.joinpath("sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        return "-"


def _start_time_by_ps(pid: int) -> str | None:
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split()
    return None if not answer or answer[0].startswith("Z") else " ".join(answer[1:])


def write_no_core() -> None:
    """A crash leaves no memory image: it would hold tokens, the pepper and the database's password."""
    import ctypes
    import resource  # not on Windows

    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    # Linux hands a core to a program (core_pattern with `|`) whatever the limit is, but not that of such a process.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
