"""Which files of tests run in one process when pytest has several (`-n 3 --dist loadfile`).

Files that share a stack of servers, or a Spark in the process, stay together, so that each is started once. Every other
file goes to the process that is free. xdist's own `loadgroup` cannot be used: it renames tests in a way that pytest 9
does not see.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

# A file belongs to the first of these words that it has. What takes longest comes first, so that all processes end at
# about the same time.
SHARED = ("live_stack", "fault_stack", "spark_session(")
FIXTURES = {"live_stack", "fault_stack"}
# Then files that take half a minute or more, then those with the most tests.
LONG = (
    *("test_demo", "test_tutorial"),
    *("test_models_spark", "test_upsert_spark", "test_warm_spark", "test_vending_engines"),
    *(
        "test_graph_campaign",
        "test_pipeline_kills",
        "test_cluster",
        "test_quarantine_replay",
        "test_sink_campaign",
        "test_catalog_concurrency",
    ),
    *("test_kafka", "test_postgres", "test_catalog_kills", "test_stack_faults", "test_upkeep_with_writers"),
    *("test_catalog_lost_commit", "test_scan_spark", "test_scan_planning", "test_run_requests", "test_marks_spark"),
    *("test_compatibility_kit", "test_catalog_fuzz", "test_catalog_server", "test_tables_walk", "test_upkeep_random"),
    *("test_rows_property", "test_prune_property", "test_transpile_run", "test_artifacts", "test_buffer"),
)


@functools.cache
def group_of(path: Path) -> str:
    """The word that the file shares with others, or its own path."""
    text = path.read_text() if path.suffix == ".py" else ""
    return next((word for word in SHARED if word in text), str(path))


class Together(LoadFileScheduling):
    """Hands out groups of files."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(self.config.rootpath / super()._split_scope(nodeid))


def sort_groups(items: list[pytest.Item]) -> None:
    """Puts the tests in the order in which their groups are handed out."""
    order = {word: number for number, word in enumerate((*SHARED, *LONG))}
    sizes = Counter(item.path for item in items)

    def key(item: pytest.Item) -> tuple[int, int]:
        number = order.get(group_of(item.path), order.get(item.path.stem, len(order)))
        return number, -sizes[item.path] if number == len(order) else 0

    items.sort(key=key)


def check_groups(items: Iterable[pytest.Item]) -> None:
    """A file whose tests use a shared stack must name it: each process would start one of its own."""
    for item in items:
        needed = FIXTURES.intersection(getattr(item, "fixturenames", ()))
        if needed and group_of(item.path) not in needed:
            raise pytest.UsageError(
                f'{item.path.name} uses {needed.pop()}, but does not name it: say pytest.mark.usefixtures("...")'
            )


def slowest_groups(reports: Iterable[pytest.TestReport], root: Path, most: int = 15) -> list[str]:
    """A line for each of the groups that took longest: its seconds, the process that ran it and when that was done
    with it. A group that others wait for at the end of a run is the one to make shorter.
    """
    seconds: Counter[tuple[str, str]] = Counter()
    ends: dict[tuple[str, str], float] = {}
    for report in reports:
        group = Path(group_of(root / report.nodeid.partition("::")[0])).name
        key = group, getattr(report, "worker_id", "")
        seconds[key] += report.duration
        ends[key] = max(report.stop, ends.get(key, 0))
    start = min((report.start for report in reports), default=0)
    return [
        f"{count:7.1f} s  {key[1]:<4} until {ends[key] - start:6.0f}  {key[0]}"
        for key, count in seconds.most_common(most)
    ]
