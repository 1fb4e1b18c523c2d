"""The files of one attempt to let rows out of a quarantine table."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from frazil.quarantine.judging import Judge, apply_verdict
from frazil.write.files import Buffer, TableLayout, WrittenFile, delete_quietly


class ReplayFiles:
    """Files with rows for the table, and with rows that stay behind where others left. Deleted at the end, unless they
    were handed over.

    `removed` names the files of the quarantine that these take the place of. A file whose rows all stay is not
    rewritten.
    """

    def __init__(self, table: TableLayout, quarantine: TableLayout, *, write: bool) -> None:
        self._good, self._kept, self._write = Buffer(table), Buffer(quarantine), write
        self.removed: list[str] = []
        self.good_files: list[WrittenFile] = []
        self.kept_files: list[WrittenFile] = []
        self._handed_over = False

    def split(self, pieces: Iterable[tuple[str, pa.Table]], judge: Judge) -> None:
        """Lets the judge see every row, a file at a time; memory does not grow with the files."""
        for path, rows in pieces:
            verdict = judge.judge(rows)
            if verdict.leaving and self._write:
                self.removed.append(path)
                self._kept.add(apply_verdict(rows, verdict).cast(self._kept.layout.arrow))
                if verdict.rows is not None:
                    self._good.add(verdict.rows)

    def flush(self) -> None:
        """Writes what waits."""
        self.good_files = self._good.flush()
        self.kept_files = self._kept.flush()

    def hand_over(self) -> None:
        """From here on the files must not be deleted: the commit may happen late."""
        self._handed_over = True

    def take_back(self) -> None:
        """The commit has not happened, and never will."""
        self._handed_over = False

    def __enter__(self) -> ReplayFiles:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        for buffer, files in ((self._good, self.good_files), (self._kept, self.kept_files)):
            buffer.abandon()
            for file in files if not self._handed_over else ():
                delete_quietly(buffer.layout, file.path)
