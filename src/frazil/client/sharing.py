"""Requests for the same thing that wait at the same time become one."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Event, Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class _Turn(Generic[V]):
    """One request, and those who share its answer."""

    def __init__(self) -> None:
        self.answer: Future[V] = Future()
        self.over = Event()


class Shared(Generic[V]):
    """Answers by key, asked for by many threads: while one request is under way, the others wait and share the next.

    They do not share the one under way: it may have been answered before they asked, and a thread that has just
    committed must see its commit. So any number of concurrent threads cost two requests, and no thread gets an answer
    that is older than its question.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: dict[Hashable, _Turn[V]] = {}
        self._next: dict[Hashable, _Turn[V]] = {}

    def ask(self, key: Hashable, request: Callable[[], V]) -> V:
        """The answer to a request that was sent after this call; an error of that request is everybody's."""
        with self._lock:
            turn, mine = self._next.get(key), False
            if turn is None:
                turn, mine = _Turn[V](), True
                self._next[key] = turn
            before = self._running.get(key)
        if mine:
            self._run(key, turn, before, request)
        return turn.answer.result()

    def _run(self, key: Hashable, turn: _Turn[V], before: _Turn[V] | None, request: Callable[[], V]) -> None:
        try:
            if before is not None:
                before.over.wait()
            with self._lock:  # from here on, newcomers wait for the turn after this one
                self._running[key] = self._next.pop(key)
            turn.answer.set_result(request())
        except BaseException as exc:  # also one that stops this thread alone: the others must not wait for ever
            turn.answer.set_exception(exc)
        finally:
            with self._lock:
                for turns in (self._next, self._running):
                    if turns.get(key) is turn:
                        del turns[key]
            turn.over.set()
