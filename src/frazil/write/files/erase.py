"""Files that are removed one at a time, on any store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obstore.store import S3Store
    from pyiceberg.io import FileIO

S3 = ("s3://", "s3a://", "s3n://")
RETRY_TIMEOUT = timedelta(seconds=20)  # a store that is away for longer leaves an orphan


def eraser(io: FileIO, location: str) -> Callable[[str], None]:
    """What removes a file below a location. On S3 not Arrow's way, which puts an empty object in place of the folder of
    a removed file.
    """
    properties: Mapping[str, str] = io.properties
    if not location.startswith(S3) or "s3.access-key-id" not in properties:
        return io.delete
    stores: dict[str, S3Store] = {}

    def delete(path: str) -> None:
        import obstore

        bucket, _, key = path.partition("://")[2].partition("/")
        if bucket not in stores:
            stores[bucket] = _store(bucket, properties)
        obstore.delete(stores[bucket], key)

    return delete


def _store(bucket: str, properties: Mapping[str, str]) -> S3Store:
    from obstore.store import S3Store

    names = {
        "s3.endpoint": "endpoint",
        "s3.access-key-id": "access_key_id",
        "s3.secret-access-key": "secret_access_key",
    }
    names |= {"s3.session-token": "session_token", "s3.region": "region"}
    store: dict[str, Any] = {name: properties[key] for key, name in names.items() if properties.get(key)}
    is_virtual = str(properties.get("s3.force-virtual-addressing", "false")).lower() == "true"
    return S3Store(
        bucket,
        virtual_hosted_style_request=is_virtual,
        client_options={"allow_http": str(store.get("endpoint", "")).startswith("http://")},
        retry_config={"retry_timeout": RETRY_TIMEOUT},
        **store,
    )
