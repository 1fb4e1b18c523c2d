"""The habits: markers name known requirements, and generated pages follow the code."""

from __future__ import annotations

from tools.requirements import find_proofs, known_names, marked_tests


def test_every_marker_names_a_known_requirement() -> None:
    assert set(find_proofs()) - known_names() == set()


def test_a_marker_is_found_on_tests_alone() -> None:
    source = (
        '@pytest.mark.requirement("a.b", "a.c")\ndef test_x(): ...\n@pytest.mark.requirement("a.d")\ndef '
        "helper(): ...\n"
    )
    assert list(marked_tests(source)) == [("test_x", "a.b"), ("test_x", "a.c")]
