"""Tags and groups of pipelines and models, by which commands select them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from frazil.errors import DeclarationError

_LABEL = re.compile(r"[\w][\w.-]*")


def check_labels(owner: str, tags: str | Sequence[str], group: str | None) -> tuple[str, ...]:
    """The tags, each once; refuses a tag or group that a selector such as `tag:daily` could not name.

    >>> check_labels("model 'gold.revenue'", ["daily", "daily", "finance"], "gold")
    ('daily', 'finance')
    """
    names = (tags,) if isinstance(tags, str) else tuple(tags)
    for option, label in [*(("tags", tag) for tag in names), *([("group", group)] if group is not None else [])]:
        if not isinstance(label, str) or not _LABEL.fullmatch(label):
            raise DeclarationError(
                f"{owner}: {option}: expected a word such as 'daily', got {label!r}",
                hint="letters, digits, '_', '-' and '.'",
                option=option,
                got=label,
            )
    return tuple(dict.fromkeys(names))
