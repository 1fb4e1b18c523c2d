"""What every command gets: the settings, read once when first asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import click

from frazil.config import Settings, load_settings, redact_url
from frazil.errors import CatalogError, ConfigError, Unavailable
from frazil.served import FILE_NAME as SERVED_FILE
from frazil.served import Served, read_served

if TYPE_CHECKING:
    from frazil.client import FrazilCatalog


@dataclass
class Context:
    """The object behind `@click.pass_obj`."""

    profile: str | None = None
    overrides: dict[str, str] = field(default_factory=dict)

    @cached_property
    def settings(self) -> Settings:
        return load_settings(flags=self.overrides, profile=self.profile)

    @cached_property
    def catalog(self) -> FrazilCatalog:
        from pyiceberg.exceptions import RESTError
        from requests import RequestException
        from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema

        from frazil.client import connect

        where = f"{redact_url(self.settings.catalog.uri)} ({self.settings.source_of('catalog.uri')})"
        hint = "start one with: frazil serve (or frazil up); or name another: frazil --set catalog.uri=http://..."
        self._check_served()
        try:
            return connect(self.settings)
        except Unavailable as exc:
            raise Unavailable(f"no catalog answers at {where}", hint=hint) from exc
        except (InvalidSchema, InvalidURL, MissingSchema) as exc:
            raise ConfigError(f"catalog.uri is {where}, which cannot be called", hint=hint) from exc
        except (
            RESTError,
            RequestException,
            NotImplementedError,
            ValueError,
        ) as exc:  # 501 is the third, JSON of another kind the last
            raise CatalogError(
                f"what answers at {where} refused, or is no Iceberg REST catalog: {_short(exc)}", hint=hint
            ) from exc

    def announce(self) -> FrazilCatalog:
        """The catalog, after saying on stderr which one it is: commands that write do this first."""
        catalog, served = self.catalog, self._served()
        warehouse = catalog.properties.get("prefix") or self.settings.catalog.warehouse or "default"
        place = served.warehouses.get(warehouse) if served and served.uri == self.settings.catalog.uri else None
        where = f"{redact_url(self.settings.catalog.uri)} ({self.settings.source_of('catalog.uri')})"
        click.echo(f"catalog {where}, warehouse {warehouse}{f' ({place})' if place else ''}", err=True)
        return catalog

    def _served(self) -> Served | None:
        return read_served(self.settings.stack.folder.absolute())

    def _check_served(self) -> None:
        """A catalog that was started for this project and has ended is not looked for: another server may have its port
        by now.
        """
        served = self._served()
        if served is None or served.is_running or not self.settings.source_of("catalog.uri").endswith(SERVED_FILE):
            return
        again = "frazil up" if served.command == "up" else f"frazil serve --port {served.uri.rpartition(':')[2]}"
        raise Unavailable(
            f"the catalog of this project does not run: it was started by 'frazil {served.command}' at {served.uri}",
            hint=f"start it again: {again}; or name another: frazil --set catalog.uri=http://...",
        )

    def settings_with(self, **flags: object) -> Settings:
        """The settings with a command's own flags on top; `server__port=1` is `server.port`, and None means
        not given.
        """
        given = {key.replace("__", "."): str(value) for key, value in flags.items() if value is not None}
        return load_settings(flags={**self.overrides, **given}, profile=self.profile)


def _short(exc: Exception) -> str:
    """Its first line, without the web page that may follow."""
    return next(iter(str(exc).splitlines()), type(exc).__name__)[:200]
