"""Progress bars in notebooks: in a kernel of IPython, and nowhere else."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from frazil.markup import html_text

DELAY_SECONDS = 0.5  # what takes less shows no bar
POLL_SECONDS = 0.2


class Bar:
    """What a long call has done so far. The call counts; a thread draws, so that counting costs next to nothing and a
    call that waits for a query or a server shows its time.
    """

    def __init__(self, label: str, unit: str, total: int | None = None) -> None:
        self.label = label
        self.unit = unit
        self.total = total  # None while it is not known
        self.done = 0
        self.rows = 0  # next to units of another kind
        self.note = ""
        self.seconds = 0.0

    def text(self, *, ended: bool = False) -> str:
        """
        >>> bar = Bar("reading lake.events", "files", total=12)
        >>> bar.done, bar.rows = 3, 40_000
        >>> bar.text()
        'reading lake.events: 3 of 12 files, 40,000 rows, 0 s'
        """
        of = "" if self.total is None else f" of {self.total:,}"
        counted = [f"{self.done:,}{of} {self.unit}"] if self.total is not None or self.done else []
        rows = [f"{self.rows:,} rows"] if self.rows else []
        note = [self.note] if self.note and not ended else []
        return f"{self.label}: {', '.join([*counted, *rows, *note, f'{self.seconds:.0f} s'])}"

    def html(self, *, ended: bool = False) -> str:
        """A bar and its text; only the text once the call has ended."""
        text = f"<span>{html_text(self.text(ended=ended))}</span>"
        if ended:
            return text
        known = f' value="{min(self.done, self.total)}" max="{self.total}"' if self.total else ""
        return f"<progress{known}></progress> {text}"


@contextmanager
def showing_progress(label: str, unit: str, total: int | None = None) -> Iterator[Bar | None]:
    """A bar below the cell until the block ends, and then its last numbers; None outside of a notebook."""
    if not in_notebook():
        yield None
        return
    bar, ended = Bar(label, unit, total), threading.Event()
    drawer = threading.Thread(target=_draw, args=(bar, ended), daemon=True, name="frazil-notebook")
    drawer.start()
    try:
        yield bar
    finally:
        ended.set()
        drawer.join()


def in_notebook() -> bool:
    """Whether a kernel of IPython runs this, which has a page to draw on; a shell in a terminal has none."""
    # Every kernel has imported it long ago. Elsewhere a library may import it in another thread right now.
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return getattr(find() if find is not None else None, "kernel", None) is not None


def _draw(bar: Bar, ended: threading.Event) -> None:
    from IPython.display import display

    show: Any = display  # IPython has no types here
    name, start, drawn = uuid4().hex, time.monotonic(), False
    wait = DELAY_SECONDS
    while not ended.wait(wait):
        bar.seconds = time.monotonic() - start
        show(_page(bar), raw=True, display_id=name, update=drawn)
        drawn, wait = True, POLL_SECONDS
    bar.seconds = time.monotonic() - start
    if drawn or bar.seconds >= DELAY_SECONDS:
        show(_page(bar, ended=True), raw=True, display_id=name, update=drawn)


def _page(bar: Bar, *, ended: bool = False) -> dict[str, Any]:
    return {"text/html": bar.html(ended=ended), "text/plain": bar.text(ended=ended)}
