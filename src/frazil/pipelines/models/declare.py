"""`model`: a table that a query over other tables makes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack, get_args

from frazil.errors import DeclarationError, Facts, MissingExtra
from frazil.names import TABLE_NAME, as_columns, name_parts
from frazil.pipelines import check_labels
from frazil.tables import Column, Table, parse_partition
from frazil.write.contract import is_query

if TYPE_CHECKING:
    from frazil.pipelines.models.sql import Query

ModelMode = Literal["append", "upsert", "replace-partition", "rebuild"]
DECLARED = "declared"
BY_DEFAULT = "no mode declared: rebuilt from its inputs"
# An upsert brings rows that do not change again and again; partitions are computed from all of their rows.
_ALLOWED = {"upsert": ("unread",), "replace-partition": ("unread", "distinct", "aggregate")}


@dataclass(frozen=True)
class Model:
    """A declared model."""

    name: str  # of the table that it makes
    sql: str
    inputs: tuple[str, ...]  # names of tables, in order of appearance
    mode: ModelMode = "rebuild"
    mode_reason: str = BY_DEFAULT
    key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    audit: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()  # declared ones; empty: Spark infers them
    tags: tuple[str, ...] = ()
    group: str | None = None  # models of one group are published together
    doc: str = ""
    driving: str | None = None  # the input whose new rows an incremental mode reads; None in mode rebuild
    path: Path | None = None  # of the .sql file
    notes: tuple[str, ...] = ()  # what to keep in mind, such as functions whose results differ from run to run

    @property
    def is_incremental(self) -> bool:
        """Whether a run reads the new rows of `driving` alone, and the other inputs in full."""
        return self.mode != "rebuild"

    @property
    def fingerprint(self) -> str:
        """Tells queries apart that differ in more than comments and layout."""
        from frazil.pipelines.models.sql import normalise_sql

        return hashlib.sha256(normalise_sql(self.sql).encode()).hexdigest()[:16]

    def table(self, columns: Sequence[Column] = ()) -> Table:
        """The table that it makes, with the declared columns, or with these if none are declared."""
        return Table(
            self.name,
            *(self.columns or columns),
            partition_by=self.partition_by,
            checks=self.checks,
            properties={"comment": self.doc} if self.doc else None,
        )


def model(
    name: str,
    sql: str,
    *,
    mode: ModelMode | None = None,
    key: str | Sequence[str] = (),
    partition_by: str | Sequence[str] = (),
    checks: str | Sequence[str] = (),
    audit: str | Sequence[str] = (),
    columns: Sequence[Column] = (),
    tags: str | Sequence[str] = (),
    group: str | None = None,
    doc: str = "",
    driving: str | None = None,
) -> Model:
    """Declares the table `name` as the result of a query in Spark SQL.

    - `mode`: `rebuild`, unless said here: the result replaces all rows. Otherwise a run reads what changed in one
      input, `driving`, and the others in full: `append` adds the result of new rows; `upsert` replaces and deletes rows
      by their `key`; `replace-partition` computes the partitions that the changes touch, from all of their rows.
    - `key`: the columns that an upsert finds its rows by.
    - `partition_by`, `checks`: as `Table` has them.
    - `audit`: what must hold of the table as it would be, before main has the rows: conditions, or queries over
      `{table}` that find what is wrong.
    - `columns`: the columns of the table; Spark infers them from the query, unless they are declared here.
    - `tags`, `group`: words by which commands select models and pipelines. Those of one group are published together.
    - `driving`: the input whose new rows an incremental mode reads: the first of the FROM clause, unless said here.
    """
    return make_model(
        Model(
            name,
            sql,
            (),
            mode or "rebuild",
            BY_DEFAULT if mode is None else DECLARED,
            key=as_columns(key, argument="key"),
            partition_by=as_columns(partition_by, argument="partition_by"),
            checks=as_columns(checks, argument="checks"),
            audit=as_columns(audit, argument="audit"),
            columns=tuple(columns),
            tags=check_labels(f"model '{name}'", tags, group),
            group=group,
            doc=doc,
            driving=driving,
        )
    )


def make_model(declared: Model) -> Model:
    """The model with what its query says: inputs, driving input, notes. Raises `DeclarationError` if it is wrong."""
    _check_name(declared)
    try:
        from frazil.pipelines.models.sql import parse_query, strip_end
    except ModuleNotFoundError as exc:
        raise MissingExtra("sqlglot", extra="sinks") from exc
    try:
        if not isinstance(declared.sql, str):
            raise DeclarationError(f"the query is {type(declared.sql).__name__}, expected text", option="sql")
        query = parse_query(strip_end(declared.sql))
        declared = replace(declared, sql=query.sql, inputs=query.tables)
        _check_inputs(declared)
        _check_mode(declared)
        declared = replace(declared, driving=_driving(declared, query))
        _check_columns(declared, query)
        _check_audit(declared)
        return replace(declared, notes=tuple(_notes(query)))
    except DeclarationError as exc:
        if exc.table == declared.name:
            raise
        facts: Facts = {**exc.facts, "hint": exc.hint, "table": declared.name}  # type: ignore[typeddict-item]
        raise DeclarationError(f"model '{declared.name}': {exc.message}", **facts) from exc


def _check_name(declared: Model) -> None:
    parts = name_parts(declared.name) if isinstance(declared.name, str) else None
    if parts is None or len(parts) < 2:
        raise DeclarationError(
            f"a model has the name {declared.name!r:.100}, expected {TABLE_NAME}",
            hint='model("gold.revenue", "SELECT ...")',
            option="name",
            got=declared.name,
        )


def _check_inputs(declared: Model) -> None:
    for name in declared.inputs:
        if "." not in name:
            raise _wrong(
                declared,
                "sql",
                f"the query reads '{name}', which has no namespace, and is no name of a WITH clause",
                hint=f"write namespace.{name}",
                name=name,
                problem="namespace",
            )
        if name == declared.name:
            raise _wrong(
                declared,
                "sql",
                "the query reads the table that it makes",
                hint="mode='append' or 'upsert' keeps the rows that are in it",
                name=name,
                problem="cycle",
            )


def _check_mode(declared: Model) -> None:
    if declared.mode not in get_args(ModelMode):
        raise _wrong(declared, "mode", f"mode is '{declared.mode}', expected one of {', '.join(get_args(ModelMode))}")
    if declared.mode == "upsert" and not declared.key:
        raise _wrong(declared, "key", "mode 'upsert' needs a key", hint='key=["order_id"]', problem="missing")
    if declared.mode == "replace-partition" and not declared.partition_by:
        raise _wrong(
            declared,
            "partition_by",
            "mode 'replace-partition' needs partition_by",
            hint='partition_by=["day"]',
            problem="missing",
        )
    if declared.mode != "rebuild" and not declared.inputs:
        raise _wrong(
            declared, "mode", f"mode is '{declared.mode}', but the query reads no table", hint="mode='rebuild'"
        )


def _driving(declared: Model, query: Query) -> str | None:
    """The input whose new rows are read; refuses a query over new rows alone that gives a wrong result."""
    from frazil.pipelines.models.incremental import find_obstacles, find_partition_obstacles, first_in_from

    if declared.mode == "rebuild":
        if declared.driving is not None:
            raise _wrong(
                declared,
                "driving",
                "mode 'rebuild' reads all inputs in full",
                hint="leave driving out, or choose another mode",
                problem="not-applicable",
            )
        return None
    driving = declared.driving or first_in_from(query) or declared.inputs[0]
    if driving not in declared.inputs:
        raise _wrong(
            declared,
            "driving",
            f"driving is '{driving}', which the query does not read; it reads {', '.join(declared.inputs)}",
            problem="missing",
        )
    allowed = _ALLOWED.get(declared.mode, ())
    obstacles = [each for each in find_obstacles(query, driving) if each.kind not in allowed]
    if declared.mode == "replace-partition":
        columns = [parse_partition(text).term.source for text in declared.partition_by]
        obstacles += find_partition_obstacles(query, columns)
    if obstacles:
        obstacle = obstacles[0]
        raise _wrong(
            declared,
            "mode",
            f"mode '{declared.mode}' computes what new rows of {driving} change, and the result would be wrong: "
            f"{obstacle.reason}",
            hint="mode='rebuild'" + ("" if len(declared.inputs) == 1 else ", or another input as driving"),
            name=driving,
            reason=obstacle.reason,
            problem=obstacle.kind,
        )
    return driving


def _check_columns(declared: Model, query: Query) -> None:
    from frazil.pipelines.models.columns import output_names

    names = output_names(query)
    if declared.columns:
        declared.table()
        _check_declared(declared, names)
    known = [column.name for column in declared.columns] or names
    wanted = [("key", name) for name in declared.key]
    wanted += [("partition_by", parse_partition(text).term.source.split(".")[0]) for text in declared.partition_by]
    for option, name in wanted:
        if known is not None and name.lower() not in [column.lower() for column in known]:
            raise _wrong(
                declared,
                option,
                f"{option} names column '{name}', which the query does not give; it gives {', '.join(known)}",
                column=name,
                problem="missing",
            )


def _check_declared(declared: Model, names: Sequence[str] | None) -> None:
    columns = [column.name.lower() for column in declared.columns]
    if names is not None and sorted(columns) != sorted(name.lower() for name in names):
        raise _wrong(
            declared,
            "columns",
            f"the declared columns are {', '.join(column.name for column in declared.columns)}, but the query gives "
            f"{', '.join(names)}",
            expected=list(names),
            got=[column.name for column in declared.columns],
            problem="mismatch",
        )


def _check_audit(declared: Model) -> None:
    for check in declared.audit:
        if is_query(check) and "{table}" not in check:
            raise _wrong(
                declared,
                "audit",
                f"the audit query '{check}' does not say {{table}}",
                hint=f"FROM {{table}} stands for {declared.name} with the new rows",
                check=check,
                problem="no-table",
            )


def _notes(query: Query) -> list[str]:
    from frazil.pipelines.models.incremental import changing_functions

    return [f"{name}: a run over the same rows gives another result" for name in changing_functions(query)]


def _wrong(declared: Model, argument: str, what: str, **facts: Unpack[Facts]) -> DeclarationError:
    facts = {"got": getattr(declared, argument, None), **facts, "option": argument, "table": declared.name}
    return DeclarationError(f"model '{declared.name}': {what}", **facts)
