"""Access to a table's files without the server's own keys: short-lived credentials for that table alone."""

from frazil.catalog.storage.policy import POLICY_LENGTH, Rights, check_apart, outermost, session_policy
from frazil.catalog.storage.sts import Credentials, RoleAssumer, open_role, partition_of
from frazil.catalog.storage.vending import Vendor

__all__ = [
    "POLICY_LENGTH",
    "Credentials",
    "Rights",
    "RoleAssumer",
    "Vendor",
    "check_apart",
    "open_role",
    "outermost",
    "partition_of",
    "session_policy",
]
