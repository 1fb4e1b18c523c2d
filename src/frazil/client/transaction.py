"""Several tables in one commit: `with catalog.transaction() as tx`."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table, Transaction
from pyiceberg.table.update import AssertCreate, AssertTableUUID
from pyiceberg.typedef import Identifier

from frazil.client.changes import Change
from frazil.pyiceberg_compat import OpenCreateTransaction, OpenTransaction, staged_table


class CommittingCatalog(Protocol):
    """The calls of a catalog that a transaction needs."""

    def load_table(self, identifier: str | Identifier) -> Table: ...

    def create_table_transaction(self, identifier: str | Identifier, schema: Any, **options: Any) -> Any: ...

    def commit_changes(self, changes: Sequence[Change]) -> object: ...


class CatalogTransaction:
    """Changes to several tables that happen together, or not at all, when the block ends.

    An exception inside the block sends nothing. Files that were written for it stay behind as orphans.
    """

    def __init__(self, catalog: CommittingCatalog) -> None:
        self._catalog = catalog
        self._members: dict[Identifier, _Member | _NewMember] = {}
        self._open = True

    def table(self, table: str | Identifier | Table) -> Transaction:
        """PyIceberg's transaction on this table (append, overwrite, update_schema, set_properties, ...); the same one
        for the same name.

        It builds on the table as loaded here at the first call, or on the given one as the caller has read it. If
        another client writes to the same branch before the block ends, that is a `CommitConflict`.
        """
        key = table.name() if isinstance(table, Table) else Catalog.identifier_to_tuple(table)
        if key not in self._members:
            self._check_open()
            self._members[key] = _Member(table if isinstance(table, Table) else self._catalog.load_table(key))
        return self._members[key]

    def create_table(self, identifier: str | Identifier, schema: Any, **options: Any) -> Transaction:
        """A table that comes into being with this transaction, to be filled at once; the arguments are those of
        `Catalog.create_table`.
        """
        key = Catalog.identifier_to_tuple(identifier)
        self._check_open()
        if key in self._members:
            raise ValueError(f"{'.'.join(key)} is part of this transaction already")
        staged = self._catalog.create_table_transaction(key, schema, **options)
        self._members[key] = _NewMember(staged_table(staged))
        return self._members[key]

    def changes(self) -> list[Change]:
        """What would be committed now."""
        return [member.change(identifier) for identifier, member in self._members.items() if member.updates]

    def __enter__(self) -> CatalogTransaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        if kind is None:
            self._catalog.commit_changes(self.changes())

    def _check_open(self) -> None:
        if not self._open:
            raise ValueError("this transaction has ended; open another with catalog.transaction()")


class _Member(OpenTransaction):
    """PyIceberg's transaction on one table, whose commit is left to the transaction that it belongs to."""

    def change(self, identifier: Identifier) -> Change:
        return Change(
            identifier, (AssertTableUUID(uuid=self.table.metadata.table_uuid), *self.requirements), self.updates
        )

    def commit_transaction(self) -> Table:
        return self.table


class _NewMember(OpenCreateTransaction):
    """The same for a table that is created."""

    def change(self, identifier: Identifier) -> Change:
        return Change(identifier, (AssertCreate(),), self.updates)

    def commit_transaction(self) -> Table:
        return self.table
