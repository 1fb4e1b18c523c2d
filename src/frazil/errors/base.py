"""The base of all errors, and the facts that an error may have."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, TypedDict, Unpack


class Facts(TypedDict, total=False):
    """What an error may be about; each fact is an attribute of the error, None if it does not apply."""

    hint: str | None  # what to do next
    table: str | None
    column: str | None  # a column, or the path of a nested field
    name: str | None  # what was asked for and does not exist or fit: a namespace, pipeline, service, plan, ...
    option: str | None  # the setting, argument, option, property or request field that is wrong
    expected: object  # the type, value or state that was expected
    got: object  # the type, value or state that was found instead
    snapshot: int | str | None  # a snapshot id, or the version of a Delta table
    ref: str | None  # a branch or tag
    path: str | None  # a file, folder or location
    line: int | None  # a line of that file
    offset: int | None  # where in the text of a query, in bytes
    pipeline: str | None
    part: str | None  # a part of a sink, which has a progress of its own
    source: str | None  # a source partition
    check: str | None  # a check of a table's contract
    reason: str | None  # the cause, often in the words of the library or server that reported it
    problem: str | None  # which problem, if class and facts leave it open: "closed", "ambiguous", "expired"


class FrazilError(Exception):
    """Base of all errors: the message says what failed and what was found, the hint what to do next."""

    exit_code = 1

    hint: str | None = None
    table: str | None = None
    column: str | None = None
    name: str | None = None
    option: str | None = None
    expected: Any = None  # a string in most classes, a count in some
    got: Any = None
    snapshot: int | str | None = None
    ref: str | None = None
    path: str | None = None
    line: int | None = None
    offset: int | None = None
    pipeline: str | None = None
    part: str | None = None
    source: str | None = None
    check: str | None = None
    reason: str | None = None
    problem: str | None = None

    def __init__(self, message: str, **facts: Unpack[Facts]) -> None:
        super().__init__(message)
        self.message = message
        self.__dict__.update(facts)

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception would call the class with the message alone, and most classes take more.
        return _unpickle, (type(self), self.args, self.__dict__)

    @property
    def facts(self) -> dict[str, object]:
        """The facts that this error has, without its message and hint.

        >>> FrazilError("the column has no values", table="l.t", column="amount", hint="fill it").facts
        {'table': 'l.t', 'column': 'amount'}
        """
        without = ("message", "hint")
        return {
            name: value
            for name, value in self.__dict__.items()
            if value is not None and name not in without and not name.startswith("_")
        }

    @property
    def found(self) -> Any:
        """The former name of `got`, for one release."""
        warnings.warn("the attribute 'found' of errors is 'got' now", DeprecationWarning, stacklevel=2)
        return self.got


def _unpickle(cls: type[FrazilError], args: tuple[object, ...], state: Mapping[str, object]) -> FrazilError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error
