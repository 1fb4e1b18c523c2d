"""API keys: `frz_<id>_<secret>`. The database holds an HMAC of each, made with a pepper that is kept outside of it.

Who reads the database alone can neither use a key nor test guesses. The pepper lies in a file: next to a SQLite
database, elsewhere where `server.pepper_file` says.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import string
from pathlib import Path

from frazil.errors import ConfigError

_ALPHABET = string.ascii_letters + string.digits
_KEY = re.compile(rb"frz_([0-9a-f]{16})_[0-9A-Za-z]{43}")
PEPPER_BYTES = 32


def new_key() -> tuple[str, str]:
    """The id of a new key, and the key."""
    key_id = secrets.token_hex(8)
    return key_id, f"frz_{key_id}_{''.join(secrets.choice(_ALPHABET) for _ in range(43))}"


def key_id_of(token: bytes) -> str | None:
    """The id in a key; None when the token is not one.

    >>> key_id_of(b"frz_0123456789abcdef_" + b"x" * 43), key_id_of(b"frz_0_x")
    ('0123456789abcdef', None)
    """
    match = _KEY.fullmatch(token)
    return match[1].decode() if match else None


def digest_of(pepper: bytes, token: bytes) -> str:
    """What the database holds of a key."""
    return hmac.new(pepper, b"key\x00" + token, hashlib.sha256).hexdigest()


def check_of(pepper: bytes) -> str:
    """What the database holds of the pepper: enough to tell another one, too little to find it."""
    return hmac.new(pepper, b"check\x00", hashlib.sha256).hexdigest()[:16]


def plan_secret(pepper: bytes, principal: str) -> bytes:
    """What plan ids and plan tasks of a principal are signed with."""
    return hmac.new(pepper, b"plan\x00" + principal.encode(), hashlib.sha256).digest()


def pepper_path(database: str, configured: str | Path | None) -> Path:
    """The file that holds the pepper of a database."""
    if configured:
        return Path(configured)
    if database.startswith("sqlite:///"):
        return Path(f"{database.removeprefix('sqlite:///')}-pepper")
    raise ConfigError(
        "server.pepper_file is not set: API keys of a PostgreSQL catalog need a file that all its servers read",
        hint="server.pepper_file = '/etc/frazil/pepper'; frazil token create writes it",
        option="server.pepper_file",
    )


def read_pepper(path: Path) -> bytes:
    try:
        text = path.read_text(encoding="ascii").strip()
        pepper = bytes.fromhex(text)
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is not hexadecimal text"
        raise ConfigError(
            f"cannot read the pepper of the API keys in {path}: {reason}",
            hint="frazil token create NAME writes it, when there are no keys yet",
            option="server.pepper_file",
        ) from None
    if len(pepper) < PEPPER_BYTES:
        raise ConfigError(
            f"the pepper in {path} has {len(pepper)} bytes; at least {PEPPER_BYTES} are needed",
            option="server.pepper_file",
        )
    return pepper


def read_checked_pepper(path: Path, check: str | None) -> bytes:
    """The pepper, if it is the one that the database knows by this check."""
    pepper = read_pepper(path)
    if check is None or not hmac.compare_digest(check, check_of(pepper)):
        raise ConfigError(
            f"the pepper in {path} is not the one that the API keys of this database were made with",
            hint="set server.pepper_file to the file of the server where frazil token create ran",
            option="server.pepper_file",
        )
    return pepper


def make_pepper(path: Path) -> bytes:
    """A new pepper, in a file that its owner alone can read; the one that is there, if there is one."""
    pepper = secrets.token_bytes(PEPPER_BYTES)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return read_pepper(path)
    except OSError as exc:
        raise ConfigError(f"cannot write {path}: {exc.strerror}", option="server.pepper_file") from exc
    with os.fdopen(descriptor, "w") as file:
        file.write(pepper.hex() + "\n")
    return pepper
