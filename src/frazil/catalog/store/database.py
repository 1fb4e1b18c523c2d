"""The seam between the catalog and its database: what a statement runs on, and where a transaction is opened.

The statements are the same for both databases, written with `?`. A write is one function that runs inside one
transaction; it must be safe to run again, and must not keep what it read when it raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Row = tuple[Any, ...]
Statement = tuple[str, Sequence[object]]  # with its parameters


@dataclass(frozen=True, slots=True)
class Fence:
    """What a change of a pointer carries with it when there is a caller."""

    version: int  # of keys, roles and grants, in which the caller was allowed to make the change
    record: Statement  # of the audit log; of the kind that `Sql.run_recorded` takes
    grants: Sequence[Statement]  # what the creator of a new object gets


class Sql(Protocol):
    """Runs statements: inside a transaction when it was given by `write`, else each on its own."""

    join_names: str  # the aggregate that joins the column `name` with the separator 0x1F
    now_ms: str  # the database's own clock, in milliseconds since 1970

    def rows(self, statement: str, *parameters: object) -> list[Row]:
        """All rows of a query."""

    def run(self, statement: str, *parameters: object) -> int:
        """The number of rows that a statement changed."""

    def run_recorded(self, change: Statement, record: Statement) -> int:
        """The number of rows that a change changed, one at most; with one, the record is inserted as well.

        The record is an INSERT with a SELECT that has no FROM. Takes one round trip.
        """

    def run_locked(
        self,
        statements: Sequence[Statement],
        *,
        places: Sequence[str],
        first: Statement | None = None,
        record: Statement | None = None,
    ) -> list[int]:
        """The number of rows that each statement changed, after these places were locked until the transaction ends.

        `first` is run before they are locked, with `record` as by `run_recorded`, and counted first. Another
        transaction that locks one of the places, or a place above or below one, waits. Takes one round trip. Where
        there is one writer at a time, nothing needs to be locked.
        """


class Database(Protocol):
    """A database that any number of servers share."""

    dialect: str
    local: bool  # an indexed lookup is quick enough to be made in the event loop

    def check(self) -> None:
        """Passes when the database can be used; else raises Unavailable."""

    def read(self) -> Sql:
        """Statements outside a transaction; raises Unavailable when the database cannot be reached."""

    def write(self, work: Callable[[Sql], T]) -> T:
        """The result of `work` after its transaction is durable.

        An exception of `work` undoes it and comes out. `Unavailable` means that nothing was changed, for certain;
        `CommitUnknown` that the transaction may have been committed.
        """

    def lock_stripe(self, number: int) -> None:
        """Waits until no other process of this machine commits to a table of this stripe. An economy, where it costs
        little: a commit that waits is decided on what the other one wrote, instead of writing a file in vain. May do
        nothing.
        """

    def unlock_stripe(self, number: int) -> None: ...

    def gauges(self) -> dict[str, float]:
        """What the metrics show of its connections."""

    def close(self) -> None: ...


class ConstraintBroken(Exception):
    """A foreign key or a unique key was broken by a change that came in between: read again and decide again."""
