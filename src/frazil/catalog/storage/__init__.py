"""Access to a table's files without the server's own keys: short-lived credentials for that table alone, or requests
that the server signs one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.catalog.storage.check import Attempt, Outcome, check_vending
    from frazil.catalog.storage.policy import POLICY_LENGTH, Rights, check_apart, outermost, session_policy
    from frazil.catalog.storage.s3_request import Described
    from frazil.catalog.storage.signer import Signer, Signers, open_signer
    from frazil.catalog.storage.signing import decide
    from frazil.catalog.storage.signing_check import SigningOutcome, check_signing
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
    "Described",
    "Outcome",
    "Rights",
    "RoleAssumer",
    "Signer",
    "Signers",
    "SigningOutcome",
    "Vendor",
    "Vendors",
    "can_assume",
    "check_apart",
    "check_installed",
    "check_signing",
    "check_vending",
    "decide",
    "open_role",
    "open_signer",
    "outermost",
    "partition_of",
    "session_policy",
]

__getattr__ = lazy_names(__name__)
