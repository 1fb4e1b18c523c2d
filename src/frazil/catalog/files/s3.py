"""S3 through obstore."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from frazil.catalog.files import MOST_BYTES, Entry, NotReadable
from frazil.catalog.files.access import S3Access
from frazil.catalog.locations import Place
from frazil.storage_errors import store_unavailable

if TYPE_CHECKING:
    from obstore.store import S3Credential

T = TypeVar("T")


def open_bucket(access: S3Access, bucket: str, *, max_retries: int = 4) -> S3Store:
    """A bucket of the store. What the process's environment says counts only where the access leaves it open."""
    options: dict[str, Any] = {"region": access.region}
    if (endpoint := _endpoint(access, bucket)) is not None:
        options |= {"endpoint": endpoint, "virtual_hosted_style_request": _is_hosted(access)}
    if (key := access.access_key_id) is not None:
        # Not as options: obstore would add the session token of the environment to keys that have none.
        credential = {"access_key_id": key, "secret_access_key": access.secret_access_key, "expires_at": None}
        if access.session_token is not None:
            credential["token"] = access.session_token
        options["credential_provider"] = lambda: cast("S3Credential", credential)
    return S3Store(
        bucket,
        client_options={
            "allow_http": bool(endpoint and endpoint.startswith("http://")),
            "timeout": "30s",
            "connect_timeout": "5s",
        },
        retry_config={"max_retries": max_retries, "retry_timeout": timedelta(seconds=10)},
        **options,
    )


def _is_hosted(access: S3Access) -> bool:
    return access.endpoint is not None and not access.path_style


def _endpoint(access: S3Access, bucket: str) -> str | None:
    """The endpoint as obstore wants it: with the bucket in the name of the host, if requests go there. AWS is named
    when the environment is about another store.

    >>> _endpoint(S3Access(endpoint="http://store:1", path_style=True), "lake")
    'http://store:1'
    >>> _endpoint(S3Access(endpoint="http://store:1"), "lake")
    'http://lake.store:1'
    """
    if access.endpoint is None:
        if S3Access.of_environment().endpoint is None:
            return None
        return f"https://s3.{access.region}.amazonaws.com{'.cn' if access.region.startswith('cn-') else ''}"
    if not _is_hosted(access):
        return access.endpoint
    parts = urlsplit(access.endpoint)
    return parts._replace(netloc=f"{bucket}.{parts.netloc}").geturl()


class S3Files:
    """The files of one object store, in all of its buckets."""

    remote = True

    def __init__(self, access: S3Access) -> None:
        self._access = access
        self._stores: dict[str, S3Store] = {}
        self._lock = threading.Lock()

    def _store(self, bucket: str) -> S3Store:
        with self._lock:
            if bucket not in self._stores:
                self._stores[bucket] = open_bucket(self._access, bucket)
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
