"""Every error: its facts are attributes, it survives pickling, and its class is drawn in the tree."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path
from typing import Any

import pytest

from frazil import errors
from frazil.errors import Facts, FrazilError, SchemaMismatch


def classes(base: type[FrazilError] = FrazilError) -> list[type[FrazilError]]:
    return [base, *(cls for child in base.__subclasses__() for cls in classes(child))]


SAMPLES: dict[str, Any] = {
    "str": "a text",
    "object": 3,
    "int": 3,
    "float": 0.5,
    "bool": True,
    "Path": Path("/tmp/log"),
    "Sequence[str]": ("a", "b"),
    "tuple[str, ...]": ("a", "b"),
    "Mapping[str, str]": {"a": "b"},
    "Mapping[str, int]": {"a": 1},
    "Mapping[str, tuple[int, int]]": {"a": (1, 2)},
}


def sample(cls: type[FrazilError]) -> FrazilError:
    """An error of the class, with a value for each argument that it takes."""
    positional, named = [], {}
    for parameter in list(inspect.signature(cls.__init__).parameters.values())[1:]:
        if parameter.kind is parameter.VAR_KEYWORD:
            named |= {"table": "ns.t", "hint": "do this"}
            continue
        value = SAMPLES[str(parameter.annotation).removesuffix(" | None")]
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        else:
            positional.append(value)
    return cls(*positional, **named)


@pytest.mark.parametrize("cls", classes(), ids=lambda cls: cls.__name__)
def test_an_error_keeps_its_facts_when_it_crosses_a_process_boundary(cls: type[FrazilError]) -> None:
    error = sample(cls)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.args, vars(copy)) == (cls, str(error), error.args, vars(error))


def test_each_fact_is_an_attribute_of_every_error() -> None:
    names = Facts.__annotations__
    assert {name: getattr(FrazilError("x"), name) for name in names} == dict.fromkeys(names)


def test_facts_are_those_that_the_error_has() -> None:
    error = FrazilError("no such column", table="l.t", column="x", hint="look")
    assert (error.facts, error.hint, str(error)) == (
        {"table": "l.t", "column": "x"},
        "look",
        "no such column\n  look",
    )


def test_former_names_of_facts_warn_and_work() -> None:
    error = SchemaMismatch("l.t", "amount", expected="int", got="string")
    with pytest.warns(DeprecationWarning, match="'got'"):
        assert error.found == "string"
    with pytest.warns(DeprecationWarning, match="'column'"):
        assert error.field == "amount"


def test_the_tree_in_the_docstring_names_every_class() -> None:
    drawn: dict[str, str] = {}
    above = ["FrazilError"]  # the last class of each level
    for line in (errors.__doc__ or "").splitlines():
        before, branch, text = line.partition("── ")
        if branch:
            level, name = len(before) // 4, text.split()[0]
            above[level:] = [name]
            drawn[name] = above[level - 1]
    ours = [cls for cls in classes()[1:] if cls.__module__ == "frazil.errors"]
    assert drawn == {cls.__name__: cls.__bases__[0].__name__ for cls in ours}


def test_every_class_can_be_imported_from_the_package() -> None:
    ours = {cls.__name__ for cls in classes() if cls.__module__.startswith("frazil.errors")}
    assert {"Facts", *ours} == set(errors.__all__)
    assert {getattr(errors, name).__module__ for name in errors.__all__} == {"frazil.errors"}
