"""Code in the docs: each block says what runs it, and its commands and options exist."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from frazil.cli.main import cli

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"(?:^ *<!-- ([^\n]*) -->\n)?^ *```(python|sh|bash|sql|console)\b[^\n]*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE
)
# Marks of blocks that a test takes from the page and runs; `run by: FILE` names it. `covered by: FILE` names a test of
# the same calls, on other tables or servers; `shown: REASON` says why nothing runs the block.
RUN = ("example", "tutorial", "recipe", "project", "model", "run by")
MOST_SHOWN, MOST_COVERED = 3, 82  # lower them when a block is run; one more needs a reason


class Block(NamedTuple):
    page: str
    mark: str
    language: str
    text: str


# Plain text, such as the files of a tutorial, counts where it has a mark.
MARKED_TEXT = re.compile(r"^ *<!-- ([^\n]*) -->\n *```(text)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


def blocks() -> Iterator[Block]:
    for page in PAGES:
        content = page.read_text(encoding="utf-8")
        for mark, language, text in [*FENCE.findall(content), *MARKED_TEXT.findall(content)]:
            yield Block(str(page.relative_to(ROOT)), mark, language, text)


BLOCKS = list(blocks())


def commands(block: Block) -> Iterator[list[str]]:
    """The calls of frazil in a block of shell."""
    if block.language not in ("sh", "bash", "console"):
        return
    text = block.text.replace("\\\n", " ")
    for line in text.splitlines():
        start = re.match(r"\s*(?:\$ )?(?:[A-Z_]+=\S+ )*((?:time )?frazil\b.*)", line)
        if start and (block.language != "console" or line.lstrip().startswith("$")):
            for call in re.split(r"&&|\|(?!\|)", start[1].removeprefix("time ")):
                words = shlex.split(call.rstrip("& "), comments=True)
                if words[:1] == ["frazil"]:
                    yield words[1:]


def unknown(words: list[str]) -> list[str]:
    """The options, and the command, that frazil does not have.

    >>> unknown(["run", "--no-such", "daily_sales"]), unknown(["catalog", "migrate", "--database", "x"])
    (['--no-such'], [])
    """
    command: click.Command = cli
    options = _options(cli)
    faults = []
    for word in words:
        if word.startswith("-"):
            name = word.partition("=")[0]
            faults += [] if name in options else [name]
        elif isinstance(command, click.Group) and word in command.commands | dict.fromkeys(command.list_commands(_TOP)):
            child = command.get_command(_TOP, word)
            assert child is not None
            command = child
            options |= _options(command)
    return faults


_TOP = click.Context(cli)


def _options(command: click.Command) -> set[str]:
    context = click.Context(command)
    return {name for option in command.get_params(context) for name in (*option.opts, *option.secondary_opts)}


def test_every_block_says_what_runs_it() -> None:
    known = (*RUN, "covered by", "shown")
    assert [(block.page, block.text[:60]) for block in BLOCKS if block.mark.partition(":")[0] not in known] == []


def test_tests_that_cover_blocks_exist() -> None:
    named = {(block.page, block.mark.partition(": ")[2]) for block in BLOCKS if " by: " in block.mark}
    assert [(page, name) for page, name in sorted(named) if not (ROOT / name).is_file()] == []


def test_few_blocks_are_only_shown() -> None:
    kinds = Counter(block.mark.partition(":")[0] for block in BLOCKS)
    assert kinds["shown"] <= MOST_SHOWN
    assert kinds["covered by"] <= MOST_COVERED


@pytest.mark.parametrize("page", sorted({block.page for block in BLOCKS}))
def test_commands_and_their_options_exist(page: str) -> None:
    calls = [words for block in BLOCKS if block.page == page for words in commands(block)]
    assert [(words, unknown(words)) for words in calls if unknown(words)] == []
