"""Every error that Frazil raises, as one tree.

    FrazilError                      base; `hint` says what to do next
    ├── ConfigError                  a setting is wrong; names the key and where it came from
    ├── MissingExtra                 a heavy library is not installed; says the install command
    ├── DownloadError                an artifact could not be fetched into the cache
    └── ServiceError                 a server of the local stack; carries the service's name and the end of its log
        ├── PortInUse
        ├── JavaMissing
        ├── DiskFull
        ├── ServiceDied
        └── ServiceNotReady

A class exists for each thing that a caller can do differently; its facts are attributes.
"""

from __future__ import annotations

from pathlib import Path


class FrazilError(Exception):
    """Base of all errors: a message that names the thing and what was found, and a hint with the next step."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class ConfigError(FrazilError):
    """A setting is unknown or has a value of the wrong kind."""

    exit_code = 2


class MissingExtra(FrazilError):
    """A library that belongs to an extra is not installed."""

    def __init__(self, library: str, *, extra: str) -> None:
        super().__init__(
            f"{library} is not installed; it comes with the extra '{extra}'.",
            hint=f"pip install 'frazil[{extra}]'",
        )
        self.library = library
        self.extra = extra


class DownloadError(FrazilError):
    """An artifact could not be fetched into the cache."""

    def __init__(self, artifact: str, reason: str, *, hint: str | None = None) -> None:
        super().__init__(f"could not download {artifact}: {reason}", hint=hint)
        self.artifact = artifact


class ServiceError(FrazilError):
    """A server of the local stack failed; shows the end of its log."""

    def __init__(
        self, service: str, reason: str, *, hint: str | None = None, log: Path | None = None, log_tail: str = ""
    ) -> None:
        message = f"{service}: {reason}"
        if log_tail:
            message += f"\n  the end of {log}:\n" + "\n".join(f"    {line}" for line in log_tail.splitlines())
        super().__init__(message, hint=hint)
        self.service = service
        self.log = log
        self.log_tail = log_tail


class PortInUse(ServiceError):
    """Another process listens on the port that a service wants."""

    def __init__(self, service: str, port: int, *, owner: str | None = None, hint: str | None = None) -> None:
        by = f" by {owner}" if owner else ""
        super().__init__(service, f"port {port} is in use{by}", hint=hint)
        self.port = port


class JavaMissing(ServiceError):
    """No Java on the machine fits, and none could be installed."""


class DiskFull(ServiceError):
    """The folder of a service has no room left."""


class ServiceDied(ServiceError):
    """The server's process ended while it was starting."""


class ServiceNotReady(ServiceError):
    """The server runs, but did not answer its health check before the deadline."""
