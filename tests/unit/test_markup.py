"""HTML for notebooks holds data as text, and is of bounded size."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from frazil.markup import MOST_CHARACTERS, MOST_COLUMNS, MOST_ROWS, html_table

HOSTILE = ["<script>alert(1)</script>", '" onmouseover="alert(1)', "'><img src=x>", "&lt;", "\x1b[31m\u202ex", "</td>"]


class Reader(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {f"{name}={value}" for name, value in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_as_text_wherever_it_stands(text: str) -> None:
    page = Reader(html_table([text, "n"], [(text, 1)], title=text, right=["n", text], more=text))
    assert page.tags == ["table", "caption", "b", "thead", "tr", "th", "th", "tbody", "tr", "td", "td", "p"]
    assert page.attributes == {"style=text-align: right"}
    shown = text.replace("\x1b", r"\x1b").replace("\u202e", r"\u202e")
    assert page.texts == [shown, shown, "n", shown, "1", shown]


def test_rows_columns_and_values_are_bounded_and_what_is_left_out_is_counted() -> None:
    columns = [f"c{number}" for number in range(1_000)]
    page = Reader(html_table(columns, [["x" * 10_000] * 1_000] * 1_000))
    assert (page.tags.count("th"), page.tags.count("td")) == (MOST_COLUMNS, MOST_COLUMNS * MOST_ROWS)
    assert max(map(len, page.texts)) == MOST_CHARACTERS + 1
    assert page.texts[-1] == "950 more rows, 950 more columns"


def test_null_is_empty_and_numbers_are_aligned_to_the_right() -> None:
    left, right = 'style="text-align: left"', 'style="text-align: right"'
    assert html_table(["a", "n"], [(None, 0)], right=["n"]) == (
        f"<table><thead><tr><th {left}>a</th><th {right}>n</th></tr></thead>"
        f"<tbody><tr><td {left}></td><td {right}>0</td></tr></tbody></table>"
    )
