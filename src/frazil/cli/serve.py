"""`frazil serve`: the Iceberg REST catalog."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from frazil.cli.context import Context
from frazil.cli.show import echo
from frazil.errors import ConfigError, PortInUse
from frazil.processes import MARKER
from frazil.served import Served, reachable_uri, read_all, record_served

if TYPE_CHECKING:
    from frazil.catalog import ServerOptions
    from frazil.config import ServerSettings


@click.command()
@click.option("--host", metavar="ADDRESS", help="Listen on this address.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Listen on this port; 0 takes a free one.  [default: 8181]")
@click.option(
    "--workers", type=click.IntRange(1), help="Worker processes that share the port and the database.  [default: 1]"
)
@click.option(
    "--database",
    metavar="URL",
    help="sqlite:///file.db or postgresql://user@host/name.  [default: sqlite:///.frazil/catalog/catalog.db]",
)
@click.option(
    "--warehouse",
    "warehouses",
    multiple=True,
    metavar="[NAME=]LOCATION",
    help="Where tables live: a folder or s3://bucket/path. May be repeated.",
)
@click.option(
    "--allow-location",
    "allowed",
    multiple=True,
    metavar="PREFIX",
    help="A prefix outside the warehouses where tables may lie. May be repeated.",
)
@click.option(
    "--allow-property",
    "properties",
    multiple=True,
    metavar="PATTERN",
    help="A table property that is accepted though clients act on it, such as write.location-provider.impl or s3.*. "
    "May be repeated.",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A name under which clients or a proxy reach the server; *.example.org for all below. May be repeated.",
)
@click.option(
    "--allow-overlap", is_flag=True, default=None, help="Tables, and warehouses, may lie in each other's folders."
)
@click.option(
    "--authentication",
    type=click.Choice(["off", "keys"]),
    help="keys: every request needs an API key of 'frazil token create'.  [default: off]",
)
@click.option("--tls-certificate", metavar="FILE", help="Serve HTTPS with this certificate (PEM, with its chain).")
@click.option("--tls-key", metavar="FILE", help="The private key of the certificate (PEM).")
@click.option(
    "--behind-proxy", is_flag=True, default=None, help="A proxy in front terminates TLS: allow other addresses without."
)
@click.option("--console/--no-console", default=None, help="Serve the console at /.  [default: yes]")
@click.option("--upkeep", is_flag=True, default=None, help="Maintain tables, in a process next to the server.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.pass_obj
def serve(
    context: Context,
    /,
    host: str | None,
    port: int | None,
    workers: int | None,
    database: str | None,
    warehouses: Sequence[str],
    allowed: Sequence[str],
    properties: Sequence[str],
    allow_overlap: bool | None,
    allowed_hosts: Sequence[str],
    log_level: str,
    **access: str | bool | None,
) -> None:
    """Serve the Iceberg REST catalog.

    The console is at /, in a browser. Any address but the loopback interface needs authentication, and TLS or a proxy
    that terminates it.
    """
    flags = {"host": host, "port": port, "workers": workers, "database": database, "allow_overlap": allow_overlap}
    settings = context.settings_with(**{f"server__{key}": value for key, value in (flags | access).items()}).server
    from frazil.catalog import check_exposure, listen
    from frazil.catalog import serve as run

    options = _options(settings, log_level, warehouses, allowed, properties, allowed_hosts)
    options = replace(options, upkeep_on_request=context.settings.upkeep)
    if settings.upkeep:
        options = replace(options, upkeep=context.settings.upkeep)
    try:
        listener = listen(settings.host, settings.port)
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            raise PortInUse("catalog", settings.port, hint="frazil serve --port 0 takes a free one") from exc
        raise ConfigError(
            f"cannot listen on {settings.host}, port {settings.port}: {exc.strerror}",
            hint="frazil serve --host 127.0.0.1",
        ) from exc
    address, bound = listener.getsockname()[:2]
    scheme = "https" if options.certificate else "http"

    def announce() -> None:
        if MARKER not in os.environ:  # `frazil up` records what it starts
            _record(context, reachable_uri(address, bound, scheme), options.warehouses)
        echo(f"Iceberg REST catalog on {scheme}://{address}:{bound}", err=True)
        if settings.console:
            echo(f"console at {scheme}://{address}:{bound}/", err=True)

    with listener:
        check_exposure(options, address)
        run(options, listener, workers=settings.workers, opened=announce)


def _options(
    settings: ServerSettings,
    log_level: str,
    warehouses: Sequence[str],
    allowed: Sequence[str],
    properties: Sequence[str],
    allowed_hosts: Sequence[str],
) -> ServerOptions:
    """The options of a server: the lists of flags, if they are given, win over the settings."""
    from frazil.catalog import ServerOptions

    return ServerOptions(
        settings.database.get_secret_value(),
        parse_warehouses(warehouses) or dict(settings.warehouses),
        tuple(allowed) or settings.allow_locations,
        allow_properties=tuple(properties) or settings.allow_properties,
        allowed_hosts=tuple(allowed_hosts) or settings.allowed_hosts,
        host=settings.host,
        limits=settings.limits,
        storage=settings.storage,
        log_level=log_level,
        allow_overlap=settings.allow_overlap,
        rebase_appends=settings.rebase_appends,
        authentication=settings.authentication,
        pepper_file=_text(settings.pepper_file),
        certificate=_text(settings.tls_certificate),
        certificate_key=_text(settings.tls_key),
        behind_proxy=settings.behind_proxy,
        public_uri=settings.public_uri,
        oidc=settings.oidc,
        secret_key=settings.secret_keys[0],
        secret_key_file=settings.secret_keys[1],
        routes_of=("frazil.console",) if settings.console else (),
        project=str(Path.cwd()),
    )


def _text(path: Path | None) -> str | None:
    return str(path) if path is not None else None


def _record(context: Context, uri: str, warehouses: Mapping[str, str]) -> None:
    """Makes this catalog the one that commands in this folder use, and says which one that was before."""
    folder = context.settings.stack.folder.absolute()
    other = next((entry for entry in read_all(folder) if entry.command == "up"), None)
    if other is not None:
        state = "runs at" if other.is_running else "was at"
        echo(
            f"note: 'frazil up' has a catalog of its own here, which {state} {other.uri}; its tables are not in this "
            f"one",
            err=True,
        )
    places = {name: place if ":" in place else str(Path(place).absolute()) for name, place in warehouses.items()}
    record_served(folder, Served("serve", uri, os.getpid(), places))


def parse_warehouses(texts: Sequence[str]) -> dict[str, str]:
    """
    >>> parse_warehouses(["lake", "cold=s3://b/c"])
    {'default': 'lake', 'cold': 's3://b/c'}
    """
    warehouses: dict[str, str] = {}
    for text in texts:
        name, sign, location = text.partition("=")
        named = bool(sign) and "/" not in name and ":" not in name
        warehouses[name if named else "default"] = location if named else text
    return warehouses
