"""What every command gets: the settings, read once when first asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from frazil.config import Settings, load_settings


@dataclass
class Context:
    """The object behind `@click.pass_obj`."""

    profile: str | None = None
    overrides: dict[str, str] = field(default_factory=dict)

    @cached_property
    def settings(self) -> Settings:
        return load_settings(flags=self.overrides, profile=self.profile)

    def settings_with(self, **flags: object) -> Settings:
        """The settings with a command's own flags on top; `server__port=1` is `server.port`, and None means not given."""
        given = {key.replace("__", "."): str(value) for key, value in flags.items() if value is not None}
        return load_settings(flags={**self.overrides, **given}, profile=self.profile)
