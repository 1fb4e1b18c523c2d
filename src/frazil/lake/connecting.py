"""Connects to a catalog: by its address and properties, or as the settings of the current folder say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.errors import ArgumentError, CatalogError, ConfigError, Unavailable

if TYPE_CHECKING:
    from frazil.client import FrazilCatalog
    from frazil.config import Settings

HINT = "start one with: frazil serve (or frazil up); or name another: frazil --set catalog.uri=http://..."


def connection_settings(uri: str | None, properties: dict[str, str]) -> Settings:
    """The settings of the current folder, with the address and PyIceberg properties of a call on top."""
    from frazil.config import load_settings, property_flags

    if uri is not None and not isinstance(uri, str):
        raise ArgumentError("uri", uri, expected="the address of a REST catalog, such as 'http://127.0.0.1:8181'")
    if (kind := properties.get("type", "rest")) != "rest":
        raise ConfigError(
            f"type is '{kind}': Frazil connects to Iceberg REST catalogs",
            hint="leave out type=",
            option="type",
            expected="rest",
            got=kind,
        )
    settings = {**({} if uri is None else {"uri": uri}), **properties}
    return load_settings(flags=property_flags(settings), flag_source="argument of connect()")


def open_catalog(settings: Settings) -> FrazilCatalog:
    """The client of the catalog that the settings name; an error that says which one it is if it does not answer."""
    from pyiceberg.exceptions import RESTError
    from requests import RequestException
    from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema

    from frazil.client import connect
    from frazil.config import redact_url

    address = redact_url(settings.catalog.uri)
    where = f"{address} ({settings.source_of('catalog.uri')})"
    check_served(settings)
    try:
        return connect(settings)
    except Unavailable as exc:
        raise Unavailable(f"no catalog answers at {where}", hint=HINT, problem="unreachable", name=address) from exc
    except (InvalidSchema, InvalidURL, MissingSchema) as exc:
        raise ConfigError(
            f"catalog.uri is {where}, which cannot be called", hint=HINT, option="catalog.uri", got=address
        ) from exc
    # 501 is a NotImplementedError, JSON of another kind a ValueError
    except (RESTError, RequestException, NotImplementedError, ValueError) as exc:
        raise CatalogError(
            f"what answers at {where} refused, or is no Iceberg REST catalog: {_first_line(exc)}", hint=HINT
        ) from exc


def check_served(settings: Settings) -> None:
    """Raises `Unavailable` if the project's own catalog has ended: another server may have its port by now."""
    from frazil.served import FILE_NAME, read_served

    served = read_served(settings.stack.folder.absolute())
    if served is None or served.is_running or not settings.source_of("catalog.uri").endswith(FILE_NAME):
        return
    again = "frazil up" if served.command == "up" else f"frazil serve --port {served.uri.rpartition(':')[2]}"
    raise Unavailable(
        f"the catalog of this project does not run: it was started by 'frazil {served.command}' at {served.uri}",
        hint=f"start it again: {again}; or name another: frazil --set catalog.uri=http://...",
        problem="not-running",
        name=served.uri,
    )


def _first_line(exc: Exception) -> str:
    """The first line of an error, without the web page that may follow."""
    return next(iter(str(exc).splitlines()), type(exc).__name__)[:200]
