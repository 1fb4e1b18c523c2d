"""The local stack: real servers without Docker, a file a service. Each can start, say whether it is ready, and stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.services.catalog import Catalog
    from frazil.services.doctor import Check, examine
    from frazil.services.service import ServiceStatus
    from frazil.services.stack import PLAIN, SERVICES, Event, Listener, Stack, check_name

__all__ = [
    "PLAIN",
    "SERVICES",
    "Catalog",
    "Check",
    "Event",
    "Listener",
    "ServiceStatus",
    "Stack",
    "check_name",
    "examine",
]

__getattr__ = lazy_names(__name__)
