"""S3 through obstore. The keys come from the server's own environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_ENDPOINT_URL...).
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import IO, Any, TypeVar, cast

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from frazil.catalog.files import MOST_BYTES, Entry, NotReadable
from frazil.catalog.locations import Place
from frazil.storage_errors import store_unavailable

T = TypeVar("T")


def s3_environment() -> dict[str, str]:
    """What clients may know about the object store: where it is, never the keys."""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    environment = {"s3.region": region, "client.region": region}
    if endpoint := os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"):
        environment |= {"s3.endpoint": endpoint, "s3.path-style-access": "true"}
    return environment


class S3Files:
    remote = True

    def __init__(self) -> None:
        self._stores: dict[str, S3Store] = {}
        self._lock = threading.Lock()

    def _store(self, bucket: str) -> S3Store:
        with self._lock:
            if bucket not in self._stores:
                known = s3_environment()
                options: dict[str, Any] = {"region": known["s3.region"]}
                if endpoint := known.get("s3.endpoint"):
                    options |= {"endpoint": endpoint, "virtual_hosted_style_request": False}
                allow_http = bool(endpoint and endpoint.startswith("http://"))
                options["client_options"] = {"allow_http": allow_http, "timeout": "30s", "connect_timeout": "5s"}
                options["retry_config"] = {"max_retries": 4, "retry_timeout": timedelta(seconds=10)}
                self._stores[bucket] = S3Store(bucket, **options)
            return self._stores[bucket]

    def read(self, place: Place, most_bytes: int = MOST_BYTES) -> bytes:
        return _call(place, lambda: self._read(place, most_bytes))

    def _read(self, place: Place, most_bytes: int) -> bytes:
        response = obstore.get(self._store(place.bucket), place.path)
        if response.meta["size"] > most_bytes:
            raise NotReadable(f"{place.path} has {response.meta['size']:,} bytes; at most {most_bytes:,} are read")
        return bytes(response.bytes())

    def open(self, place: Place) -> IO[bytes]:
        store = self._store(place.bucket)
        size = _call(place, lambda: obstore.head(store, place.path))["size"]
        return cast(IO[bytes], _RangeStream(store, place, size))

    def write_new(self, place: Place, content: bytes | memoryview) -> None:
        # The name holds a fresh UUID: a file that is already there is our own first try, whose answer was lost.
        try:
            _call(
                place,
                lambda: obstore.put(
                    self._store(place.bucket), place.path, bytes(content), mode="create", use_multipart=False
                ),
            )
        except FileExistsError:
            if self.read(place) != bytes(content):
                raise

    def exists(self, place: Place) -> bool:
        try:
            _call(place, lambda: obstore.head(self._store(place.bucket), place.path))
        except FileNotFoundError:
            return False
        return True

    def is_regular(self, place: Place) -> bool:
        return bool(place.path)  # an object store has nothing else; a look would cost a round trip

    def delete(self, place: Place) -> None:
        try:
            _call(place, lambda: obstore.delete(self._store(place.bucket), place.path))
        except FileNotFoundError:
            return

    def list(self, place: Place) -> Iterator[Entry]:
        prefix = place.path.rstrip("/")
        for page in _call(place, lambda: obstore.list(self._store(place.bucket), prefix=prefix or None)):
            for item in page:
                yield Entry(
                    f"s3://{place.bucket}/{item['path']}", item["size"], int(item["last_modified"].timestamp() * 1000)
                )


class _RangeStream(io.RawIOBase):
    """An object that is read range by range, each as long as was asked for."""

    def __init__(self, store: S3Store, place: Place, size: int) -> None:
        super().__init__()
        self._store, self._place, self._size, self._at = store, place, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        length = max(0, min(len(view), self._size - self._at))
        if length:
            place, start = self._place, self._at
            view[:length] = _call(place, lambda: obstore.get_range(self._store, place.path, start=start, length=length))
            self._at += length
        return length


def _call(place: Place, action: Callable[[], T]) -> T:
    """The action's result; obstore's errors as Python's own where these have a name, else Unavailable."""
    try:
        return action()
    except AlreadyExistsError as exc:
        raise FileExistsError(f"s3://{place.bucket}/{place.path}") from exc
    except FileNotFoundError:
        raise
    except BaseError as exc:
        raise store_unavailable(f"s3://{place.bucket}/{place.path}", exc) from exc
