"""Fixtures that the unit tests share, and the rule that they start no server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.layouts import layout_of, on_small_disk

__all__ = ["layout_of", "on_small_disk"]


@pytest.fixture(autouse=True, scope="module")  # a longer one would hold for the folders after this one, too
def no_servers() -> Iterator[None]:
    """A test that listens on a port or starts a JVM fails here: it belongs to tests/contract or tests/engines."""

    def refuse(*_: Any) -> None:
        raise AssertionError("a unit test starts no server: move it to tests/contract or tests/engines")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "listen", refuse, raising=False)
        patch.setenv("JDK_JAVA_OPTIONS", "-Xunit-tests-start-no-JVM")
        yield
