"""`@pipeline`: a function from DataFrames to a DataFrame, with the sources it reads, the table it fills, and the rules
in between.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Unpack, get_args

from frazil.errors import DeclarationError, Facts
from frazil.pipelines.labels import check_labels
from frazil.pipelines.sources import CHANGE, OWN_OP, FileSource, KafkaSource, Source, TableSource
from frazil.pipelines.table_inputs import Reading, TableInput, check_reading, check_source, inputs_of
from frazil.tables import Table
from frazil.write.contract import is_query

if TYPE_CHECKING:
    from pyiceberg.typedef import Identifier
    from pyspark.sql import DataFrame

    from frazil.write.upsert import Ops, UpsertRules

    Transform = Callable[..., DataFrame]

Mode = Literal["append", "replace-partition", "upsert", "rebuild"]
Drift = Literal["evolve", "freeze", "quarantine"]
OnChange = Literal["error", "append", "replace"]


@dataclass(frozen=True)
class Pipeline:
    """A declared pipeline; calling it is calling the user's function, so that it can be tested alone."""

    name: str
    source: Source | Mapping[str, TableInput]
    target: Table
    transform: Transform
    key: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    mode: Mode = "append"
    max_bad_share: float = 0.05
    drift: Drift = "freeze"
    audit: tuple[str, ...] = ()
    branch: str = ""
    sequence: str | None = None
    op: str | Ops | None = None
    on_change: OnChange = "error"
    tags: tuple[str, ...] = ()
    group: str | None = None

    def __call__(self, *frames: DataFrame, **named: DataFrame) -> DataFrame:
        return self.transform(*frames, **named)

    @property
    def inputs(self) -> dict[str, TableInput]:
        """The tables and Spark sources that it reads, by the parameter that gets them; none for files and Kafka."""
        return inputs_of(self.source, self.transform)

    @property
    def is_over_tables(self) -> bool:
        """Whether it reads tables or Spark sources, and not files or Kafka."""
        return not isinstance(self.source, FileSource | KafkaSource)

    @property
    def driving(self) -> tuple[str, ...]:
        """The inputs of which a run reads new rows alone; none in mode `rebuild`, which reads all in full."""
        reading = Reading(self.name, self.target.name, self.mode, self.inputs)
        return () if self.mode == "rebuild" else tuple(reading.driving)

    @property
    def checks(self) -> tuple[str, ...]:
        """The conditions that the target declares."""
        return tuple(getattr(self.target, "checks", ()))

    @property
    def identifier(self) -> Identifier:
        """The table that the pipeline fills."""
        return self.target.identifier

    @property
    def files(self) -> FileSource:
        """The source, where it is one of files."""
        assert isinstance(self.source, FileSource)
        return self.source

    @property
    def deciding_columns(self) -> tuple[str, ...]:
        """Columns that decide over rows, and that the table need not have."""
        op = () if self.op is None else (self.op if isinstance(self.op, str) else self.op.column,)
        return (*self.order_by, *op)

    @property
    def upserted_by(self) -> tuple[str, ...]:
        """The key that changes find their rows by, where the mode is `upsert`; else nothing."""
        return self.key if self.mode == "upsert" else ()

    @property
    def rules(self) -> UpsertRules:
        """How changes find their rows, where the mode is `upsert`."""
        from frazil.write.upsert import UpsertRules

        return UpsertRules.of(self.key, self.sequence, self.op)


def pipeline(
    *,
    source: Source | Mapping[str, TableInput],
    target: Table,
    name: str | None = None,
    key: Sequence[str] = (),
    order_by: str | Sequence[str] = (),
    mode: Mode = "append",
    max_bad_share: float = 0.05,
    drift: Drift = "freeze",
    audit: Sequence[str] = (),
    branch: str | None = None,
    sequence: str | None = None,
    op: str | Ops | None = None,
    on_change: OnChange = "error",
    tags: str | Sequence[str] = (),
    group: str | None = None,
) -> Callable[[Transform], Pipeline]:
    """Declares the decorated function as a pipeline from `source` into `target`.

    - `source`: one of `frazil.sources`. Several tables have names, `{"orders": sources.table("silver.orders"),
      "customers": sources.table("silver.customers", full=True)}`, and the function a parameter for each. One of them
      brings new rows, the others are read in full; mode `rebuild` reads all in full.
    - `key`: of the rows of one load that share it, the last one is kept: by `order_by`, then by file and row.
    - `mode`: `append`; `replace-partition`: the partitions that the load has rows of are replaced by them; or `upsert`:
      a row replaces the one with the same `key`. `sequence` names the column that says which of two is newer, `op` the
      one that marks deletes. `rebuild`, for tables: the rows of the run replace all rows.
    - `max_bad_share`: rows that fail their type, NOT NULL or a check go to the quarantine; above this share the run
      stops instead.
    - `drift`: what happens to columns of the source that the table does not have: `freeze` stops the run, `evolve` adds
      them to the table, `quarantine` quarantines the rows of such files.
    - `audit`: what must hold of the table as it would be, before main has the rows: conditions of every row (`amount <
      10000`), or queries that find what is wrong (`SELECT order_id FROM {table} GROUP BY 1 HAVING count(*) > 1`). Until
      they pass, the rows are on `branch` alone.
    - `on_change`: what happens when a file that is loaded has other content now: `error` stops the run; `append` loads
      its whole content again, for mode `append`; `replace` loads it again by the rules of mode `replace-partition` or
      `upsert`.
    - `tags`, `group`: words by which commands select pipelines and models. Those of one group are published together.
    """
    orders = (order_by,) if isinstance(order_by, str) else tuple(order_by)

    def decorate(transform: Transform) -> Pipeline:
        declared = Pipeline(
            name or transform.__name__, source, target, transform, tuple(key), orders, mode, max_bad_share, drift
        )
        declared = replace(
            declared,
            audit=(audit,) if isinstance(audit, str) else tuple(audit),
            branch=branch or f"audit-{declared.name}",
            sequence=sequence,
            op=op or (_own_op(source) if mode == "upsert" else None),
            on_change=on_change,
            tags=check_labels(f"pipeline '{declared.name}'", tags, group),
            group=group,
        )
        _check(declared)
        return declared

    return decorate


def _own_op(source: Source | Mapping[str, TableInput]) -> str | None:
    """The column that marks deletes, where the source has one."""
    if isinstance(source, KafkaSource):
        return OWN_OP if source.message_key is not None else None
    inputs = source.values() if isinstance(source, Mapping) else [source]
    return CHANGE if any(isinstance(each, TableSource) and each.changes for each in inputs) else None


def _check(declared: Pipeline) -> None:
    check_source(declared.name, declared.source, declared.transform)
    names = [column.name for column in declared.target.columns]
    if unknown := [name for name in declared.key if name not in names]:
        raise _wrong(
            declared,
            "key",
            f"key names column '{unknown[0]}', which {declared.target.name} does not have; it has {', '.join(names)}",
            column=unknown[0],
            problem="missing",
        )
    if declared.order_by and not declared.key:
        raise _wrong(
            declared,
            "order_by",
            "order_by decides between rows of one key, and no key is given",
            hint='key=["order_id"]',
            problem="no-key",
        )
    modes = [mode for mode in get_args(Mode) if mode != "rebuild" or declared.is_over_tables]
    if declared.mode not in modes:
        raise _wrong(declared, "mode", f"mode is '{declared.mode}', expected one of {', '.join(modes)}")
    if declared.drift not in get_args(Drift):
        raise _wrong(declared, "drift", f"drift is '{declared.drift}', expected one of {', '.join(get_args(Drift))}")
    if declared.mode == "replace-partition" and not declared.target.partition_by:
        raise _wrong(
            declared,
            "mode",
            f"mode is 'replace-partition', but {declared.target.name} has no partitions",
            hint='partition_by=["day"]',
            problem="no-partitions",
        )
    if not 0 <= declared.max_bad_share <= 1:
        raise _wrong(
            declared, "max_bad_share", f"max_bad_share is {declared.max_bad_share}, expected a share from 0 to 1"
        )
    _check_upsert(declared, names)
    if declared.is_over_tables:
        _check_over_tables(declared)
    _check_on_change(declared)
    if isinstance(declared.source, KafkaSource):
        _check_stream(declared)
    _check_audit(declared)


def _check_over_tables(declared: Pipeline) -> None:
    for option, usual in (("drift", "freeze"), ("on_change", "error")):
        if getattr(declared, option) != usual:
            raise _wrong(
                declared,
                option,
                f"{option} is for files, and the source is a table",
                hint=f"leave {option} out",
                problem="not-applicable",
            )
    check_reading(Reading(declared.name, declared.target.name, declared.mode, declared.inputs))


def _check_upsert(declared: Pipeline, names: Sequence[str]) -> None:
    if declared.mode != "upsert":
        if declared.sequence or declared.op:
            raise _wrong(declared, "sequence", "sequence and op are for mode='upsert'", problem="not-applicable")
        return
    if not declared.key:
        raise _wrong(declared, "key", "mode 'upsert' needs a key", hint='key=["order_id"]', problem="missing")
    if declared.order_by:
        raise _wrong(
            declared,
            "order_by",
            "order_by is for other modes: a column of the table decides an upsert",
            hint=f"sequence='{declared.order_by[0]}'",
            problem="not-applicable",
        )
    if declared.sequence and declared.sequence not in names:
        raise _wrong(
            declared,
            "sequence",
            f"sequence names column '{declared.sequence}', which {declared.target.name} does not have; it has "
            f"{', '.join(names)}",
            column=declared.sequence,
            problem="missing",
        )


def _check_on_change(declared: Pipeline) -> None:
    if declared.on_change not in get_args(OnChange):
        raise _wrong(
            declared,
            "on_change",
            f"on_change is '{declared.on_change}', expected one of {', '.join(get_args(OnChange))}",
        )
    if declared.on_change == "error":
        return
    if isinstance(declared.source, KafkaSource):
        raise _wrong(
            declared,
            "on_change",
            "on_change is for files, and the source is Kafka",
            hint="leave on_change out",
            problem="kafka",
        )
    if declared.on_change == "replace" and declared.mode == "append":
        hint = "mode='replace-partition' or mode='upsert'; or on_change='append'"
        raise _wrong(
            declared,
            "on_change",
            "on_change is 'replace', but mode 'append' cannot find the rows that a file brought before",
            hint=hint,
            problem="mode",
        )
    if declared.on_change == "append" and declared.mode != "append":
        raise _wrong(
            declared,
            "on_change",
            f"on_change is 'append', but mode '{declared.mode}' replaces rows",
            hint="on_change='replace'",
            problem="mode",
        )


def _check_stream(declared: Pipeline) -> None:
    if declared.key and declared.mode == "append":
        raise _wrong(
            declared,
            "key",
            "key compares the rows of one load, and a topic has no loads",
            hint="rows.dropDuplicates([...]) in the function",
            problem="kafka",
        )
    if declared.mode == "replace-partition":
        raise _wrong(
            declared,
            "mode",
            "mode 'replace-partition' replaces what the load before has brought, and a topic has no loads",
            problem="kafka",
        )
    if isinstance(declared.source, KafkaSource) and declared.source.message_key is not None:
        _check_message_key(declared, declared.source.message_key)
    if declared.drift == "evolve":
        raise _wrong(
            declared,
            "drift",
            "drift 'evolve' is for files",
            hint="declare the columns and run: frazil apply; or drift='quarantine'",
            problem="kafka",
        )


def _check_message_key(declared: Pipeline, how: str) -> None:
    if declared.mode != "upsert":
        raise _wrong(
            declared,
            "message_key",
            "message_key tells which row a tombstone deletes, and only mode 'upsert' deletes rows",
            got=how,
            problem="mode",
        )
    if declared.sequence:
        hint = "leave sequence out: of one key, the message with the higher offset counts; or leave message_key out"
        raise _wrong(
            declared,
            "sequence",
            f"a tombstone has no '{declared.sequence}', by which changes are put in order",
            hint=hint,
            problem="message-key",
        )
    if how == "text" and len(declared.key) > 1:
        raise _wrong(
            declared,
            "message_key",
            f"message_key is 'text', which is one value, and the key has {len(declared.key)} columns",
            hint="message_key='json'",
            got=how,
            problem="key",
        )


def _check_audit(declared: Pipeline) -> None:
    if declared.branch == "main" or not re.fullmatch(r"[A-Za-z][\w.-]*", declared.branch):
        raise _wrong(
            declared,
            "branch",
            f"'{declared.branch}' cannot name the branch of an audit",
            hint="a name of its own, such as branch='audit'",
        )
    for check in declared.audit:
        if is_query(check) and "{table}" not in check:
            raise _wrong(
                declared,
                "audit",
                f"the audit query '{check}' does not say {{table}}",
                hint=f"FROM {{table}} stands for {declared.target.name} with the new rows",
                check=check,
                problem="no-table",
            )


def _wrong(declared: Pipeline, argument: str, what: str, **facts: Unpack[Facts]) -> DeclarationError:
    """The error for an argument of the pipeline; `got` is its value unless said otherwise."""
    facts = {"got": getattr(declared, argument, None), **facts, "option": argument, "pipeline": declared.name}
    return DeclarationError(f"pipeline '{declared.name}': {what}", **facts)
