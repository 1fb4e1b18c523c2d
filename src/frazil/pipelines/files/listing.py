"""The files that match a pattern now, each with its identity."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from frazil.errors import PipelineError
from frazil.storage_errors import classify, hint_for

LIST_SECONDS = timedelta(seconds=20)
THREADS = 16  # on S3 each file costs a request
_WILD = re.compile(r"[*?[]")


@dataclass(frozen=True, order=True)
class SourceFile:
    """The identity of a landing file: a file that was rewritten has another size or tag, and counts as new."""

    path: str
    size: int
    tag: str


def list_local(pattern: str, folder: Path) -> list[SourceFile]:
    """The files of this machine; those inside the project are named relative to it."""
    fixed = len(_fixed_folder(pattern))
    local = []
    for name in sorted(glob.iglob(pattern, root_dir=folder, recursive=True)):  # noqa: PTH207  # Path.glob takes no absolute pattern
        path = Path(folder, name)
        if not _is_hidden(name[fixed:]) and path.is_file():
            local.append(_identify(path, name))
    return local


def list_s3(pattern: str, io_properties: Mapping[str, str]) -> list[SourceFile]:
    """The objects of a bucket; the tag is the ETag, which says when the content has changed."""
    import obstore
    from obstore.exceptions import BaseError

    bucket, _, keys = pattern.removeprefix("s3://").partition("/")
    prefix, wanted = _fixed_folder(keys), _as_regex(keys)
    try:
        pages = obstore.list(_s3_store(bucket, io_properties), prefix=prefix.rstrip("/") or None, chunk_size=1000)
        entries = [entry for page in pages for entry in page]
    except (BaseError, FileNotFoundError) as exc:
        raise _failed("list", pattern, exc) from exc
    kept = [
        entry for entry in entries if wanted.fullmatch(entry["path"]) and not _is_hidden(entry["path"][len(prefix) :])
    ]
    return sorted(_identify_object(bucket, entry) for entry in kept)


def find_changed(files: Sequence[SourceFile], folder: Path, io_properties: Mapping[str, str]) -> list[str]:
    """The paths of the files that are not what a listing said any more; files that are gone do not count.

    Only these files are asked for: a second listing would cost a request per thousand files of the whole folder.
    """
    stores = {bucket: _s3_store(bucket, io_properties) for bucket in {_bucket(file) for file in files} - {""}}

    def has_changed(file: SourceFile) -> bool:
        try:
            store = stores.get(_bucket(file))
            now = _identify(folder / file.path, file.path) if store is None else _head_object(store, file)
        except FileNotFoundError:
            return False
        return (now.size, now.tag.strip('"')) != (file.size, file.tag.strip('"'))

    with ThreadPoolExecutor(THREADS) as pool:
        return [file.path for file, changed in zip(files, pool.map(has_changed, files), strict=True) if changed]


def _bucket(file: SourceFile) -> str:
    """The bucket of an object; nothing for a file of this machine."""
    return file.path.split("/")[2] if file.path.startswith("s3://") else ""


def _head_object(store: Any, file: SourceFile) -> SourceFile:
    import obstore
    from obstore.exceptions import BaseError

    bucket = _bucket(file)
    try:
        return _identify_object(bucket, obstore.head(store, file.path.removeprefix(f"s3://{bucket}/")))
    except BaseError as exc:
        raise _failed("read", file.path, exc) from exc


def _failed(verb: str, what: str, exc: Exception) -> PipelineError:
    hint = hint_for(classify(exc), what) or "check the bucket, s3.endpoint and the keys"
    return PipelineError(f"cannot {verb} {what}: {str(exc)[:500]}", hint=hint, path=what)


def _identify(path: Path, name: str) -> SourceFile:
    status = path.stat()
    return SourceFile(Path(name).as_posix(), status.st_size, str(status.st_mtime_ns))


def _identify_object(bucket: str, entry: Mapping[str, Any]) -> SourceFile:
    tag = entry["e_tag"] or entry["last_modified"].isoformat()
    return SourceFile(f"s3://{bucket}/{entry['path']}", entry["size"], tag)


def _is_hidden(name: str) -> bool:
    """Whether a part of the name says that the file is not finished.

    >>> _is_hidden("2024/a.csv"), _is_hidden("_temporary/a.csv"), _is_hidden(".a.csv.crc")
    (False, True, True)
    """
    return any(part.startswith(("_", ".")) for part in name.split("/"))


def _fixed_folder(pattern: str) -> str:
    """The folder, with its slash, that a pattern names before its first wildcard.

    >>> _fixed_folder("landing/2024/*.csv"), _fixed_folder("*.csv"), _fixed_folder("landing/a.csv")
    ('landing/2024/', '', 'landing/')
    """
    wild = _WILD.search(pattern)
    return pattern[: pattern.rfind("/", 0, wild.start() if wild else len(pattern)) + 1]


def _as_regex(pattern: str) -> re.Pattern[str]:
    """A pattern of keys, read as the shell reads one of paths: `*` stays in a folder, `**` does not.

    >>> bool(_as_regex("in/**/*.csv").fullmatch("in/2024/01/a.csv")), bool(_as_regex("in/*.csv").fullmatch("in/2024/a.csv"))
    (True, False)
    """  # noqa: E501
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^]]+\])", pattern)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile(
        "".join(
            known.get(part) or (part.replace("[!", "[^", 1) if part[:1] == "[" else re.escape(part)) for part in parts
        )
    )


def _s3_store(bucket: str, io_properties: Mapping[str, str]) -> Any:  # obstore gives no types for its stores' options
    from obstore.store import S3Store

    # Without keys, obstore asks the cloud machine's metadata service for some; elsewhere nothing answers, for minutes
    # by default.
    options: dict[str, Any] = {
        "retry_config": {"max_retries": 3, "retry_timeout": LIST_SECONDS},
        "region": io_properties.get("s3.region") or os.environ.get("AWS_REGION") or "us-east-1",
    }
    for key, name in (
        ("s3.access-key-id", "access_key_id"),
        ("s3.secret-access-key", "secret_access_key"),
        ("s3.session-token", "token"),
    ):
        if value := io_properties.get(key):
            options[name] = value
    if endpoint := io_properties.get("s3.endpoint"):
        virtual = io_properties.get("s3.force-virtual-addressing", "false") == "true"
        options |= {"endpoint": endpoint, "virtual_hosted_style_request": virtual}
        options["client_options"] = {"allow_http": endpoint.startswith("http://")}
    return S3Store(bucket, **options)
