"""Short-lived credentials by STS `AssumeRole`, through botocore."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from frazil.errors import MissingExtra, Unavailable

if TYPE_CHECKING:
    from frazil.catalog.files.access import S3Access
    from frazil.config import StorageProfile

CONNECT_SECONDS, READ_SECONDS, ATTEMPTS = 5, 10, 2
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_+=,.@-]")  # of sessions, in STS
_ROLE = re.compile(r"arn:([a-z0-9-]+):iam::.*role/.+")


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys that a client may have, and when they end. Only the id of the key is shown."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(repr=False)
    expires_ms: int

    def narrow(self, access: S3Access) -> S3Access:
        """The same store, reached with these credentials."""
        return replace(
            access,
            access_key_id=self.access_key_id,
            secret_access_key=self.secret_access_key,
            session_token=self.session_token,
        )

    def config(self) -> dict[str, str]:
        """The credentials under the names that clients know."""
        return {
            "s3.access-key-id": self.access_key_id,
            "s3.secret-access-key": self.secret_access_key,
            "s3.session-token": self.session_token,
            "s3.session-token-expires-at-ms": str(self.expires_ms),
        }


class RoleAssumer(Protocol):
    """Gives credentials of a role, narrowed by a session policy."""

    def __call__(self, policy: str, *, session: str) -> Credentials: ...


def check_installed() -> None:
    """Passes when the library for STS is there."""
    if find_spec("botocore") is None:
        raise MissingExtra("botocore", extra="vending")


def open_role(profile: StorageProfile, access: S3Access) -> RoleAssumer:
    """What assumes the role of a storage profile, with the keys of this access; if it has none, with those that
    botocore finds: the environment, the AWS files, or the machine's role. botocore is loaded with the first
    credentials: it takes half a second, and most servers start without a client that asks for any.
    """
    check_installed()
    lock, clients = Lock(), list[Any]()

    def client() -> Any:
        with lock:
            if not clients:
                clients.append(_client(profile, access))
            return clients[0]

    def assume(policy: str, *, session: str) -> Credentials:
        wanted = {
            "RoleArn": profile.role_arn,
            "RoleSessionName": session_name(session),
            "DurationSeconds": profile.session_seconds,
            "Policy": policy,
        }
        return _credentials(_call(client().assume_role, wanted, role=profile.role_arn or ""))

    return assume


def can_assume(profile: StorageProfile, access: S3Access, credentials: Credentials) -> bool:
    """Whether a client with these vended credentials can assume the role again, without their session policy."""
    from botocore.exceptions import ClientError

    client = _client(profile, access, credentials)
    try:
        client.assume_role(RoleArn=profile.role_arn, RoleSessionName=session_name("check"))
    except ClientError:
        return False
    return True


def _client(profile: StorageProfile, access: S3Access, credentials: Credentials | None = None) -> Any:
    from botocore.config import Config
    from botocore.session import Session

    keys = credentials.narrow(access) if credentials else access
    return Session().create_client(
        "sts",
        region_name=access.region,
        endpoint_url=profile.sts_endpoint or access.endpoint,
        aws_access_key_id=keys.access_key_id,
        aws_secret_access_key=keys.secret_access_key,
        aws_session_token=keys.session_token,
        config=Config(
            # An endpoint of the environment is not that of a store with keys of its own.
            ignore_configured_endpoint_urls=access.access_key_id is not None,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        ),
    )


def _call(assume_role: Callable[..., Mapping[str, Any]], wanted: Mapping[str, Any], *, role: str) -> Mapping[str, Any]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return assume_role(**wanted)
    except ClientError as exc:
        code = exc.response.get("Error", {}).get("Code") or "no code"
        raise Unavailable(
            f"cannot assume the role {role}: the store answered {code}",
            hint="frazil warehouse check names what is missing",
            lasting=True,
            reason=code,
        ) from None  # the request is part of the original error
    except BotoCoreError as exc:
        reason = type(exc).__name__
        raise Unavailable(
            f"cannot assume the role {role}: {reason}",
            hint="check the STS endpoint and the server's keys",
            reason=reason,
        ) from None


def _credentials(answer: Mapping[str, Any]) -> Credentials:
    keys = answer["Credentials"]
    expires_ms = int(keys["Expiration"].timestamp() * 1000)
    return Credentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"], expires_ms)


def session_name(principal: str) -> str:
    """The name of a session, for the store's own logs.

    >>> session_name("ana@example.org"), session_name("über/alles"), len(session_name("x" * 100))
    ('frazil-ana@example.org', 'frazil--ber-alles', 64)
    """
    return f"frazil-{_NOT_IN_NAMES.sub('-', principal)}"[:64]


def partition_of(role_arn: str) -> str:
    """The partition of AWS that a role belongs to.

    >>> partition_of("arn:aws-cn:iam::1:role/x"), partition_of("arn:aws:iam::role/x")
    ('aws-cn', 'aws')
    """
    match = _ROLE.fullmatch(role_arn)
    return match[1] if match else "aws"
