"""What a run does with a model: nothing, or which rows it computes and how they are published. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from frazil.errors import PipelineError
from frazil.pipelines.models.inputs import Arrived, News

_PROBLEMS = {News.CHANGED: "changed", News.UNKNOWN: "expired", News.FIRST: "other-inputs"}


class Action(Enum):
    """What is computed, and how it is published."""

    NOTHING = "nothing"
    APPEND = "append"  # what was appended to the driving input
    MERGE = "merge"  # what changed in the driving input, by key
    PARTITIONS = "replace partitions"  # the partitions that changes of the driving input touch
    ALL = "compute everything"  # all rows, by the rules of the mode
    OVERWRITE = "rebuild"  # all rows, in place of all that the table has


@dataclass(frozen=True)
class Decision:
    """What a run does, and why."""

    action: Action
    reason: str

    @property
    def does_something(self) -> bool:
        return self.action is not Action.NOTHING


@dataclass(frozen=True)
class Question:
    """What the decision depends on: the mode, which input drives it, and whether the table holds rows of this model
    alone.
    """

    name: str
    mode: str
    driving: str | None  # the input whose changes an incremental mode reads
    is_alone: bool
    others: tuple[str, ...] = ()  # inputs that are no tables: what is new in them is not known
    reads_changes: bool = True  # rows that changed or went can be followed, and not only rows that were added
    takes_changes: bool = False  # its function gets the rows that came and those that went
    full_refresh: bool = False
    query_changed: bool = False  # since the rows of the table were computed


def decide(question: Question, inputs: Mapping[str, Arrived]) -> Decision:
    """What to do about what is new in the inputs; raises `PipelineError` if the mode has no right way."""
    if question.full_refresh:
        return Decision(Action.OVERWRITE, "a full refresh was asked for")
    new = {name: arrived for name, arrived in inputs.items() if arrived.is_new}
    if question.query_changed and question.mode != "append":
        return Decision(Action.OVERWRITE, "its query changed since it last ran")
    if not new and not question.others:
        return Decision(Action.NOTHING, "no input has new rows" + _earlier_rows(question))
    driving = inputs.get(question.driving or "")
    if question.takes_changes and driving is not None and driving.news is News.UNKNOWN:
        raise _cannot(question, driving)  # all rows once more would not tell which ones went
    if question.others and question.mode != "append":
        action = Action.OVERWRITE if question.mode == "rebuild" else Action.ALL
        return Decision(action, f"each run reads all of {', '.join(question.others)}")
    first = [name for name, arrived in inputs.items() if arrived.news is News.FIRST]
    has_run = len(first) < len(inputs)
    if question.mode == "append" and has_run:  # all rows once more would be rows twice
        first = [name for name in first if name == question.driving]
        if first:
            raise _cannot(question, inputs[first[0]])
    if first:
        action = Action.OVERWRITE if question.mode == "rebuild" else Action.ALL
        return Decision(action, _reasons(new) if has_run else "it has not run yet")
    if question.mode == "rebuild":
        return Decision(Action.OVERWRITE, _reasons(new))
    return _decide_incremental(question, new)


def _decide_incremental(question: Question, new: Mapping[str, Arrived]) -> Decision:
    driving = new.get(question.driving or "")
    others = {name: arrived for name, arrived in new.items() if name != question.driving}
    if driving is not None and (
        driving.news is News.UNKNOWN or (driving.news is News.CHANGED and not question.reads_changes)
    ):
        raise _cannot(question, driving)
    if question.mode == "append":
        if driving is None:
            return Decision(Action.NOTHING, f"{question.driving} has no new rows; rows that are there stay as they are")
        if driving.news is not News.APPENDED and not question.takes_changes:
            raise _cannot(question, driving)
        return Decision(Action.APPEND, driving.reason + _earlier_rows(question))
    if others:  # any row may depend on them
        return Decision(Action.OVERWRITE if question.is_alone else Action.ALL, _reasons(others))
    assert driving is not None
    return Decision(Action.MERGE if question.mode == "upsert" else Action.PARTITIONS, driving.reason)


def _earlier_rows(question: Question) -> str:
    """What a changed query means in mode 'append'. A rebuild could lose rows that the input no longer has."""
    if not question.query_changed:
        return ""
    return f"; its query changed, and earlier rows stay as they are (frazil run {question.name} --full-refresh)"


def _reasons(new: Mapping[str, Arrived]) -> str:
    return "; ".join(arrived.reason for arrived in new.values())


def _cannot(question: Question, arrived: Arrived) -> PipelineError:
    only, way = "what changed since is not known", ""
    if arrived.news is News.FIRST:
        only = "the rows of the table were made from other inputs"
    if arrived.news is News.CHANGED and question.mode == "append":
        only = "mode 'append' can only add rows"
    elif arrived.news is News.CHANGED:
        only = "it reads only rows that were added"
        way = f"read changes: sources.table('{question.driving}', changes=True), or "
    return PipelineError(
        f"{question.name}: {arrived.reason}; {only}",
        hint=f"{way}compute it again from all rows: frazil run {question.name} --full-refresh",
        pipeline=question.name,
        problem=_PROBLEMS[arrived.news],
    )
