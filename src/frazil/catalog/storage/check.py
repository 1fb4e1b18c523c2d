"""Proves on the real store that credentials for a folder work inside it and fail outside.

Four objects are written with the server's own keys below the warehouse, each attempt is made with credentials as
clients get them, and the objects are deleted again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from frazil.catalog.files.access import S3Access
from frazil.catalog.files.s3 import S3Files, open_bucket
from frazil.catalog.locations import Place
from frazil.catalog.storage.policy import Rights, session_policy
from frazil.catalog.storage.sts import Credentials, RoleAssumer
from frazil.storage_errors import StorageFault, classify

ALLOWED, DENIED = "allowed", "denied"
READ, WRITE = Rights.READ, Rights.READ | Rights.WRITE
_SESSION = "warehouse-check"


@dataclass(frozen=True)
class Attempt:
    """One thing that was tried with vended credentials."""

    what: str
    expected: str  # allowed or denied
    got: str  # the same, or what the store answered instead

    @property
    def passed(self) -> bool:
        return self.got == self.expected


@dataclass(frozen=True)
class Outcome:
    """All attempts in one warehouse."""

    attempts: tuple[Attempt, ...]
    ignores_case: bool  # the store does not tell `sales` from `Sales` in a policy

    @property
    def passed(self) -> bool:
        return all(attempt.passed for attempt in self.attempts)


def check_vending(
    root: Place,
    access: S3Access,
    assume: RoleAssumer,
    *,
    again: Callable[[Credentials], bool],
    partition: str = "aws",
) -> Outcome:
    """What credentials for a new folder below the root open. `again` tells whether credentials can assume the role once
    more.
    """
    folder = "/".join(part for part in (root.path.strip("/"), f"frazil-check-{uuid.uuid4().hex[:12]}") if part)
    own = S3Files(access)
    objects = [Place("s3", root.bucket, f"{folder}/{name}") for name in ("own/a", "own2/a", "OWN/a", "other/a")]
    try:
        for place in objects:
            own.write_new(place, b"written by frazil warehouse check")
        return _attempt_all(_Sessions(root.bucket, folder, access, assume, partition), again)
    finally:
        for place in [*objects, *(Place("s3", root.bucket, f"{folder}/{name}") for name in _WRITTEN)]:
            own.delete(place)


_WRITTEN = ("own/new", "own/copy", "own2/new", "other/copy")  # by attempts, some of them only if the check fails


@dataclass(frozen=True)
class _Sessions:
    bucket: str
    folder: str
    access: S3Access
    assume: RoleAssumer
    partition: str

    def credentials(self, rights: Rights) -> Credentials:
        own = Place("s3", self.bucket, f"{self.folder}/own")
        return self.assume(session_policy([own], rights, partition=self.partition), session=_SESSION)

    def store(self, credentials: Credentials) -> S3Store:
        return open_bucket(credentials.narrow(self.access), self.bucket, max_retries=2)


def _attempt_all(sessions: _Sessions, again: Callable[[Credentials], bool]) -> Outcome:
    reader, writer = sessions.credentials(READ), sessions.credentials(WRITE)
    folder = sessions.folder
    attempts = [
        *_of_reader(sessions.store(reader), folder),
        *_of_writer(sessions.store(writer), folder),
        *_of_deleter(sessions.store(sessions.credentials(Rights.ALL)), folder),
        Attempt("assume the role again with vended credentials", DENIED, ALLOWED if again(reader) else DENIED),
    ]
    other_case = _result(lambda: obstore.head(sessions.store(reader), f"{folder}/OWN/a"))
    return Outcome(tuple(attempts), ignores_case=other_case == ALLOWED)


def _of_reader(store: S3Store, folder: str) -> Iterator[Attempt]:
    def get(key: str) -> Callable[[], object]:
        return lambda: obstore.get(store, f"{folder}/{key}").bytes()

    def listing(prefix: str | None) -> Callable[[], object]:
        return lambda: next(iter(obstore.list(store, prefix=prefix)), None)

    yield _attempt("read: get a file of the table", ALLOWED, get("own/a"))
    yield _attempt("read: list the table's folder", ALLOWED, listing(f"{folder}/own/"))
    yield _attempt("read: get a file of a table whose name starts with the same letters", DENIED, get("own2/a"))
    yield _attempt("read: get a file of another table", DENIED, get("other/a"))
    yield _attempt("read: list another table's folder", DENIED, listing(f"{folder}/other/"))
    yield _attempt("read: list the folder above", DENIED, listing(f"{folder}/"))
    yield _attempt("read: list the bucket", DENIED, listing(None))
    yield _attempt("read: put a file into the table", DENIED, _put(store, f"{folder}/own/new"))
    yield _attempt("read: delete a file of the table", DENIED, lambda: obstore.delete(store, f"{folder}/own/a"))


def _of_writer(store: S3Store, folder: str) -> Iterator[Attempt]:
    def copy(source: str, target: str) -> Callable[[], object]:
        return lambda: obstore.copy(store, f"{folder}/{source}", f"{folder}/{target}")

    yield _attempt("write: put a file into the table", ALLOWED, _put(store, f"{folder}/own/new"))
    yield _attempt("write: put a file into a table whose name starts alike", DENIED, _put(store, f"{folder}/own2/new"))
    yield _attempt("write: copy a file of another table into the table", DENIED, copy("other/a", "own/copy"))
    yield _attempt("write: copy a file of the table into another table", DENIED, copy("own/a", "other/copy"))
    yield _attempt("write: delete a file of the table", DENIED, lambda: obstore.delete(store, f"{folder}/own/a"))


def _of_deleter(store: S3Store, folder: str) -> Iterator[Attempt]:
    yield _attempt("delete: delete a file of the table", ALLOWED, lambda: obstore.delete(store, f"{folder}/own/new"))
    yield _attempt("delete: delete a file of another table", DENIED, lambda: obstore.delete(store, f"{folder}/other/a"))


def _put(store: S3Store, key: str) -> Callable[[], object]:
    return lambda: obstore.put(store, key, b"x", use_multipart=False)


def _attempt(what: str, expected: str, action: Callable[[], object]) -> Attempt:
    return Attempt(what, expected, _result(action))


def _result(action: Callable[[], object]) -> str:
    try:
        action()
    except (BaseError, OSError) as exc:
        fault = classify(exc)
        return DENIED if fault is StorageFault.DENIED else fault.value
    return ALLOWED
