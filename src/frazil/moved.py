"""Former names of modules, methods and arguments: they work for one more release, with a DeprecationWarning that names
the new place.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

MOVED = {
    "frazil.pipelines.arrivals": "frazil.pipelines.batch.arrivals",
    "frazil.pipelines.session": "frazil.spark.session",
    "frazil.sinks.delta_repair": "frazil.sinks.delta.repair",
    "frazil.sinks.delta_rollback": "frazil.sinks.delta.rollback",
    "frazil.sinks.publish": "frazil.write.commit.publish",
    "frazil.sinks.replay": "frazil.quarantine.replay",
    "frazil.sinks.replay_delta": "frazil.quarantine.replay_delta",
    "frazil.sinks.rollback": "frazil.write.commit.rollback",
    "frazil.sinks.snapshots": "frazil.write.commit.snapshots",
    "frazil.sinks.spark_format": "frazil.sinks.spark.format",
    "frazil.sinks.sql_limits": "frazil.write.contract.sql_limits",
    "frazil.sinks.upsert_rules": "frazil.write.upsert.rules",
}


class _Former:
    """A finder and loader of modules. Is asked after all others, so it costs nothing where a module exists."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = ModuleSpec(fullname, self)  # type: ignore[arg-type]  # importlib.abc.Loader is slow to import
        return spec if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        new = MOVED[module.__name__]
        warnings.warn(
            f"{module.__name__} has moved to {new}; the old name goes with the next release",
            DeprecationWarning,
            stacklevel=2,
        )
        target = import_module(new)
        module.__getattr__ = lambda name: getattr(target, name)  # type: ignore[method-assign]


def install() -> None:
    """Lets the former names be imported."""
    if not any(isinstance(finder, _Former) for finder in sys.meta_path):
        sys.meta_path.append(_Former())


def warn_former(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Warns the caller's caller that `old` is called `new` now."""
    message = f"{old} is deprecated, use {new}; the old name goes with the next release"
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)


def former_keywords(_label: str | None = None, /, **names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Lets a function take arguments by their former names, each with a DeprecationWarning.

    >>> @former_keywords(to="until")
    ... def changes(since: int, until: int = 0) -> tuple[int, int]:
    ...     return since, until
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     changes(1, to=2), str(caught[0].message)
    ((1, 2), 'changes(to=) is deprecated, use until=; the old name goes with the next release')
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        label = _label or function.__name__

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for old in names.keys() & kwargs.keys():
                value = kwargs.pop(old)
                if value is None:
                    continue
                warn_former(f"{label}({old}=)", f"{names[old]}=")
                if kwargs.get(names[old]) is not None:
                    raise TypeError(f"{label}() takes {names[old]}= or its former name {old}=, not both")
                kwargs[names[old]] = value
            return function(*args, **kwargs)

        return call

    return decorate


def former_fields(**names: str) -> Callable[[C], C]:
    """Lets a dataclass take fields by their former names, each with a DeprecationWarning."""

    def decorate(cls: C) -> C:
        cls.__init__ = former_keywords(cls.__name__, **names)(cls.__init__)  # type: ignore[misc]
        return cls

    return decorate
