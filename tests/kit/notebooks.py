"""IPython as a kernel and as a terminal have it, with what it displays."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from frazil import notebook


class Pages(DisplayPublisher):
    """Keeps what is displayed, instead of sending it to a page."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sent: list[tuple[dict[str, str], str, bool]] = []
        self.drawn = threading.Event()

    def publish(
        self,
        data: Any,
        metadata: Any = None,
        source: Any = None,
        *,
        transient: Any = None,
        update: bool = False,
        **_: Any,
    ) -> None:
        self.sent.append((data, transient["display_id"], update))
        self.drawn.set()

    @property
    def last(self) -> str:
        """The text of the newest page, without the time."""
        return self.sent[-1][0]["text/plain"].rpartition(",")[0]


class Shell(InteractiveShell):
    """As in a terminal: it has no kernel."""


class KernelShell(InteractiveShell):
    """As a kernel makes it."""

    kernel = object()


@contextmanager
def open_shell(kind: type[InteractiveShell], folder: Path) -> Iterator[Pages]:
    """The shell of this process until the block ends; calls show bars at once."""
    ours = mock.patch.dict("os.environ", IPYTHONDIR=str(folder / "ipython"))
    with ours, mock.patch.object(notebook, "DELAY_SECONDS", 0):
        shell = kind.instance(config=Config({"HistoryManager": {"enabled": False}}), display_pub_class=Pages)
        try:
            assert isinstance(shell.display_pub, Pages)
            yield shell.display_pub
        finally:
            atexit.unregister(shell.atexit_operations)
            shell.atexit_operations()  # gives sys.modules and the builtins back
            kind.clear_instance()
