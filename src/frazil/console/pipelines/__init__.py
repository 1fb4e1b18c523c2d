"""The pipelines page: the graph of sources, pipelines, models and tables, its states, runs and streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.console.pipelines.page import project_status as project_status
    from frazil.console.pipelines.page import show_pipelines, show_states
    from frazil.console.pipelines.planning import apply_plan, show_plan
    from frazil.console.pipelines.runs import list_runs
    from frazil.console.pipelines.sight import Sight as Sight
    from frazil.console.pipelines.sight import identify as identify

__all__ = ["apply_plan", "list_runs", "show_pipelines", "show_plan", "show_states"]

__getattr__ = lazy_names(__name__)
