"""Why an append stays a conflict."""

from __future__ import annotations


class NotRebased(Exception):
    """The append must not be moved; the client gets the conflict that it would get without. The reason is logged."""
