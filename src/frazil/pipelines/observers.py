"""Observers of runs, such as the one that sends events of OpenLineage. One that fails is logged, and never fails a
run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from frazil.logs import describe_error
from frazil.pipelines.runs import RunResult

log = logging.getLogger("frazil.pipelines")


@dataclass(frozen=True)
class RunStart:
    """A run that starts: what it reads, as far as that is known by now."""

    run_id: str
    pipeline: str
    table: str
    inputs: Mapping[str, int | None] = field(default_factory=dict)  # tables, at a snapshot
    files: tuple[str, ...] = ()  # landing files
    topics: tuple[str, ...] = ()  # of Kafka, with the servers before them: kafka://host:port/topic


class RunObserver(Protocol):
    """Hears when a run starts, and how it ended."""

    def started(self, run: RunStart) -> None:
        """A run starts; one that finds nothing new does not."""

    def ended(self, result: RunResult) -> None:
        """A run that has started is committed, or has failed."""

    def aborted(self, run_id: str, reason: str) -> None:
        """A run that has started is given up, since the tables have changed: another run begins in its place."""


_observers: list[RunObserver] = []


@contextmanager
def observing(observer: RunObserver) -> Iterator[None]:
    """Tells the observer of all runs of this process inside the block."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def tell_started(run: RunStart) -> None:
    """A run starts."""
    _tell(lambda observer: observer.started(run))


def tell_ended(result: RunResult) -> None:
    """A run has ended."""
    _tell(lambda observer: observer.ended(result))


def tell_aborted(run_id: str, reason: str) -> None:
    """A run is given up, and another one begins in its place. If it has not started, observers do not know it."""
    _tell(lambda observer: observer.aborted(run_id, reason))


def _tell(call: Callable[[RunObserver], None]) -> None:
    for observer in tuple(_observers):
        try:
            call(observer)
        except Exception as exc:
            log.warning("%s: %s; the run goes on", type(observer).__name__, describe_error(exc))
