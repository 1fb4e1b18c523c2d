"""The Iceberg REST catalog server. `app.py` is the route table; follow a request from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.catalog.access.keys import pepper_path
    from frazil.catalog.access.manage import (
        NewKey,
        change_grant,
        change_member,
        create_role,
        create_token,
        drop_role,
        explain,
        find_target,
        find_warehouse_target,
        open_pepper,
        revoke_token,
        rotate_token,
    )
    from frazil.catalog.access.needs import AUTHENTICATED, PUBLIC, on_relation, on_server, on_warehouse
    from frazil.catalog.access.privileges import SERVER, Need, Privilege, Target
    from frazil.catalog.app import CatalogApp
    from frazil.catalog.cache import VersionCache
    from frazil.catalog.context import Context
    from frazil.catalog.embedded import running_catalog
    from frazil.catalog.files.access import S3Access
    from frazil.catalog.http import Request, Response, json_response
    from frazil.catalog.locations import Place
    from frazil.catalog.logs import log_to_stderr
    from frazil.catalog.names import Name
    from frazil.catalog.operations.access import ACCESS_OPERATIONS
    from frazil.catalog.operations.indexes import stored_indexes
    from frazil.catalog.operations.scans import as_bad_request, can_plan
    from frazil.catalog.operations.tables import load_version
    from frazil.catalog.overview import (
        Readable,
        find_kept,
        find_readable,
        key_of,
        list_seen,
        list_warehouses_seen,
        peek_metadata,
    )
    from frazil.catalog.owned import OwnPlaces, manifests_of, own_places
    from frazil.catalog.places import find_overlaps, store_missing_places
    from frazil.catalog.problems import problem_of
    from frazil.catalog.recover import Candidate, best_candidate, find_candidates, roll_back
    from frazil.catalog.routing import Route
    from frazil.catalog.searched import ServedFiles, ServedScan, open_served, served_files, writable_files
    from frazil.catalog.server import (
        ServerOptions,
        build_app,
        check_exposure,
        listen,
        open_context,
        return_memory,
    )
    from frazil.catalog.storage import can_assume, check_signing, check_vending, open_role, open_signer, partition_of
    from frazil.catalog.storage.manage import (
        Operator,
        create_warehouse,
        describe_warehouse,
        drop_warehouse,
        find_warehouse,
        list_warehouses,
        rekey_warehouses,
        update_warehouse,
        warehouse_contents,
    )
    from frazil.catalog.storage.secrets import SecretKeys, make_secret_key, open_secret_keys, read_secret_keys
    from frazil.catalog.storage.stored import StoredWarehouses, open_stored
    from frazil.catalog.store import open_database
    from frazil.catalog.store.access import all_members, list_keys
    from frazil.catalog.store.audit import Wanted, find_records, newest_records, prune_records
    from frazil.catalog.store.database import Database
    from frazil.catalog.store.migrations import check_schema, current_version, migrate
    from frazil.catalog.store.upkeep import Kept
    from frazil.catalog.sweep import delete_orphans, find_orphans
    from frazil.catalog.upkeep.asking import request_upkeep, show_upkeep, steps_of
    from frazil.catalog.upkeep.process import be_modest, run_until_signal
    from frazil.catalog.upkeep.status import describe_table, list_upkeep
    from frazil.catalog.upkeep.worker import UpkeepWorker
    from frazil.catalog.warehouse import MetadataFiles, Warehouse, Warehouses
    from frazil.catalog.workers import serve

__all__ = [
    "ACCESS_OPERATIONS",
    "AUTHENTICATED",
    "PUBLIC",
    "SERVER",
    "Candidate",
    "CatalogApp",
    "Context",
    "Database",
    "Kept",
    "MetadataFiles",
    "Name",
    "Need",
    "NewKey",
    "Operator",
    "OwnPlaces",
    "Place",
    "Privilege",
    "Readable",
    "Request",
    "Response",
    "Route",
    "S3Access",
    "SecretKeys",
    "ServedFiles",
    "ServedScan",
    "ServerOptions",
    "StoredWarehouses",
    "Target",
    "UpkeepWorker",
    "VersionCache",
    "Wanted",
    "Warehouse",
    "Warehouses",
    "all_members",
    "as_bad_request",
    "be_modest",
    "best_candidate",
    "build_app",
    "can_assume",
    "can_plan",
    "change_grant",
    "change_member",
    "check_exposure",
    "check_schema",
    "check_signing",
    "check_vending",
    "create_role",
    "create_token",
    "create_warehouse",
    "current_version",
    "delete_orphans",
    "describe_table",
    "describe_warehouse",
    "drop_role",
    "drop_warehouse",
    "explain",
    "find_candidates",
    "find_kept",
    "find_orphans",
    "find_overlaps",
    "find_readable",
    "find_records",
    "find_target",
    "find_warehouse",
    "find_warehouse_target",
    "json_response",
    "key_of",
    "list_keys",
    "list_seen",
    "list_upkeep",
    "list_warehouses",
    "list_warehouses_seen",
    "listen",
    "load_version",
    "log_to_stderr",
    "make_secret_key",
    "manifests_of",
    "migrate",
    "newest_records",
    "on_relation",
    "on_server",
    "on_warehouse",
    "open_context",
    "open_database",
    "open_pepper",
    "open_role",
    "open_secret_keys",
    "open_served",
    "open_signer",
    "open_stored",
    "own_places",
    "partition_of",
    "peek_metadata",
    "pepper_path",
    "problem_of",
    "prune_records",
    "read_secret_keys",
    "rekey_warehouses",
    "request_upkeep",
    "return_memory",
    "revoke_token",
    "roll_back",
    "rotate_token",
    "run_until_signal",
    "running_catalog",
    "serve",
    "served_files",
    "show_upkeep",
    "steps_of",
    "store_missing_places",
    "stored_indexes",
    "update_warehouse",
    "warehouse_contents",
    "writable_files",
]

__getattr__ = lazy_names(__name__)
