"""Transactions whose staged changes can be read, so that the changes of several tables go into one commit."""

from __future__ import annotations

from typing import cast

from pyiceberg.table import CreateTableTransaction, StagedTable, Table, Transaction
from pyiceberg.table.update import AssertRefSnapshotId, TableRequirement, TableUpdate


class Staged(Transaction):
    """A transaction whose staged changes can be read."""

    @property
    def table(self) -> Table:
        """`_table`: the table as the transaction began, or as it is to be created."""
        return self._table

    @property
    def updates(self) -> tuple[TableUpdate, ...]:
        """`_updates`: what is staged. PyIceberg only sends it."""
        return self._updates

    @property
    def requirements(self) -> tuple[TableRequirement, ...]:
        """`_requirements`: what must hold for it."""
        return self._requirements


class OpenTransaction(Staged):
    """A transaction on a table that guards every branch that it writes to."""

    def _stage(self, updates: tuple[TableUpdate, ...], requirements: tuple[TableRequirement, ...] = ()) -> Transaction:
        """`_stage`: PyIceberg keeps one requirement of a kind: a second branch in the same transaction would go
        unguarded.
        """
        guarded = {
            requirement.ref for requirement in self._requirements if isinstance(requirement, AssertRefSnapshotId)
        }
        super()._stage(updates, requirements)
        guards = [requirement for requirement in requirements if isinstance(requirement, AssertRefSnapshotId)]
        self._requirements += tuple(
            guard for guard in guards if guard.ref not in guarded and guard not in self._requirements
        )
        return self


class OpenCreateTransaction(Staged, CreateTableTransaction):
    """A transaction that creates its table."""


def staged_table(transaction: CreateTableTransaction) -> StagedTable:
    """`_table`: the table of a transaction that the catalog began."""
    return cast(StagedTable, transaction._table)


def staged_updates(transaction: Transaction) -> tuple[TableUpdate, ...]:
    """`_updates`: what a transaction that the catalog began has staged."""
    return transaction._updates
