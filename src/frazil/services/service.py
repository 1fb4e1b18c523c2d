"""The base of a local server: start, ready, stop.

A service is a class with four answers: `version` (what would run), `prepare` (make its data folder), `launch` (command
line, environment, configuration files) and `ready` (one quick look). The base does the rest: one start at a time (a
lock), the port and disk checks, a process that survives its parent, the wait with a deadline, and an error that shows
the end of the log.

    <stack folder>/<name>/  data/  server.log  state.json (pid, start time, ports, version)  lock
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from frazil import processes
from frazil.config import Settings, with_stack_secrets
from frazil.errors import DiskFull, PortInUse, ServiceDied, ServiceError, ServiceNotReady
from frazil.local_stack import make_private_folder, write_private
from frazil.processes import Launch, ProcessId
from frazil.services import ports

LOCK = "lock"  # a file of the service's folder, made by its first start
_ATTEMPTS = 3  # of a start whose internal ports were taken in between
Report = Callable[[str], None]  # told what is going on, in a few words: "starting", "downloading trino-server 40%"


def silent(_: str) -> None:
    """For callers that want no progress."""


@dataclass(frozen=True)
class ServiceStatus:
    """What one service is doing now; `state` is ready, starting, failed or stopped."""

    service: str
    state: str
    port: int
    endpoint: str
    pid: int | None = None
    version: str | None = None
    memory_bytes: int | None = None
    log: str | None = None


class Service(ABC):
    """A server of the local stack."""

    name: ClassVar[str]  # as people write it: object-store
    requires: ClassVar[tuple[str, ...]] = ()  # services of the same stack that must be ready before this one starts
    extra_ports: ClassVar[tuple[str, ...]] = ()  # internal ports: chosen free, remembered in the state file
    scheme: ClassVar[str] = "http"
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    stop_seconds: ClassVar[float] = 20.0
    min_free_bytes: ClassVar[int] = 64 * 1024 * 1024

    def __init__(self, settings: Settings) -> None:
        self.settings = with_stack_secrets(settings, settings.stack.folder.absolute())
        self.folder = settings.stack.folder.absolute() / self.name
        self.data = self.folder / "data"
        self.log = self.folder / "server.log"
        self.state_file = self.folder / "state.json"

    # --- what each service answers -----------------------------------------------------------------------------------

    @abstractmethod
    def version(self) -> str:
        """The version that would run, such as `4.48`."""

    @abstractmethod
    def launch(self) -> Launch:
        """How the server is started; decides only, changes nothing."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether the server does its work now; one attempt of some seconds at most, never raises."""

    def prepare(self, report: Report = silent) -> None:
        """Makes what the first start needs: downloads, a formatted data folder."""
        self.data.mkdir(parents=True, exist_ok=True)

    # --- what callers use --------------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        number: int = getattr(self.settings.stack.ports, self.name.replace("-", "_"))
        return number

    @property
    def endpoint(self) -> str:
        return f"{self.scheme}://{ports.HOST}:{self.port}"

    @property
    def disk_folder(self) -> Path:
        """Where the data lies, and so the disk that must have room."""
        return self.folder

    def extra_port(self, name: str) -> int:
        """One of `extra_ports`, as remembered from the last start."""
        number: int = self.state()["ports"][name]
        return number

    def start(self, report: Report = silent) -> bool:
        """The server runs and is ready. True if it was started now, False if it was left alone."""
        with self._translated_errors(), self._lock():
            self.settings = with_stack_secrets(self.settings, self.folder.parent, make=True)
            running = self.process()
            if running and self._unchanged() and self._adopt(running, report):
                return False
            self._stop(report)
            report("preparing")
            self._check_disk()
            self._begin_log()
            self.prepare(report)
            self._start(report)
        return True

    def stop(self, report: Report = silent) -> bool:
        """No process of this service is left. True if there was one."""
        if not self.folder.exists():
            return False
        with self._lock():
            return self._stop(report)

    def purge_paths(self) -> list[Path]:
        """What holds this service's data, for a preview and for deletion."""
        return [self.folder] if self.folder.exists() else []

    def process(self) -> ProcessId | None:
        """The server's process, if it runs; one whose parent died before writing the pid down is found as well."""
        state = self.state()
        if state.get("pid"):
            recorded = ProcessId(state["pid"], state["started"])
            if processes.is_running(recorded):
                return recorded
        return next(iter(processes.marked(self.folder)), None)

    def status(self) -> ServiceStatus:
        process = self.process()
        state = self.state()
        word = "stopped" if process is None else "ready" if self.ready() else "starting"
        if process is None and state.get("pid"):
            word = "failed"  # it was not stopped by us
        return ServiceStatus(
            service=self.name,
            state=word,
            port=self.port,
            endpoint=self.endpoint,
            pid=process.pid if process else None,
            version=state.get("version"),
            memory_bytes=processes.memory_bytes(process.pid) if process else None,
            log=str(self.log) if self.log.exists() else None,
        )

    def state(self) -> dict[str, Any]:
        """What the last start wrote down; empty when there was none, or when it was cut short."""
        try:
            state: dict[str, Any] = json.loads(self.state_file.read_text())
        except (OSError, ValueError):
            return {}
        return state

    def log_tail(self, lines: int = 15) -> str:
        """The end of the log of the last start."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - 64 * 1024))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.rpartition(_START_MARK)[2].splitlines()[1:][-lines:])

    # --- the steps of a start ----------------------------------------------------------------------------------------

    def _start(self, report: Report) -> None:
        """The server is started and ready; one that died since another process took one of its internal ports first
        gets others.
        """
        for attempts_left in reversed(range(_ATTEMPTS)):
            self._choose_extra_ports()
            self._check_port()
            process = self._spawn(report)
            try:
                self._wait_ready(process, report, seconds=self.settings.stack.ready_seconds)
                return
            except ServiceDied:
                if not attempts_left or not self.lost_port():
                    raise
                report("an internal port was taken: starting again")

    def lost_port(self) -> bool:
        """Whether a server that died could do better with other internal ports."""
        return any(not ports.is_free(port) for port in self.state()["ports"].values())

    def _unchanged(self) -> bool:
        """Whether the running server was started as it would be now; after a change of settings it is not, and is
        restarted.
        """
        state = self.state()
        if any(name not in state.get("ports", {}) for name in self.extra_ports):
            return False
        return bool(state.get("fingerprint") == _fingerprint(self.launch()))

    def _adopt(self, running: ProcessId, report: Report) -> bool:
        """Waits for a server that another process started; False if it does not become ready. Waits as long as for a
        new one.
        """
        try:
            self._wait_ready(running, report, seconds=self.settings.stack.ready_seconds)
        except ServiceError:
            return False
        return True

    def _check_disk(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        free = self._free_bytes()
        if free < self.min_free_bytes:
            raise self._disk_full(f"{free / 2**20:.0f} MB free, {self.min_free_bytes / 2**20:.0f} MB needed")

    def _begin_log(self) -> None:
        if self.log.exists() and self.log.stat().st_size > _LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.old"))
        with self.log.open("a") as file:
            file.write(f"{_START_MARK} {self.name} at {time.strftime('%Y-%m-%d %H:%M:%S')}\n")

    def _free_bytes(self) -> int:
        existing = next(path for path in (self.disk_folder, *self.disk_folder.parents) if path.exists())
        return shutil.disk_usage(existing).free

    def _choose_extra_ports(self) -> None:
        known: dict[str, int] = self.state().get("ports", {})
        reserved = [port for _, port in self.settings.stack.ports]  # of services that may be about to start
        for name in self.extra_ports:
            if name not in known or not ports.is_free(known[name]):
                known[name] = self.choose_port(name, avoid=[*reserved, *known.values()])
        self._write_state({**self.state(), "ports": known})

    def choose_port(self, name: str, *, avoid: list[int]) -> int:  # a service may treat one by name
        return ports.free_port(avoid=avoid)

    def _check_port(self) -> None:
        deadline = time.monotonic() + DYING_SECONDS
        while not ports.is_free(self.port):
            owner = ports.owner(self.port)
            # a server that was killed has it until the last of its threads is gone
            if owner is None and time.monotonic() < deadline:
                time.sleep(0.1)
                continue
            key = f"stack.ports.{self.name.replace('-', '_')}"
            hint = (
                f"stop that process, or choose another port: frazil --set {key}={ports.free_port()} up (or {key} "
                f"in frazil.toml)"
            )
            raise PortInUse(self.name, self.port, owner=owner, hint=hint)

    def _spawn(self, report: Report) -> ProcessId:
        report("starting")
        launch = self.launch()
        for path, text in launch.files.items():
            write_private(path, text)
        process = processes.spawn(launch, log=self.log, marker=self.folder)
        facts = {
            "version": self.version(),
            "port": self.port,
            "fingerprint": _fingerprint(launch),
            "started_at": time.time(),
        }
        try:
            self._write_state({**self.state(), **asdict(process), **facts})
        except OSError:
            processes.kill(process)  # a server without a state file must not stay
            raise
        return process

    def _wait_ready(self, process: ProcessId, report: Report, *, seconds: float) -> None:
        report("waiting until ready")
        deadline = time.monotonic() + seconds
        while not self.ready():
            if not processes.is_running(process):
                raise self._died()
            if time.monotonic() > deadline:
                processes.stop(process, sign=self.stop_signal, seconds=self.stop_seconds)
                raise self._not_ready(seconds)
            time.sleep(0.05)

    def _died(self) -> ServiceError:
        if self._disk_is_full():
            return self._disk_full("the server ended while starting")
        hint = (
            f"the whole log: frazil logs {self.name}. If its data is damaged and can go: frazil down --purge, then "
            f"frazil up"
        )
        return ServiceDied(
            self.name, "the server ended while starting", hint=hint, log=self.log, log_tail=self.log_tail()
        )

    def _not_ready(self, seconds: float) -> ServiceError:
        problem = f"not ready after {seconds:g} s"
        if self._disk_is_full():
            return self._disk_full(problem)
        hint = f"the whole log: frazil logs {self.name}. On a slow machine: frazil --set stack.ready_seconds=300 up"
        return ServiceNotReady(self.name, problem, hint=hint, log=self.log, log_tail=self.log_tail())

    def _disk_is_full(self) -> bool:
        return os.strerror(errno.ENOSPC) in self.log_tail() or self._free_bytes() < 64 * 1024

    def _disk_full(self, problem: str) -> DiskFull:
        tail = self.log_tail()
        hint = "free some space, or put the stack elsewhere: frazil --set stack.folder=/a/larger/disk up"
        return DiskFull(
            self.name, f"no room on the disk of {self.disk_folder}: {problem}", hint=hint, log=self.log, log_tail=tail
        )

    def _stop(self, report: Report) -> bool:
        """Asks politely, waits, then kills; also whatever carries this service's mark."""
        process = self.process()
        if process is not None:
            report("stopping")
            processes.stop(process, sign=self.stop_signal, seconds=self.stop_seconds)
        for rest in processes.marked(self.folder):
            processes.kill(rest)
        state = self.state()
        if state.pop("pid", None):
            try:
                self._write_state(state)
            except OSError:  # a full disk is no reason to keep a server running
                self.state_file.unlink()
        return process is not None

    def _write_state(self, state: dict[str, Any]) -> None:
        write_private(self.state_file, json.dumps(state, indent=2))

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Only one process at a time starts or stops this service; the lock goes with its holder, so a killed one
        leaves none.
        """
        make_private_folder(self.folder)
        with (self.folder / LOCK).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            if exc.errno in (errno.ENOSPC, errno.EDQUOT):
                raise self._disk_full(str(exc)) from exc
            if isinstance(exc, PermissionError):
                hint = "another user made it: run as that user, or use another folder: frazil --set stack.folder=... up"
                raise ServiceError(self.name, f"could not start: {exc}", hint=hint) from exc
            raise ServiceError(self.name, f"could not start: {exc}", hint="frazil doctor", log=self.log) from exc


_START_MARK = "---- frazil starts"
_LOG_BYTES = 32 * 1024 * 1024  # a longer log is rotated at the next start
DYING_SECONDS = 10.0


def _fingerprint(launch: Launch) -> str:
    """A short text that changes with anything that a start depends on."""
    files = sorted((str(path), text) for path, text in launch.files.items())
    facts = [
        list(launch.argv),
        sorted(launch.env.items()),
        sorted(launch.secrets.items()),
        files,
        list(launch.depends_on),
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
