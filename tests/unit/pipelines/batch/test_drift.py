"""What a policy makes of columns that the table does not have, or that some files lack."""

from __future__ import annotations

import pytest

from frazil.errors import SourceDrift
from frazil.pipelines.batch.drift import Decision, check_delimiter, decide
from frazil.pipelines.declare import Drift
from frazil.pipelines.files.columns import FileColumns
from frazil.pipelines.files.reading import schema_of_text
from tests.kit.raising import raises


def decided(
    policy: Drift, *files: tuple[str, ...], texts: list[str] | None = None, absent_is_null: bool = False
) -> Decision:
    names = list(dict.fromkeys(name for file in files for name in file))
    return decide(
        policy,
        returned=names if texts is None else texts,
        table="l.t",
        known=["a", "b"],
        columns=FileColumns(files, schema_of_text(names)),
        paths=[f"{number}.csv" for number in range(len(files))],
        absent_is_null=absent_is_null,
    )


@pytest.mark.parametrize("policy", ["evolve", "freeze", "quarantine"])
def test_files_with_the_tables_columns_are_no_drift(policy: Drift) -> None:
    assert decided(policy, ("a", "b"), ("b", "a"), ()) == Decision()


def test_evolve_adds_what_is_unknown() -> None:
    assert decided("evolve", ("a", "x"), ("a",)) == Decision(add=("x",))


def test_freeze_names_the_columns_and_the_files() -> None:
    with raises(SourceDrift, table="l.t") as raised:
        decided("freeze", ("a",), *[("a", "x", "y")] * 4)
    assert raised.value.columns == ("x", "y")


def test_freeze_refuses_files_that_lack_a_column_of_the_others() -> None:
    with raises(SourceDrift, table="l.t", column="b"):
        decided("freeze", ("a", "b"), ("a",))
    assert decided("freeze", ("a", "b"), ("a",), absent_is_null=True) == Decision()


def test_quarantine_sets_aside_the_files_that_have_unknown_columns() -> None:
    assert decided("quarantine", ("a", "b"), ("a", "x"), ("a", "y")) == Decision(quarantined={1: ("x",), 2: ("y",)})


@pytest.mark.parametrize("policy", ["freeze", "quarantine"])
def test_a_column_that_the_function_itself_made_up_is_always_refused(policy: Drift) -> None:
    with pytest.raises(SourceDrift) as raised:
        decided(policy, ("a", "b"), texts=["a", "b", "made_up"])
    assert raised.value.message == "l.t has no column 'made_up'"


def test_a_column_that_the_function_drops_is_no_drift() -> None:
    assert decided("freeze", ("a", "b", "x"), texts=["a", "b"]) == Decision()


@pytest.mark.parametrize(
    ("header", "delimiter", "hint"),
    [("a;b", ",", "';'"), ("a\tb", ",", "'\\t'"), ("a,b", ";", "','"), ("a|b", ",", "'|'")],
)
def test_a_header_with_another_delimiter_advises_the_delimiter(header: str, delimiter: str, hint: str) -> None:
    columns = FileColumns((("a", "b"), (header,)), schema_of_text(["a", "b", header]))
    with raises(SourceDrift, path="1.csv") as raised:
        check_delimiter(columns, ["0.csv", "1.csv"], delimiter=delimiter, table="l.t", known=["a", "b"])
    assert raised.value.hint == f"sources.csv(..., delimiter={hint})"


def test_a_single_column_of_the_table_is_no_header_with_another_delimiter() -> None:
    columns = FileColumns((("a;b",), ("x",), ()), schema_of_text(["a;b", "x"]))
    check_delimiter(columns, ["0.csv", "1.csv", "2.csv"], delimiter=",", table="l.t", known=["a;b"])
