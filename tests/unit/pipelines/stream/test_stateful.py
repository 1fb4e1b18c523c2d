"""Queries that keep state are refused without the checkpoint that the table's rows came from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from frazil.errors import ProgressMismatch
from frazil.pipelines.stream.stateful import Checkpoint, check_stateful, check_stateless
from tests.kit.raising import raises


def write_checkpoint(folder: Path, query: str, batches: int) -> Checkpoint:
    (folder / "commits").mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": query}))
    for number in range(batches):
        (folder / "commits" / str(number)).write_text("v1\n{}")
    return Checkpoint.read(folder)


def check(progress: dict[str, int], checkpoint: Checkpoint) -> None:
    check_stateful(progress, checkpoint, ["dropDuplicates"], pipeline="p", table="l.t")


@pytest.mark.parametrize(("reached", "batches"), [(3, 3), (4, 3)])
def test_a_query_goes_on_with_its_own_checkpoint(tmp_path: Path, reached: int, batches: int) -> None:
    check({"checkpoint/q1": reached}, write_checkpoint(tmp_path, "q1", batches))


def test_a_query_that_begins_needs_none(tmp_path: Path) -> None:
    check({}, Checkpoint.read(tmp_path / "nothing"))


def test_a_lost_checkpoint_is_refused_and_it_is_said_why(tmp_path: Path) -> None:
    with raises(ProgressMismatch, problem="state-missing"):
        check({"checkpoint/q1": 3}, Checkpoint.read(tmp_path / "nothing"))


def test_a_checkpoint_of_another_query_is_refused(tmp_path: Path) -> None:
    with raises(ProgressMismatch, problem="state-missing"):
        check({"checkpoint/q1": 3}, write_checkpoint(tmp_path, "q2", 0))


def test_a_checkpoint_that_is_ahead_of_the_table_is_refused(tmp_path: Path) -> None:
    with raises(ProgressMismatch, problem="checkpoint-ahead"):
        check({"checkpoint/q1": 3}, write_checkpoint(tmp_path, "q1", 5))


def test_a_query_with_state_does_not_follow_one_without_nor_the_other_way_round(tmp_path: Path) -> None:
    with raises(ProgressMismatch, problem="stateless-before"):
        check({"uplink@x/0": 7}, Checkpoint(tmp_path))
    with raises(ProgressMismatch, problem="stateful-before"):
        check_stateless({"checkpoint/q1": 3}, pipeline="p", table="l.t")
