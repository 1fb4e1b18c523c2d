"""How the server reaches the object store of a warehouse: where it is, and with which keys."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

DEFAULT_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class S3Access:
    """One object store as the server sees it. Secrets are not shown by `repr`.

    >>> S3Access("eu-west-1", access_key_id="AKIA1", secret_access_key="hunter2")
    S3Access(region='eu-west-1', endpoint=None, path_style=False, access_key_id='AKIA1')
    """

    region: str = DEFAULT_REGION
    endpoint: str | None = None  # None: AWS
    path_style: bool = False  # http://host/bucket/key, not http://bucket.host/key
    # None: the keys are those of the process: its environment, the AWS files, or the machine's role
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)

    @classmethod
    def of_environment(cls) -> S3Access:
        """The store that the process's environment names; the keys stay there."""
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or DEFAULT_REGION
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None
        return cls(region, endpoint, path_style=endpoint is not None)

    def public(self) -> dict[str, str]:
        """What clients may know about the object store: where it is, never the keys.

        >>> S3Access("eu", "http://store:8333", path_style=True, access_key_id="k", secret_access_key="s").public()
        {'s3.region': 'eu', 'client.region': 'eu', 's3.endpoint': 'http://store:8333', 's3.path-style-access': 'true'}
        """
        known = {"s3.region": self.region, "client.region": self.region}
        if self.endpoint is not None:
            known["s3.endpoint"] = self.endpoint
            # Java clients put the bucket in the name of the host unless told otherwise, PyIceberg in the path.
            known |= {"s3.path-style-access": "true"} if self.path_style else {"s3.force-virtual-addressing": "true"}
        return known

    def own(self) -> dict[str, str]:
        """The properties by which PyIceberg, in a process of this server, reaches the store as the server does."""
        keys = {"s3.access-key-id": self.access_key_id, "s3.secret-access-key": self.secret_access_key}
        keys |= {"s3.session-token": self.session_token}
        return self.public() | {key: value for key, value in keys.items() if value is not None}
