"""Columns of the source that the table does not have, or lacks: what a policy makes of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from frazil.errors import SourceDrift
from frazil.pipelines import Drift
from frazil.pipelines.files import FileColumns

SHOWN_FILES = 3


@dataclass(frozen=True)
class Decision:
    """Columns to add to the table, and the files to quarantine with their unknown columns."""

    add: tuple[str, ...] = ()
    quarantined: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def decide(
    policy: Drift,
    *,
    returned: Sequence[str],
    table: str,
    known: Sequence[str],
    columns: FileColumns,
    paths: Sequence[str],
    absent_is_null: bool = False,
) -> Decision:
    """What to do about the columns that the pipeline's function gives and the table does not have; `SourceDrift` if the
    run must stop.

    `absent_is_null`: a field that no line of a file has is no drift, as in JSON.
    """
    unknown = tuple(name for name in returned if name not in known)
    if policy == "evolve":
        return Decision(add=unknown)
    files = columns.files_with(unknown)
    if unknown and (policy == "freeze" or any(name not in columns.schema.names for name in unknown)):
        raise SourceDrift(
            f"{table} has no column {_quoted(unknown)}{_in_files(files, paths)}",
            columns=unknown,
            hint=_HINT,
            table=table,
            column=_quoted(unknown),
        )
    if policy == "freeze" and not absent_is_null:
        _refuse_missing(table, columns, paths)
    return Decision(quarantined=files)


def check_delimiter(
    columns: FileColumns, paths: Sequence[str], *, delimiter: str, table: str, known: Sequence[str]
) -> None:
    """Raises `SourceDrift` for a CSV file with one column whose name looks like a whole header with
    another delimiter.
    """
    for path, names in zip(paths, columns.by_file, strict=True):
        if len(names) != 1 or names[0] in known:
            continue
        if sign := next((sign for sign in DELIMITERS if sign in names[0] and sign != delimiter), None):
            raise SourceDrift(
                f"{path} has one column, {_quoted(names)}, which {table} does not have: its delimiter seems to be "
                f"{sign!r}",
                columns=tuple(names),
                hint=f"sources.csv(..., delimiter={sign!r})",
                path=path,
                table=table,
            )


DELIMITERS = (";", "\t", "|", ",")
_HINT = (
    "declare the columns and run: frazil apply; or drop them in the pipeline's function; or set drift='evolve' or "
    "drift='quarantine'"
)


def reason(names: Sequence[str]) -> str:
    """Why a row of such a file is quarantined.

    >>> reason(("channel",))
    "the file has column 'channel', which the table does not have"
    """
    return f"the file has column {_quoted(names)}, which the table does not have"


def _refuse_missing(table: str, columns: FileColumns, paths: Sequence[str]) -> None:
    """Frozen means that all files look alike: a column that some have and others lack would be NULL without a word."""
    with_rows = {names for names in columns.by_file if names}
    for name in columns.schema.names:
        lacking = [file for file, names in enumerate(columns.by_file) if names and name not in names]
        if lacking and any(name in names for names in with_rows):
            raise SourceDrift(
                f"{table}: column '{name}' is missing{_in_files(lacking, paths)}",
                columns=(name,),
                hint="fix the files, or set drift='evolve': the column is NULL then",
                table=table,
                column=name,
            )


def _in_files(files: Sequence[int] | Mapping[int, object], paths: Sequence[str]) -> str:
    some = [paths[file] for file in list(files)[:SHOWN_FILES]]
    more = f" and {len(files) - len(some)} more" if len(files) > len(some) else ""
    return f" (in {', '.join(some)}{more})" if some else ""


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
