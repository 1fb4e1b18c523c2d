"""How commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from frazil.lake import print_rows as print_rows
from frazil.terminal import visible, visible_json

Command = TypeVar("Command", bound=Callable[..., Any])
log = logging.getLogger("frazil.cli")


@dataclass
class Talk:
    """How a command talks: the result on stdout, everything else on stderr.

    With `--output json`, stdout holds the result and nothing else, and notes are for `-v`.
    """

    json: bool = False
    verbosity: int = 0
    log_json: bool = False

    def note(self, text: str) -> None:
        """A line for people, next to the result."""
        if self.json:
            log.info("%s", text)
        else:
            echo(text, err=True)

    def configure(self) -> Callable[[], None]:
        """Shows logs as the options ask for; gives what undoes it."""
        from frazil.logs import log_to_stderr

        return log_to_stderr(self.verbosity, as_json=self.json or self.log_json)


def output_option(*formats: str, former: Mapping[str, str] | None = None) -> Callable[[Command], Command]:
    """`--output`, with the default first; `former` maps names of older releases to those of today."""
    return click.option(
        "--output",
        type=_Format(formats, former or {}),
        default=formats[0],
        show_default=True,
        callback=_remember_format,
        help="How to print the result.",
    )


class _Format(click.Choice[str]):
    """A choice that takes former names, too, and says so."""

    def __init__(self, formats: Sequence[str], former: Mapping[str, str]) -> None:
        super().__init__(formats)
        self.former = former

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in self.former:
            click.echo(f"warning: --output {value} is deprecated, use --output {self.former[value]}", err=True)
            value = self.former[value]
        return super().convert(value, param, ctx)


def _remember_format(ctx: click.Context, _: click.Parameter, value: str) -> str:
    if value == "json" and ctx.obj is not None and not ctx.resilient_parsing:
        ctx.obj.talk.json = True
        ctx.call_on_close(ctx.obj.talk.configure())
    return value


OUTPUT = output_option("text", "json")
REFERENCE = "a snapshot id, a timestamp (UTC unless it names a zone), a branch or a tag"  # what every --at takes


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Prints text that may hold data: control characters are written out."""
    click.echo(visible(str(text)), err=err, nl=nl)


def print_json(value: Any) -> None:
    """The result of a command for programs."""
    echo(to_json(value))


def to_json(value: Any) -> str:
    """The value as indented JSON; what JSON has no word for is text."""
    return visible_json(json.dumps(value, indent=2, default=_plain, ensure_ascii=False))


def _plain(value: Any) -> Any:
    """
    >>> import datetime, decimal
    >>> _plain(datetime.date(2024, 1, 18)), _plain(decimal.Decimal("1.50")), _plain(b"ab"), _plain({3, 1})
    ('2024-01-18', '1.50', '6162', [1, 3])
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, set | frozenset):
        return sorted(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
