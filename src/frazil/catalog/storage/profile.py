"""The storage profile of a warehouse in the database: where its object store is, and how clients get access to files.
Without secrets.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from frazil.catalog.files.access import DEFAULT_REGION, S3Access
from frazil.config import StorageProfile

Delegation = Literal["vended-credentials", "remote-signing"]
VENDED: Delegation = "vended-credentials"
SIGNED: Delegation = "remote-signing"
_REGION = re.compile(r"[A-Za-z0-9-]{1,64}")
_KEY_ID = re.compile(r"[!-~]{1,128}")


def _check_url(text: str | None) -> str | None:
    if text is None:
        return None
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"[\s\x00-\x1f\\]", text):
        raise ValueError("expected http://HOST or https://HOST")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("an address holds no keys: expected http://HOST or https://HOST")
    return text.rstrip("/")


def _check_region(text: str) -> str:
    if not _REGION.fullmatch(text):
        raise ValueError("expected letters, digits and '-'")
    return text


def _check_key_id(text: str | None) -> str | None:
    if text is not None and not _KEY_ID.fullmatch(text):
        raise ValueError("expected at most 128 printable characters without spaces")
    return text


Url = Annotated[str | None, AfterValidator(_check_url)]


class WarehouseProfile(BaseModel):
    """How the server and its clients reach the files of a warehouse."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    region: Annotated[str, AfterValidator(_check_region)] = DEFAULT_REGION
    endpoint: Url = None  # None: AWS
    path_style: bool = False
    # None: the server's own keys: its environment, the AWS files, or the machine's role
    access_key_id: Annotated[str | None, AfterValidator(_check_key_id)] = None
    role_arn: str | None = None
    sts_endpoint: Url = None
    session_seconds: int = Field(default=3600, ge=900, le=43200)
    delegation: tuple[Delegation, ...] = ()  # what clients may ask for

    def access(self, secret: str | None) -> S3Access:
        return S3Access(self.region, self.endpoint, self.path_style, self.access_key_id, secret)

    def role(self) -> StorageProfile:
        """What credentials for clients are made with."""
        return StorageProfile(
            role_arn=self.role_arn, sts_endpoint=self.sts_endpoint, session_seconds=self.session_seconds
        )
