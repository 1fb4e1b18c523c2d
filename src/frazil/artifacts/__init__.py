"""Downloads: the cache folder, jars by Ivy, Java, checked against pinned hashes, with progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.artifacts.cache import cache_folder
    from frazil.artifacts.jars import jars_folder, resolve_jars, unpack_server
    from frazil.artifacts.java import (
        VECTOR_MODULE,
        Java,
        JavaNeed,
        find_java,
        homes_without_java,
        machine_homes,
        read_java,
    )
    from frazil.artifacts.java_updates import missed_updates, release_day
    from frazil.artifacts.progress import OnProgress, Progress, describe, folder_bytes, show_progress

__all__ = [
    "VECTOR_MODULE",
    "Java",
    "JavaNeed",
    "OnProgress",
    "Progress",
    "cache_folder",
    "describe",
    "find_java",
    "folder_bytes",
    "homes_without_java",
    "jars_folder",
    "machine_homes",
    "missed_updates",
    "read_java",
    "release_day",
    "resolve_jars",
    "show_progress",
    "unpack_server",
]

__getattr__ = lazy_names(__name__)
