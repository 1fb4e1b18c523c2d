"""Options and fixtures that every folder of tests shares."""

from __future__ import annotations

import random
import secrets
from dataclasses import dataclass

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run fault campaigns and soaks at full size (make soak)")
    parser.addoption("--seed", type=int, default=None, help="repeat a campaign with the seed that it printed")


@dataclass(frozen=True)
class Campaign:
    """The size and the seed of a fault campaign or soak."""

    full: bool
    seed: int

    def size(self, *, short: int, full: int) -> int:
        """How many faults, kills, rows or seconds to run: `short` in make test, `full` in make soak."""
        return full if self.full else short

    def random(self) -> random.Random:
        """A generator that repeats with the seed."""
        return random.Random(self.seed)


@pytest.fixture
def campaign(request: pytest.FixtureRequest) -> Campaign:
    """What a campaign needs; its seed is printed, and shown by pytest when the test fails."""
    given: int | None = request.config.getoption("--seed")
    seed = secrets.randbelow(2**31) if given is None else given
    print(f"campaign seed {seed}: repeat with --seed {seed}")
    return Campaign(full=request.config.getoption("--full"), seed=seed)
