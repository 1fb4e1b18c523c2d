"""Which files other tables lead to: asked for every file that upkeep is about to delete.

Frazil's server knows the tables of all its warehouses. Other catalogs are walked: every table that they list is loaded
and read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchTableError, RESTError
from pyiceberg.typedef import Identifier

from frazil.errors import FrazilError, ReferencesUnknown
from frazil.scan.manifests import Candidates, References, TableFiles, in_portions

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO

AT_ONCE = 20_000  # files in one question


def find_referenced(catalog: Catalog, files: Iterable[str], *, other_than: Identifier | None = None) -> dict[str, str]:
    """Of these files, those that a table leads to, with its name; one table may be left out.

    `ReferencesUnknown`: a table cannot be read, so it may lead to any of them.
    """
    referenced: dict[str, str] = {}
    for some in in_portions(files, AT_ONCE):
        referenced |= _ask(catalog, some, other_than)
    return referenced


def _ask(catalog: Catalog, files: Sequence[str], other_than: Identifier | None) -> dict[str, str]:
    ask = getattr(catalog, "find_references", None)
    answer = ask(files, other_than=other_than) if ask is not None else None
    return answer if answer is not None else _walk(catalog, files, other_than)


def _walk(catalog: Catalog, files: Sequence[str], other_than: Identifier | None) -> dict[str, str]:
    candidates, reader = Candidates(files), _Reader()
    references = References(reader.read)
    for identifier in every_table(catalog):
        if identifier == other_than:
            continue
        label = ".".join(identifier)
        try:
            table = catalog.load_table(identifier)
        except NoSuchTableError:
            continue  # dropped since it was listed
        except (RESTError, FrazilError, OSError, ValueError) as exc:
            raise ReferencesUnknown(label, "its metadata", str(exc)) from exc
        reader.io = table.io
        references.spare(candidates, TableFiles.of_table(label, table))
    return candidates.referenced


class _Reader:
    """Reads the files of one table after the other, each with its own credentials."""

    io: FileIO

    def read(self, path: str) -> bytes:
        with self.io.new_input(path).open() as stream:
            content: bytes = stream.read()
            return content


def every_table(catalog: Any) -> Iterator[Identifier]:
    """All tables of the catalog, namespace by namespace."""

    def walk(namespace: Identifier) -> Iterator[Identifier]:
        if namespace:
            yield from (tuple(table) for table in catalog.list_tables(namespace))
        for inner in catalog.list_namespaces(namespace):
            yield from walk(tuple(inner))

    yield from walk(())
