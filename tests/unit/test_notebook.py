"""Progress bars are for notebooks alone."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from frazil.notebook import in_notebook


@pytest.mark.parametrize(
    ("shell", "is_notebook"), [(None, False), (SimpleNamespace(), False), (SimpleNamespace(kernel=object()), True)]
)
def test_only_a_kernel_is_a_notebook(monkeypatch: pytest.MonkeyPatch, shell: object, is_notebook: bool) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert in_notebook() is is_notebook


def test_an_ipython_that_another_thread_is_importing_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    assert not in_notebook()
