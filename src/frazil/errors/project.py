"""Errors of settings, of a project's `lakehouse.py` and of the tables that it declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frazil.errors.base import FrazilError


class ConfigError(FrazilError):
    """A setting is unknown or has a value of the wrong kind."""

    exit_code = 2


class ArgumentError(FrazilError, TypeError):
    """An argument of a call has the wrong type or form."""

    def __init__(self, argument: str, value: object, *, expected: str, hint: str | None = None) -> None:
        got = f"{value!r:.100}"
        super().__init__(
            f"{argument} is {got}: expected {expected}", option=argument, expected=expected, got=got, hint=hint
        )


class MissingExtra(FrazilError):
    """A library of an optional extra is not installed."""

    def __init__(self, library: str, *, extra: str) -> None:
        super().__init__(
            f"{library} is not installed; it is part of the extra '{extra}'",
            hint=f"pip install 'frazil[{extra}]'",
        )
        self.library = library
        self.extra = extra


class ProjectError(FrazilError):
    """`lakehouse.py` is missing, does not load, or lacks the requested object."""


class OtherProject(ProjectError):
    """Tables that this project would write to belong to another project; `owners` maps each table to its project."""

    def __init__(self, project: str, owners: Mapping[str, str]) -> None:
        tables = "; ".join(f"{table} belongs to project '{owner}'" for table, owner in owners.items())
        owner = next(iter(owners.values()))
        super().__init__(
            f"{tables}, but this is project '{project}'; nothing was written",
            hint="if this is the wrong catalog: frazil --set catalog.uri=...; if both are the same project: "
            f'[project] name = "{owner}" in frazil.toml; to take the tables over: --adopt, or adopt=True in Python',
        )
        self.project = project
        self.owners = dict(owners)


class DeclarationError(FrazilError):
    """A table is declared wrongly, or the live table cannot become what is declared."""


class ChangeRefused(DeclarationError):
    """The declared change would break readers or lose data; `reasons` lists every reason with its table."""

    def __init__(self, table: str, reasons: Sequence[str]) -> None:
        self.reasons = tuple(f"{table}: {reason}" for reason in reasons)
        super().__init__(_listed(self.reasons))

    @classmethod
    def several(cls, errors: Sequence[ChangeRefused], others: Sequence[str] = ()) -> ChangeRefused:
        """One error with the reasons of all errors, followed by other reasons."""
        combined = cls("", ())
        combined.reasons = (*(reason for error in errors for reason in error.reasons), *others)
        combined.message = _listed(combined.reasons)
        return combined


def _listed(reasons: Sequence[str]) -> str:
    return "the declared change is refused; nothing was done:" + "".join(f"\n  {reason}" for reason in reasons)


class StalePlan(FrazilError):
    """The table has changed since the plan was made, in a part that the plan depends on."""

    def __init__(self, table: str, changed: Sequence[str]) -> None:
        lines = "".join(f"\n  {line}" for line in changed)
        super().__init__(
            f"the plan for {table} is stale; since it was made, the table changed:{lines}",
            hint="make a new plan: frazil plan",
            table=table,
        )
        self.changed = tuple(changed)


class TableBroken(FrazilError):
    """The table is in the catalog, but its metadata file is lost or corrupt. The name is taken: do not recreate it."""

    def __init__(self, table: str, reason: str) -> None:
        super().__init__(
            f"table {table} is in the catalog, but its metadata cannot be read: {reason}", table=table, reason=reason
        )
