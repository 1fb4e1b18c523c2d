"""What a project's local stack keeps in its folder about itself: its secrets, and the ports that were chosen for it.

`frazil up` makes the secrets once, at random; every command of the project finds them here. Only their owner may read
them.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

FOLDER_NAME = ".frazil"
SECRETS = ("secret_access_key", "postgres_password")  # settings below `stack`


def secrets_file(folder: Path) -> Path:
    return folder / "secrets.json"


def ports_file(folder: Path) -> Path:
    return folder / "ports.json"


def catalog_database(folder: Path) -> Path:
    """The SQLite file of the stack's catalog, if no other database is set."""
    return folder / "catalog" / "data" / "catalog.db"


def catalog_key_file(folder: Path) -> Path:
    """The API key with which the project's commands use the stack's catalog, if that has authentication on."""
    return folder / "catalog" / "data" / "admin.key"


def read_catalog_key(folder: Path) -> str | None:
    """The key in that file; None if there is none."""
    try:
        return catalog_key_file(folder).read_text().strip() or None
    except OSError:
        return None


def read_secrets(folder: Path) -> dict[str, str]:
    """The stack's own secrets by their settings' names; empty before the first `up`."""
    stored = _read_json(secrets_file(folder))
    return {name: value for name in SECRETS if isinstance(value := stored.get(name), str) and value}


def make_secrets(folder: Path) -> dict[str, str]:
    """The stack's own secrets; those that are missing are made now, under a lock, so that two starts agree."""
    import fcntl  # not on Windows, where no stack runs, but where settings are read

    make_private_folder(folder)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = read_secrets(folder)
        missing = [name for name in SECRETS if name not in known]
        if missing:
            known |= {name: secrets.token_hex(24) for name in missing}
            write_private(secrets_file(folder), json.dumps(known, indent=2))
    return known


def read_ports(folder: Path) -> dict[str, int]:
    """The ports that this stack chose for settings of 0."""
    return {name: port for name, port in _read_json(ports_file(folder)).items() if isinstance(port, int)}


def make_private_folder(folder: Path) -> None:
    """The folder exists. A new one, and each `.frazil` on the way, can be entered by its owner only."""
    for part in (*reversed(folder.parents), folder):
        private = part == folder or part.name == FOLDER_NAME
        part.mkdir(mode=0o700 if private else 0o777, exist_ok=True)
        if part.name == FOLDER_NAME:
            status = part.stat()
            is_own = hasattr(os, "geteuid") and status.st_uid == os.geteuid()
            if is_own and status.st_mode & 0o077:  # made by an earlier version
                part.chmod(0o700)


def write_private(path: Path, text: str) -> None:
    """The file holds the text, whole or not at all, and only its owner may read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
