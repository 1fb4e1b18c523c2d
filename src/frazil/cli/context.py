"""What every command gets: the settings, read once when first asked for, and how it talks to people and programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from frazil.cli.show import Talk, log
from frazil.config import Settings, load_settings, redact_url
from frazil.served import Served, read_served

if TYPE_CHECKING:
    from frazil.client import FrazilCatalog


@dataclass
class Context:
    """The object behind `@click.pass_obj`."""

    profile: str | None = None
    overrides: dict[str, str] = field(default_factory=dict)
    talk: Talk = field(default_factory=Talk)
    _is_announced: bool = field(default=False, init=False, repr=False)

    @cached_property
    def settings(self) -> Settings:
        return load_settings(flags=self.overrides, profile=self.profile)

    @cached_property
    def catalog(self) -> FrazilCatalog:
        from frazil.lake import open_catalog

        settings = self.settings
        log.info("using the catalog at %s (%s)", redact_url(settings.catalog.uri), settings.source_of("catalog.uri"))
        return open_catalog(settings)

    def announce(self) -> FrazilCatalog:
        """The catalog, after saying once on stderr which one it is: commands that write do this first."""
        if self._is_announced:
            return self.catalog
        self._is_announced = True
        catalog, served = self.catalog, self._served()
        warehouse = catalog.properties.get("prefix") or self.settings.catalog.warehouse or "default"
        place = served.warehouses.get(warehouse) if served and served.uri == self.settings.catalog.uri else None
        where = f"{redact_url(self.settings.catalog.uri)} ({self.settings.source_of('catalog.uri')})"
        self.talk.note(f"catalog {where}, warehouse {warehouse}{f' ({place})' if place else ''}")
        return catalog

    def _served(self) -> Served | None:
        return read_served(self.settings.stack.folder.absolute())

    def settings_with(self, **flags: object) -> Settings:
        """The settings with a command's own flags on top; `server__port=1` is `server.port`, and None means
        not given.
        """
        values = {key.replace("__", "."): str(value) for key, value in flags.items() if value is not None}
        return load_settings(flags={**self.overrides, **values}, profile=self.profile)
