"""Stored reasons are read in the wording of this release and of those before it."""

from __future__ import annotations

import pytest

from frazil.write.contract import failed_check, reason_contains, reason_kind

BOTH = ("got", "found")  # what this release stores, and what releases before it stored


@pytest.mark.parametrize("word", BOTH)
@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("field 'amount': expected decimal(12, 2), {} 'abc'", "field 'amount': expected decimal(12, 2)"),
        ("field 'amount': expected decimal(12, 2), {} 'a, got b, found c'", "field 'amount': expected decimal(12, 2)"),
        ("field 'note': expected int, {} 'two\nlines'", "field 'note': expected int"),
        ("field 'id': expected a value, {} NULL", "field 'id': expected a value, got NULL"),
        ("field 'op': expected one of c, d, {} 't'", "field 'op': expected one of c, d"),
        ("expected 6 columns, {} 5", "expected 6 columns"),
        ("expected a JSON object, {} an empty message", "expected a JSON object"),
        ("check 'note <> \"expected x, {} y\"' failed", "check 'note <> \"expected x, {} y\"' failed"),
    ],
)
def test_rows_with_the_same_fault_have_one_kind(word: str, reason: str, kind: str) -> None:
    assert reason_kind(reason.format(word)) == kind.format(word)


@pytest.mark.parametrize("stored", BOTH)
@pytest.mark.parametrize("asked", BOTH)
def test_a_reason_is_chosen_by_its_text_in_either_wording(stored: str, asked: str) -> None:
    reason = f"field 'id': expected a value, {stored} NULL"
    assert reason_contains(reason, f"a value, {asked} NULL")
    assert reason_contains(reason, f"{asked} NULL")
    assert reason_contains(reason, "field 'id'")
    assert not reason_contains(reason, f"a value, {asked} 'x'")


@pytest.mark.parametrize("word", BOTH)
def test_only_a_failed_check_names_a_check(word: str) -> None:
    assert failed_check(f"check 'note <> \"expected x, {word} y\"' failed") == f'note <> "expected x, {word} y"'
    assert failed_check(f"field 'id': expected long, {word} 'x'") is None
