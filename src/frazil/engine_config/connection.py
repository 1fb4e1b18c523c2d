"""How an engine reaches the catalog, and the store of its tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frazil.client import FrazilCatalog
    from frazil.config import Settings

# names, not values
KEY_VARIABLE, SECRET_VARIABLE, TOKEN_VARIABLE = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "FRAZIL_CATALOG__TOKEN"
CREDENTIAL_VARIABLE = "FRAZIL_CATALOG__PROPERTIES__CREDENTIAL"


@dataclass(frozen=True)
class S3:
    """Where the object store is. No endpoint means AWS's own."""

    endpoint: str | None
    region: str
    path_style: bool = True
    key: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Connection:
    """How an engine reaches the catalog, and the store of its tables (None: they are local files)."""

    name: str
    uri: str
    warehouse: str | None = None
    token: str | None = field(default=None, repr=False)
    s3: S3 | None = None
    # the user's own; may hold credentials under any name
    properties: Mapping[str, str] | None = field(default=None, repr=False)
    vended: bool = False  # engines ask the catalog for credentials of each table, and need no keys
    signed: bool = False  # they have it sign their requests, likewise; for those that can

    @property
    def credential(self) -> str | None:
        """The client id and secret that tokens are asked for with, if no token is set."""
        return None if self.token else (self.properties or {}).get("credential")

    @property
    def oauth_uri(self) -> str:
        """Where they are asked for."""
        return (self.properties or {}).get("oauth2-server-uri") or f"{self.uri.rstrip('/')}/v1/oauth/tokens"


def find_connection(
    settings: Settings, open_catalog: Callable[[], FrazilCatalog], *, vended: bool = False, signed: bool = False
) -> Connection:
    """The connection that the settings describe; where they do not say where the store is, the catalog is asked.

    Who has no keys of the store gets vended credentials, if the catalog has them, else signed requests; with `vended`
    or `signed` also who has keys.
    """
    catalog, s3 = settings.catalog, settings.s3
    key, secret = (value.get_secret_value() if value else None for value in (s3.access_key_id, s3.secret_access_key))
    if s3.endpoint:
        store: S3 | None = S3(s3.endpoint, s3.region, s3.path_style_access, key, secret)
    else:
        known = open_catalog()
        endpoint, region = known.properties.get("s3.endpoint"), known.properties.get("s3.region")
        keyless = not key and KEY_VARIABLE not in os.environ and not signed
        vended = vended or (known.vends_credentials and keyless)
        signed = signed or (known.signs_requests and keyless and not vended)
        store = S3(endpoint, region or s3.region, s3.path_style_access, key, secret) if endpoint or region else None
    token = catalog.token.get_secret_value() if catalog.token else None
    return Connection(
        catalog.name, catalog.uri, catalog.warehouse, token, store, dict(catalog.properties), vended, signed
    )
