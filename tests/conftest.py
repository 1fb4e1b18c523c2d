"""Options and fixtures that every folder of tests shares."""

from __future__ import annotations

import gc
import os
import random
import secrets
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.together import Together, check_groups, slowest_groups, sort_groups
from tools.spark_archive import SHORT_LIVED_JVM, archive_options

if TYPE_CHECKING:
    from tests.kit.stack import Project

# One change is judged by the same examples as the one before: what a run of `make test` says depends on the code alone.
# The search for new examples is `make soak`. How long an example takes is the machine's matter, so neither profile has
# a deadline.
CALM = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=CALM)
settings.register_profile("searching", deadline=None, suppress_health_check=CALM, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run fault campaigns and soaks at full size (make soak)")
    parser.addoption("--seed", type=int, default=None, help="repeat a campaign with the seed that it printed")


@pytest.hookimpl(tryfirst=True)  # pytest-timeout reads its option when it is configured
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--full") and config.option.timeout is None:
        config.option.timeout = 0  # how long a campaign takes is its size: no limit for a single test is right for it
    os.environ.setdefault("JDK_JAVA_OPTIONS", SHORT_LIVED_JVM)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", archive_options())
    settings.load_profile("searching" if config.getoption("--full") else "repeatable")
    if not config.getoption("--full"):
        # Hypothesis also draws the constants of our modules that are loaded: these depend on the tests that ran before
        # in this process.
        providers._get_local_constants = lambda: providers._local_constants  # none, as at the start


@pytest.hookimpl(optionalhook=True)  # xdist's
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together | None:
    return Together(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)  # hypothesis has marked its tests by then
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --full, leave only the tests that grow with it (campaigns, searches by hypothesis) and those that run with
    it alone (soak).
    """
    kept = [item for item in items if not item.get_closest_marker("soak")]
    if config.getoption("--full"):
        markers = ("hypothesis", "soak")
        kept = [
            item
            for item in items
            if "campaign" in getattr(item, "fixturenames", ()) or any(map(item.get_closest_marker, markers))
        ]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
    check_groups(items)
    if hasattr(config, "workerinput"):  # a process of xdist
        sort_groups(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Which groups of files took longest, where several processes share the work."""
    if config.getoption("--durations") and config.getvalue("dist") == "loadfile":
        reports = [report for kind in terminalreporter.stats.values() for report in kind if hasattr(report, "duration")]
        terminalreporter.section("slowest groups of files")
        for line in slowest_groups(reports, config.rootpath):
            terminalreporter.line(line)


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


@pytest.fixture(scope="session")
def fault_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """SeaweedFS, Kafka and the catalog, for streams and for tests that strike the servers down."""
    from tests.faults.spark_drivers import DRIVERS
    from tests.kit.stack import make_project

    project = make_project(tmp_path_factory.mktemp("faults") / "project")
    project.frazil("up", "--with", "kafka")
    yield project
    DRIVERS.stop()
    project.frazil("up")  # what lies on the ground cannot be taken down in order
    project.frazil("down", "--purge", "--yes")
    assert project.processes() == []


@pytest.fixture
def uncollected() -> Iterator[None]:
    """For tests that reach the recursion limit: a finaliser that the garbage collector runs down there fails, whatever
    it is.
    """
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def campaign(request: pytest.FixtureRequest) -> Campaign:
    """What a campaign needs. Its seed is always the same in make test, new each time in make soak, and printed."""
    option: int | None = request.config.getoption("--seed")
    full: bool = request.config.getoption("--full")
    if option is None:
        option = secrets.randbelow(2**31) if full else zlib.crc32(request.node.name.encode())
    print(f"campaign seed {option}: repeat with --seed {option}")
    return Campaign(full=full, seed=option)
