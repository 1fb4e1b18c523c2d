"""Reads, writes and deletes files of one table, and refuses those that its metadata names elsewhere.

Metadata is written by clients. A worker of the catalog reads with the keys of the server: if it rewrote a file of
another table into this one, the writers of this one could read it; and it could write or delete what only others may.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

from frazil.errors import UpkeepError
from frazil.upkeep.removing import is_own

IMPLEMENTATION, FOLDERS = "py-io-impl", "frazil.own-folders"


class OwnFileIO(PyArrowFileIO):
    """Opens, writes and deletes files in some folders only. They are a property: who makes the same access again, also
    in another process, has them; without it nothing is read.
    """

    def holds(self, location: str) -> bool:
        """Whether a file lies in the folders, also when symbolic links are followed.

        >>> OwnFileIO({"frazil.own-folders": '["s3://b/t"]'}).holds("s3://b/t/data/f"), OwnFileIO({}).holds("s3://b/t/f")
        (True, False)
        """
        return is_own(location, json.loads(self.properties.get(FOLDERS, "[]")))

    def new_input(self, location: str) -> Any:
        self._check(location, "read")
        return cast(InputFile, super().new_input(location))

    def new_output(self, location: str) -> Any:
        self._check(location, "write")
        return cast(OutputFile, super().new_output(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._check(location if isinstance(location, str) else location.location, "delete")
        super().delete(location)

    def _check(self, location: str, do: str) -> None:
        if not self.holds(location):
            raise UpkeepError(
                f"{location[:500]} lies outside of the table's folders: the catalog does not {do} it",
                hint=f"frazil maintain can {do} it, with the keys of its user",
                path=location,
            )


def own_file_io(properties: dict[str, Any], folders: Iterable[str]) -> OwnFileIO:
    """The access with these properties, to these folders only."""
    implementation = f"{OwnFileIO.__module__}.{OwnFileIO.__qualname__}"
    return OwnFileIO({**properties, IMPLEMENTATION: implementation, FOLDERS: json.dumps(sorted({*folders}))})
