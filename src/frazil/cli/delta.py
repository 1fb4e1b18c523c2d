"""Delta tables on the command line: known by their address, reached with the settings' keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frazil.config import Settings


def is_delta(name: str, flag: bool) -> bool:
    """Whether a name is the address of a Delta table: it was said so, or it is a path.

    >>> is_delta("lake.sales", False), is_delta("s3://lake/sales", False), is_delta("./sales", False), is_delta("sales", True)
    (False, True, True, True)
    """  # noqa: E501
    return flag or "/" in name


def delta_options(settings: Settings, uri: str) -> dict[str, str]:
    """What delta-rs needs to reach an address, from the settings; the usual AWS variables hold where they
    say nothing.
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
