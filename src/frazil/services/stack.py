"""All servers of one project together: which there are, in what order they start, and how several stacks keep out of
each other's way.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from frazil.config import Settings, with_stack_secrets
from frazil.errors import ConfigError
from frazil.local_stack import make_private_folder, ports_file, read_ports, secrets_file, write_private
from frazil.services import ports
from frazil.services.service import LOCK, Service, ServiceStatus

# In the order of starting; `down` goes the other way. Loaded on use: a stack without Kafka imports nothing of it.
SERVICES: dict[str, str] = {
    "object-store": "frazil.services.object_store:ObjectStore",
    "postgres": "frazil.services.postgres:Postgres",
    "kafka": "frazil.services.kafka:Kafka",
    "catalog": "frazil.services.catalog:Catalog",
    "trino": "frazil.services.trino:Trino",
    "spark": "frazil.services.spark:Spark",
}
PLAIN = ("object-store", "catalog")


@dataclass(frozen=True)
class Event:
    """What happened to a service; `done` and `error` tell how it ended."""

    service: str
    text: str
    done: bool = False
    error: Exception | None = None


Listener = Callable[[Event], None]


class Stack:
    """The servers of one stack folder. Settings with port 0 get a free port, which the folder remembers."""

    def __init__(self, settings: Settings) -> None:
        self.folder = settings.stack.folder.absolute()
        self.settings = with_stack_secrets(_with_known_ports(settings, self.folder), self.folder)

    def service(self, name: str) -> Service:
        """The service of that name, whether it runs or not."""
        module, _, attribute = SERVICES[check_name(name)].partition(":")
        cls: type[Service] = getattr(importlib.import_module(module), attribute)
        return cls(self.settings)

    def present(self) -> list[str]:
        """The plain services, and those that have been started here before, in starting order."""
        return [name for name in SERVICES if name in PLAIN or (self.folder / name / LOCK).exists()]

    def up(self, names: Iterable[str], listener: Listener) -> list[ServiceStatus]:
        """The services run and are ready. Those that do not wait for each other start at the same time; raises the
        first error.
        """
        chosen = {check_name(name) for name in names}
        _make_folder(self.folder)
        self.settings = with_stack_secrets(self.settings, self.folder, make=True)
        self.settings = _choose_ports(self.settings, self.folder, chosen)
        starts = {name: _Start(self.service(name)) for name in SERVICES if name in chosen}
        threads = [
            threading.Thread(target=start.run, args=(starts, listener), daemon=True) for start in starts.values()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for start in starts.values():
            if start.error is not None:
                raise start.error
        return [start.service.status() for start in starts.values()]

    def down(self, listener: Listener) -> list[str]:
        """No process of this stack is left; the names of those that ran."""
        stopped = []
        for name in reversed(self.present()):
            began = time.monotonic()
            if self.service(name).stop(partial(_tell, listener, name)):
                stopped.append(name)
                listener(Event(name, f"stopped in {time.monotonic() - began:.1f} s", done=True))
        return stopped

    def status(self) -> list[ServiceStatus]:
        return [self.service(name).status() for name in self.present()]

    def purge_paths(self) -> list[Path]:
        """Every folder that `purge` would delete."""
        return [path for name in self.present() for path in self.service(name).purge_paths()]

    def purge(self) -> None:
        """The stack's data is gone; call it after `down`."""
        for path in self.purge_paths():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for leftover in (ports_file(self.folder), secrets_file(self.folder), self.folder / "lock"):
            leftover.unlink(missing_ok=True)


def check_name(name: str) -> str:
    """The service's name as the stack writes it; `object_store` is taken as well."""
    written = name.strip().replace("_", "-")
    if written not in SERVICES:
        raise ConfigError(f"there is no service '{name}'", hint=f"known services: {', '.join(SERVICES)}", name=name)
    return written


def _make_folder(folder: Path) -> None:
    try:
        make_private_folder(folder)
        (folder / "lock").touch()
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise ConfigError(
            f"the stack's folder {folder} cannot be used: {reason}",
            hint="frazil --set stack.folder=/some/folder up",
            reason=reason,
        ) from exc


def _tell(listener: Listener, service: str, text: str) -> None:
    listener(Event(service, text))


class _Start:
    """One service on its way up: waits for those it requires, then starts."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.error: Exception | None = None
        self.over = threading.Event()

    def run(self, starts: Mapping[str, _Start], listener: Listener) -> None:
        name = self.service.name
        try:
            began = time.monotonic()
            for required in [starts[other] for other in self.service.requires if other in starts]:
                listener(Event(name, f"waits for {required.service.name}"))
                required.over.wait()
                if required.error is not None:
                    self.error = required.error
                    listener(
                        Event(name, f"not started: {required.service.name} failed", done=True, error=required.error)
                    )
                    return
            fresh = self.service.start(partial(_tell, listener, name))
            listener(Event(name, f"ready in {time.monotonic() - began:.1f} s" if fresh else "was ready", done=True))
        except Exception as exc:  # a fault of ours, too, must end `up` with an error: it happened in a thread
            self.error = exc
            listener(Event(name, "failed", done=True, error=exc))
        finally:
            self.over.set()


# --- ports -----------------------------------------------------------------------------------------------------------


def _with_known_ports(settings: Settings, folder: Path) -> Settings:
    """The settings with each port 0 replaced by the one that this stack uses, if it has one."""
    known = read_ports(folder)
    update = {key: known[key] for key, port in settings.stack.ports if port == 0 and key in known}
    chosen = settings.stack.ports.model_copy(update=update)
    return settings.model_copy(update={"stack": settings.stack.model_copy(update={"ports": chosen})})


def _choose_ports(settings: Settings, folder: Path, names: Iterable[str]) -> Settings:
    """The settings with a real port for every service; under a lock, so that two starts at once agree."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = read_ports(folder)
        for key in [name.replace("-", "_") for name in names]:
            if getattr(settings.stack.ports, key) == 0 and key not in known:
                taken = [*known.values(), *(port for _, port in settings.stack.ports)]
                known[key] = ports.free_port(avoid=taken)
                write_private(ports_file(folder), json.dumps(known, indent=2))
    return _with_known_ports(settings, folder)
