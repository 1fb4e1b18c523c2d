"""The lowest versions of libraries that pyproject.toml allows are enough."""

from __future__ import annotations

import pytest

from tools import lowest


@pytest.mark.soak
def test_unit_tests_pass_with_the_lowest_versions() -> None:
    assert lowest.main([]) == 0
