"""Delta tables on the command line: known by their location, reached with the keys of the settings."""

from __future__ import annotations

from frazil.sinks import delta_location
from frazil.sinks import delta_options as delta_options


def is_delta(name: str, flag: bool) -> bool:
    """Whether a name is the location of a Delta table: it was said so, or it is a path.

    >>> is_delta("lake.sales", False), is_delta("s3://lake/sales", False), is_delta("./sales", False), is_delta("sales", True)
    (False, True, True, True)
    """  # noqa: E501
    return flag or delta_location(name) is not None
