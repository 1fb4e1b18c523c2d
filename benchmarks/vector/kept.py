"""The folder of a run: vectors that were written and costs that were measured there are not made again, so that a run
that was stopped goes on, and several commands share what they measure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.vector.data import Data, Matrix, write

Costs = dict[str, Any]


@dataclass(frozen=True)
class Kept:
    """A folder of vectors and costs."""

    folder: Path

    @classmethod
    @contextmanager
    def at(cls, folder: Path | None) -> Iterator[Kept]:
        """The folder that was named, or one that is deleted at the end."""
        with TemporaryDirectory(prefix="frazil-bench-") as temporary:
            yield cls(folder or Path(temporary))

    def data(self, size: int, make: Callable[[], Matrix]) -> Data:
        """As many vectors, some of which are queries."""
        folder = self.folder / f"{size}"
        return Data.open(folder) if (folder / "truth-later.npy").exists() else write(folder, make())

    def costs(self, who: str, data: Data, measure: Callable[[], Costs]) -> Costs:
        """What a system costs on these vectors."""
        path = data.folder / f"{who}.json"
        if not path.exists():
            path.write_text(json.dumps(measure(), indent=1))
        costs: Costs = json.loads(path.read_text())
        return costs
