"""What every command gets: the settings, read once when first asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from frazil.config import Settings, load_settings
from frazil.errors import Unavailable

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
        from requests import ConnectionError, Timeout

        from frazil.client import connect

        uri = self.settings.catalog.uri
        try:
            return connect(self.settings)
        except (ConnectionError, Timeout) as exc:
            hint = "start one with: frazil serve (or frazil up); or name another: frazil --set catalog.uri=..."
            raise Unavailable(f"no catalog answers at {uri} ({self.settings.source_of('catalog.uri')})", hint=hint) from exc

    def settings_with(self, **flags: object) -> Settings:
        """The settings with a command's own flags on top; `server__port=1` is `server.port`, and None means not given."""
        given = {key.replace("__", "."): str(value) for key, value in flags.items() if value is not None}
        return load_settings(flags={**self.overrides, **given}, profile=self.profile)
