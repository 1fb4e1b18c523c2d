"""Access to a table's files without the server's own keys: short-lived credentials for that table alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.catalog.storage.check import Attempt, Outcome, check_vending
    from frazil.catalog.storage.policy import POLICY_LENGTH, Rights, check_apart, outermost, session_policy
    from frazil.catalog.storage.sts import (
        Credentials,
        RoleAssumer,
        can_assume,
        check_installed,
        open_role,
        partition_of,
    )
    from frazil.catalog.storage.vending import Vendor, Vendors

__all__ = [
    "POLICY_LENGTH",
    "Attempt",
    "Credentials",
    "Outcome",
    "Rights",
    "RoleAssumer",
    "Vendor",
    "Vendors",
    "can_assume",
    "check_apart",
    "check_installed",
    "check_vending",
    "open_role",
    "outermost",
    "partition_of",
    "session_policy",
]

__getattr__ = lazy_names(__name__)
