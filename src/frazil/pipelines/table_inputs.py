"""Inputs of a pipeline that reads tables: which frames its function gets, and which modes make sense for them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

from frazil.errors import DeclarationError, Facts
from frazil.pipelines.sources import FileSource, KafkaSource, SparkSource, TableSource

TableInput = TableSource | SparkSource


@dataclass(frozen=True)
class Reading:
    """What a pipeline over tables reads, and how its result becomes part of the target."""

    pipeline: str
    target: str
    mode: str
    inputs: Mapping[str, TableInput]

    @property
    def driving(self) -> list[str]:
        """The inputs of which only new rows are read; the others are read in full by each run."""
        return [name for name, source in self.inputs.items() if is_driving(source)]


def is_driving(source: TableInput) -> bool:
    """Whether an input brings new rows alone.

    >>> is_driving(TableSource("silver.orders")), is_driving(TableSource("silver.customers", full=True))
    (True, False)
    """
    return source.high_water_mark is not None if isinstance(source, SparkSource) else not source.full


def inputs_of(source: object, transform: Callable[..., Any]) -> dict[str, TableInput]:
    """The inputs by the name of the parameter that gets them; empty for files and Kafka."""
    if isinstance(source, Mapping):
        return dict(source)
    return {_first_parameter(transform): source} if isinstance(source, TableSource | SparkSource) else {}


def check_source(pipeline: str, source: object, transform: Callable[..., Any]) -> None:
    """Refuses what is no source, and inputs that do not fit the parameters of the function."""
    if isinstance(source, FileSource | KafkaSource):
        return
    if isinstance(source, Mapping):
        _check_mapping(pipeline, source)
        _check_parameters(pipeline, list(source), transform)
    elif not isinstance(source, TableSource | SparkSource):
        raise _wrong(
            pipeline,
            f"source is {source!r:.100}, expected one of frazil.sources, or several by name",
            hint='source=sources.csv("landing/*.csv")',
            got=type(source).__name__,
        )
    elif not _first_parameter(transform):
        raise _wrong(pipeline, "the function has no parameter for the rows of the source", problem="parameters")


def _check_mapping(pipeline: str, source: Mapping[Any, object]) -> None:
    if not source:
        raise _wrong(pipeline, "source has no inputs", hint='{"orders": sources.table("silver.orders")}', got={})
    for name, value in source.items():
        if not isinstance(value, TableSource | SparkSource):
            raise _wrong(
                pipeline,
                f"input '{name}' is {type(value).__name__}; several inputs are tables or Spark sources",
                hint="load files and topics into a table of their own, and read that: sources.table(...)",
                name=str(name),
                got=type(value).__name__,
            )


def _check_parameters(pipeline: str, names: list[str], transform: Callable[..., Any]) -> None:
    parameters = _parameters(transform)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    by_name = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    missing = [name for name in names if name not in by_name]
    unfilled = [
        p.name for p in parameters if p.default is p.empty and p.name not in names and p.kind != p.VAR_POSITIONAL
    ]
    if missing or unfilled:
        takes = ", ".join(parameter.name for parameter in parameters) or "nothing"
        raise _wrong(
            pipeline,
            f"the inputs are {', '.join(names)}, but the function takes {takes}",
            hint="name the parameters as the inputs: " + f"def {pipeline}({', '.join(names)})",
            name=(missing or unfilled)[0],
            expected=names,
            got=[parameter.name for parameter in parameters],
            problem="parameters",
        )


def _parameters(transform: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(transform).parameters.values())
    except (TypeError, ValueError):  # a function of C without a signature takes what it gets
        return [inspect.Parameter("rows", inspect.Parameter.POSITIONAL_ONLY)]


def _first_parameter(transform: Callable[..., Any]) -> str:
    positional = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return next((parameter.name for parameter in _parameters(transform) if parameter.kind not in positional), "")


def check_reading(reading: Reading) -> None:
    """Refuses inputs that the mode cannot bring into the target rightly."""
    own = [name for name, source in reading.inputs.items() if getattr(source, "name", None) == reading.target]
    if own:
        raise _wrong(
            reading.pipeline,
            f"input '{own[0]}' is {reading.target}, which the pipeline fills itself",
            name=own[0],
            problem="cycle",
        )
    if reading.mode == "rebuild":
        _check_rebuild(reading)
    elif len(reading.driving) > 1:
        first, *others = reading.driving
        raise _wrong(
            reading.pipeline,
            f"only one input can bring new rows alone, and these do: {', '.join(reading.driving)}",
            hint=f"full=True for {', '.join(others)}, if {first} decides what is new; or mode='rebuild', which reads "
            "all inputs in full",
            got=reading.driving,
            problem="driving",
        )
    elif reading.mode == "append" and not reading.driving:
        raise _wrong(
            reading.pipeline,
            "all inputs are read in full, and mode 'append' would add all rows again with each run",
            hint="mode='rebuild'; mode='upsert' with a key; or one input without full=True, or with high_water_mark",
            got="append",
            problem="full",
        )


def _check_rebuild(reading: Reading) -> None:
    marked = [name for name, each in reading.inputs.items() if isinstance(each, SparkSource) and each.high_water_mark]
    if marked:
        raise _wrong(
            reading.pipeline,
            f"mode 'rebuild' reads all inputs in full, and input '{marked[0]}' has a high_water_mark",
            hint="leave high_water_mark out, or choose another mode",
            name=marked[0],
            problem="high-water-mark",
        )
    changes = [name for name, source in reading.inputs.items() if isinstance(source, TableSource) and source.changes]
    if changes:
        raise _wrong(
            reading.pipeline,
            f"mode 'rebuild' reads all inputs in full, and input '{changes[0]}' has changes=True",
            hint="leave changes out, or choose another mode",
            name=changes[0],
            problem="changes",
        )


def _wrong(name_of_pipeline: str, what: str, **facts: Unpack[Facts]) -> DeclarationError:
    facts = {**facts, "option": "source", "pipeline": name_of_pipeline}
    return DeclarationError(f"pipeline '{name_of_pipeline}': {what}", **facts)
