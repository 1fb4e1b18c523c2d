"""How a lake reaches its catalog and the files of its tables."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any

from frazil.errors import NoSuchNamespace, NoSuchTable

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

    from frazil.client import FrazilCatalog
    from frazil.config import Settings
    from frazil.scan.planning import ScanCache, Source
    from frazil.vector import OpenIndexes

MOST_CACHES = 64  # tables whose manifests are kept


# What makes vectors of texts for a column of a table
EmbedderOf = Callable[[str, str], Callable[[list[str]], Any]]


class LakeAccess:
    """A catalog with its settings: loads tables, and keeps what scans have learned from their manifests."""

    def __init__(self, settings: Settings | None = None, *, catalog: FrazilCatalog | None = None) -> None:
        self._settings, self._catalog = settings, catalog
        self._caches: dict[str, ScanCache] = {}
        self.embedder_of: EmbedderOf | None = None  # else what the project of the current folder declares

    @cached_property
    def settings(self) -> Settings:
        """The settings that were given, or those that hold in this folder."""
        from frazil.config import load_settings

        return self._settings or load_settings()

    @cached_property
    def catalog(self) -> FrazilCatalog:
        """The client of the catalog: PyIceberg's REST catalog, with what `frazil.client` adds."""
        from frazil.lake.connecting import open_catalog

        return self._catalog or open_catalog(self.settings)

    @property
    def address(self) -> str:
        """The catalog's address and warehouse, without asking it and without keys."""
        from frazil.config import redact_url

        if self._catalog is not None:
            uri, warehouse = self._catalog.properties.get("uri", ""), self._catalog.properties.get("warehouse")
        else:
            uri, warehouse = self.settings.catalog.uri, self.settings.catalog.warehouse
        return redact_url(uri) + (f", warehouse {warehouse}" if warehouse else "")

    @cached_property
    def vectors(self) -> OpenIndexes:
        """What searches have read of vector indexes."""
        from frazil.config import Settings
        from frazil.vector import DiskCache, OpenIndexes, index_cache_folder

        most = (self._settings or Settings()).search.cache_bytes
        return OpenIndexes(disk=DiskCache(index_cache_folder(), most) if most else None)

    def load(self, name: str) -> Table:
        """PyIceberg's table as it is now; an error names near ones when there is none of this name."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            if "." not in name:
                raise NoSuchTableError(name)
            table: Table = self.catalog.load_table(name)
        except (NoSuchTableError, NoSuchNamespaceError) as exc:
            error = NoSuchTable(name)
            error.hint = self._near(name)
            raise error from exc
        return table

    def source(self, table: Table) -> Source:
        """How the table's files are opened; what was learned from its manifests is kept, for they never change."""
        from frazil.scan.planning import Source

        key = str(table.metadata.table_uuid)
        if key not in self._caches and len(self._caches) >= MOST_CACHES:
            self._caches.pop(next(iter(self._caches)))
        opened = Source.of(
            table.io, self._caches.get(key)
        )  # the access is always the newest: keys may have a short life
        self._caches[key] = opened.cache
        return opened

    def table_names(self, namespace: Identifier | None = None) -> list[str]:
        """The full names of all tables, or of those in a namespace and below it."""
        return sorted(map(".".join, self.identifiers(namespace)))

    def identifiers(self, namespace: Identifier | None = None) -> list[Identifier]:
        """The same as PyIceberg's identifiers; raises `NoSuchNamespace` if the namespace does not exist."""
        from pyiceberg.exceptions import NoSuchNamespaceError

        pending = [namespace] if namespace else list(self.catalog.list_namespaces())
        identifiers: list[Identifier] = []
        try:
            while pending:
                current = pending.pop()
                identifiers += self.catalog.list_tables(current)
                pending += self.catalog.list_namespaces(current)
        except NoSuchNamespaceError as exc:
            raise NoSuchNamespace(".".join(current), hint=self._near_namespace(".".join(current))) from exc
        return sorted(identifiers)

    def _near_namespace(self, name: str) -> str:
        known = [".".join(namespace) for namespace in self.catalog.list_namespaces()]
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        if near:
            return f"did you mean {' or '.join(near)}?"
        return f"there are: {', '.join(known)}" if known else "the catalog has no namespaces yet"

    def _near(self, name: str) -> str:
        known = self.table_names()
        last = name.rpartition(".")[2]
        near = [name for name in known if name.rpartition(".")[2] == last] or difflib.get_close_matches(
            name, known, n=3, cutoff=0.5
        )
        if near:
            return f"did you mean {' or '.join(near)}?"
        return (
            f"there are: {', '.join(known[:10])}{', ...' if len(known) > 10 else ''}"
            if known
            else "the catalog has no tables yet"
        )


class LakeMoment(LakeAccess):
    """A lake whose tables stay as they were loaded first, until `settle` has compared them with the catalog's."""

    def __init__(self, lake: LakeAccess) -> None:
        super().__init__(lake._settings, catalog=lake.catalog)
        self._lake, self._caches = lake, lake._caches
        self.embedder_of = lake.embedder_of
        self._tables: dict[str, Table] = {}

    @property
    def vectors(self) -> OpenIndexes:
        """Those of the lake."""
        return self._lake.vectors

    def load(self, name: str) -> Table:
        if name not in self._tables:
            self._tables[name] = super().load(name)
        return self._tables[name]

    def settle(self, names: Collection[str]) -> bool:
        """Whether these tables are still as they were loaded, so that they were so at one moment. Those that changed
        are from now on as they are now.
        """
        from frazil.client import load_changed

        changed = load_changed(self.catalog, {name: self._tables[name] for name in names})
        self._tables |= changed
        return not changed
