"""The Iceberg REST catalog server. `app.py` is the route table; follow a request from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.catalog.cache import VersionCache
    from frazil.catalog.context import Context
    from frazil.catalog.embedded import running_catalog
    from frazil.catalog.names import Name
    from frazil.catalog.places import find_overlaps, store_missing_places
    from frazil.catalog.recover import Candidate, best_candidate, find_candidates, roll_back
    from frazil.catalog.server import ServerOptions, listen, open_context
    from frazil.catalog.storage import can_assume, check_vending, open_role, partition_of
    from frazil.catalog.store import open_database
    from frazil.catalog.store.migrations import check_schema, current_version, migrate
    from frazil.catalog.sweep import delete_orphans, find_orphans
    from frazil.catalog.warehouse import MetadataFiles, Warehouses
    from frazil.catalog.workers import serve

__all__ = [
    "Candidate",
    "Context",
    "MetadataFiles",
    "Name",
    "ServerOptions",
    "VersionCache",
    "Warehouses",
    "best_candidate",
    "can_assume",
    "check_schema",
    "check_vending",
    "current_version",
    "delete_orphans",
    "find_candidates",
    "find_orphans",
    "find_overlaps",
    "listen",
    "migrate",
    "open_context",
    "open_database",
    "open_role",
    "partition_of",
    "roll_back",
    "running_catalog",
    "serve",
    "store_missing_places",
]

__getattr__ = lazy_names(__name__)
