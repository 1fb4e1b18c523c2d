"""What a vector search did: which files the index answered for, what was read and compared, and why an index was not
used.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frazil.units import count, size
from frazil.vector.search import SearchReport

if TYPE_CHECKING:
    from rich.tree import Tree


def repair_command(table: str, name: str) -> str:
    """The command that repairs an index.

    >>> repair_command("lake.words", "embedding_cosine")
    'frazil index refresh lake.words embedding_cosine'
    """
    return shlex.join(["frazil", "index", "refresh", table, name])


@dataclass
class NearestReport:
    """What a search did: how much came from the index, and how much was compared exactly. `to_json()` for programs,
    `tree()` for the terminal.
    """

    queries: int
    files_indexed: int = 0
    files_exact: int = 0
    rows_exact: int = 0  # that were compared
    index: SearchReport = field(default_factory=SearchReport)
    problem: str | None = None  # why an index that exists was not used, or a part of it
    repair: str | None = None  # the command that repairs it
    rows_indexed: int = 0  # of the files that the index has, deleted ones included
    bytes_exact: int = 0  # of the files whose rows were compared
    index_name: str | None = None
    lists: int = 0  # that the index has
    what: str = ""  # the search in words

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        index = {
            "name": self.index_name,
            "files": self.files_indexed,
            "rows": self.rows_indexed,
            "lists": self.lists,
            "lists-probed": self.index.lists,
            "rows-scored": self.index.rows_scored,
            "rows-refined": self.index.rows_refined,
            "bytes-read": self.index.fetched.size,
            "ranges-read": self.index.fetched.ranges,
        }
        exact = {"files": self.files_exact, "rows": self.rows_exact, "bytes": self.bytes_exact}
        return {
            "search": self.what,
            "vectors": self.queries,
            "index": index if self.index_name else None,
            "exact": exact,
            "problem": self.problem,
            "repair": self.repair,
        }

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=160, color_system=None)
        with console.capture() as text:
            console.print(self.tree())
        return text.get().rstrip()

    def tree(self) -> Tree:
        """The report as a tree for the terminal."""
        from rich.markup import escape
        from rich.tree import Tree

        root = Tree(escape(self.what))
        if self.index_name is None:
            root.add("no index of the column for this metric was used")
        else:
            self._add_index(root.add(escape(f"index {self.index_name}: {self._covered()}")))
        if self.problem is not None:
            root.add(escape(f"not used: {self.problem}")).add(escape(f"repair it: {self.repair}"))
        root.add(
            f"compared one by one: {count(self.files_exact, 'file')}, {count(self.rows_exact, 'row')}, "
            f"{size(self.bytes_exact)} of files"
        )
        return root

    def _covered(self) -> str:
        return f"{count(self.files_indexed, 'file')}, {count(self.rows_indexed, 'row')}"

    def _add_index(self, branch: Tree) -> None:
        done, fetched = self.index, self.index.fetched
        each = "" if self.queries == 1 else f" for {self.queries:,} vectors"
        branch.add(f"lists probed: {done.lists:,} of {self.lists * self.queries:,}{each}")
        branch.add(f"rows scored: {done.rows_scored:,} by their codes, {done.rows_refined:,} of them by their bytes")
        branch.add(f"read: {size(fetched.size)} in {count(fetched.ranges, 'range')}; the rest was in memory")
