"""The project whose folder the server runs in: what its files declare, asked in a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.console.project.child import ChildFailed, ask_child
    from frazil.console.project.described import FILE_NAME, Described, Projects, fingerprint, has_project, projects

__all__ = ["FILE_NAME", "ChildFailed", "Described", "Projects", "ask_child", "fingerprint", "has_project", "projects"]

__getattr__ = lazy_names(__name__)
