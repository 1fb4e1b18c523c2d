"""Delta tables by their location: which targets are one, and what delta-rs needs to reach them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frazil.config import Settings

PREFIX = "delta:"


def delta_location(target: object) -> str | None:
    """The location of a Delta table; None for the name of a table in a catalog.

    A location is a path or a URL: it has a slash, is a `Path`, or begins with `delta:`.

    >>> delta_location("lakehouse.sales"), delta_location("s3://lake/sales"), delta_location("./sales")
    (None, 's3://lake/sales', './sales')
    >>> delta_location("delta:sales"), delta_location(("lakehouse", "sales"))
    ('sales', None)
    """
    if isinstance(target, os.PathLike):
        return str(os.fspath(target))
    if not isinstance(target, str):
        return None
    if target.startswith(PREFIX):
        return target.removeprefix(PREFIX)
    return target if "/" in target else None


def delta_options(settings: Settings, uri: str) -> dict[str, str]:
    """What delta-rs needs to reach a location, from the settings; the usual AWS variables hold where they say
    nothing.
    """
    if not uri.startswith(("s3://", "s3a://")):
        return {}
    s3 = settings.s3
    values = {"AWS_ENDPOINT_URL": s3.endpoint, "AWS_REGION": s3.region}
    if s3.endpoint and s3.endpoint.startswith("http://"):
        values["AWS_ALLOW_HTTP"] = "true"
    secrets = {"AWS_ACCESS_KEY_ID": s3.access_key_id, "AWS_SECRET_ACCESS_KEY": s3.secret_access_key}
    values |= {key: secret.get_secret_value() for key, secret in secrets.items() if secret is not None}
    return {key: value for key, value in values.items() if value is not None}
