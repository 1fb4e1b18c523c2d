"""Errors of downloads and of the servers of the local stack."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from frazil.errors.base import Facts, FrazilError


class DownloadError(FrazilError):
    """An artifact could not be downloaded into the cache."""

    def __init__(self, artifact: str, reason: str, /, **facts: Unpack[Facts]) -> None:
        facts["reason"] = reason
        super().__init__(f"could not download {artifact}: {reason}", **facts)
        self.artifact = artifact


class ServiceError(FrazilError):
    """A server of the local stack failed; the message ends with the tail of its log."""

    def __init__(
        self, service: str, reason: str, *, hint: str | None = None, log: Path | None = None, log_tail: str = ""
    ) -> None:
        message = f"{service}: {reason}"
        if log_tail:
            message += f"\n  the end of {log}:\n" + "\n".join(f"    {line}" for line in log_tail.splitlines())
        super().__init__(message, hint=hint, reason=reason)
        self.service = service
        self.log = log
        self.log_tail = log_tail


class PortInUse(ServiceError):
    """Another process listens on the port of a service."""

    def __init__(self, service: str, port: int, *, owner: str | None = None, hint: str | None = None) -> None:
        by = f" by {owner}" if owner else ""
        super().__init__(service, f"port {port} is in use{by}", hint=hint)
        self.port = port
        self.owner = owner


class JavaMissing(ServiceError):
    """No installed Java has a supported version, and none could be installed."""


class DiskFull(ServiceError):
    """The disk of a service's folder is full."""


class ServiceDied(ServiceError):
    """The server's process exited while starting."""


class ServiceNotReady(ServiceError):
    """The server runs, but did not pass its health check before the deadline."""
