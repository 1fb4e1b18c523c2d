"""HTML for notebooks: tables of bounded size, in which data is text and never markup."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

from frazil.terminal import visible

MOST_ROWS, MOST_COLUMNS, MOST_CHARACTERS = 50, 50, 200


def html_text(value: object) -> str:
    """A value as HTML text: shortened, without control characters, and escaped.

    >>> html_text("<b>"), html_text(None), html_text("x" * 300) == "x" * 200 + "…"
    ('&lt;b&gt;', '', True)
    """
    text = "" if value is None else str(value)
    text = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
    return escape(visible(text))


def html_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    right: Collection[str] = (),
    more: str | None = None,
) -> str:
    """A table; columns named in `right` are aligned as numbers. `more` says below it what was left out.

    Rows and columns after the first fifty are left out, and counted below.
    """
    rows = list(rows)
    caption = "" if title is None else f"<caption><b>{html_text(title)}</b></caption>"
    styles = [f'style="text-align: {"right" if column in right else "left"}"' for column in columns[:MOST_COLUMNS]]
    head = "".join(f"<th {style}>{html_text(column)}</th>" for style, column in zip(styles, columns, strict=False))
    body = "".join(f"<tr>{_cells(styles, row)}</tr>" for row in rows[:MOST_ROWS])
    notes = [
        *([f"{len(rows) - MOST_ROWS:,} more rows"] if len(rows) > MOST_ROWS else []),
        *([f"{len(columns) - MOST_COLUMNS:,} more columns"] if len(columns) > MOST_COLUMNS else []),
        *([more] if more else []),
    ]
    note = f"<p>{html_text(', '.join(notes))}</p>" if notes else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def _cells(styles: Sequence[str], row: Sequence[object]) -> str:
    return "".join(f"<td {style}>{html_text(value)}</td>" for style, value in zip(styles, row, strict=False))
