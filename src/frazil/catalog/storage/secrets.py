"""The secrets of warehouses, encrypted with AES-256-GCM. The key is outside of the database: who reads the database, or
a copy of it, reads no secret.

The name of the warehouse is authenticated with each secret, so that a secret does not work in another row. The key has
an id, which is stored with the secret: a wrong key is not reported as a damaged secret.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frazil.errors import ConfigError, MissingExtra

KEY_BYTES, NONCE_BYTES = 32, 12
_FORMAT = "v1"  # of what is stored; part of what is authenticated
_OPTION = "server.secret_key_file"
HOW_TO_SET = "frazil warehouse new-key FILE makes a key; then set server.secret_key_file, or FRAZIL_SERVER__SECRET_KEY"


@dataclass(frozen=True, slots=True)
class Sealed:
    """An encrypted secret, and the id of the key that it was encrypted with."""

    text: str = field(repr=False)
    key_id: str


class SecretKeys:
    """The keys of an operator: the first one encrypts, all of them decrypt."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = {_id_of(key): key for key in keys}

    def __repr__(self) -> str:
        return f"SecretKeys({', '.join(self._keys)})"

    @property
    def id(self) -> str:
        """The id of the key that encrypts."""
        return next(iter(self._keys))

    def with_older(self, others: SecretKeys) -> SecretKeys:
        """These keys, and others that only decrypt."""
        return SecretKeys([*self._keys.values(), *others._keys.values()])

    def encrypt(self, warehouse: str, secret: str) -> Sealed:
        nonce = secrets.token_bytes(NONCE_BYTES)
        content = _cipher(self._keys[self.id]).encrypt(nonce, secret.encode(), _bound_to(warehouse))
        return Sealed(f"{_FORMAT}:{base64.b64encode(nonce + content).decode()}", self.id)

    def decrypt(self, warehouse: str, sealed: Sealed) -> str:
        key = self._keys.get(sealed.key_id)
        if key is None:
            raise ConfigError(
                f"the secret of warehouse '{warehouse}' was encrypted with the key {sealed.key_id}; "
                f"this is {', '.join(self._keys)}",
                hint="set server.secret_key_file to the file of that key; frazil warehouse rekey changes keys",
                option=_OPTION,
                name=warehouse,
                got=self.id,
                expected=sealed.key_id,
            )
        from cryptography.exceptions import InvalidTag

        try:
            version, _, text = sealed.text.partition(":")
            content = base64.b64decode(text, validate=True)
            if version != _FORMAT or len(content) < NONCE_BYTES:
                raise ValueError
            plain: bytes = _cipher(key).decrypt(content[:NONCE_BYTES], content[NONCE_BYTES:], _bound_to(warehouse))
            return plain.decode()
        except (InvalidTag, ValueError):
            raise ConfigError(
                f"the secret of warehouse '{warehouse}' cannot be decrypted: it was changed in the database, or it is "
                "that of another warehouse",
                hint=f"frazil warehouse update {warehouse} --secret-file FILE stores it again",
                name=warehouse,
                problem="damaged",
            ) from None


def _cipher(key: bytes) -> Any:
    """AES-GCM. `Any`: the library is an extra."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as exc:
        raise MissingExtra("cryptography", extra="vending") from exc
    return AESGCM(key)


def _bound_to(warehouse: str) -> bytes:
    """What is authenticated with a secret."""
    return f"frazil warehouse secret {_FORMAT}\0{warehouse}".encode()


def _id_of(key: bytes) -> str:
    """Enough to tell a key from another one, too little to find it."""
    return hmac.new(key, b"frazil warehouse secret key", hashlib.sha256).hexdigest()[:16]


# --- reading and making keys -----------------------------------------------------------------------------------------


def open_secret_keys(text: str | None, file: str | Path | None) -> SecretKeys | None:
    """The keys of the settings `server.secret_key` and `server.secret_key_file`; None if neither is set. Several keys
    stand on lines of their own, the newest first.
    """
    if text and file:
        raise ConfigError(
            "server.secret_key and server.secret_key_file are both set", hint="leave one of them out", option=_OPTION
        )
    if text:
        return SecretKeys([_parse(line, "server.secret_key") for line in text.replace(",", "\n").split()])
    return read_secret_keys(Path(file)) if file else None


def read_secret_keys(path: Path) -> SecretKeys:
    try:
        lines = path.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is not ASCII text"
        hint = f"frazil warehouse new-key {path} makes one"
        raise ConfigError(f"cannot read the key in {path}: {reason}", hint=hint, option=_OPTION) from None
    if not lines:
        raise ConfigError(f"there is no key in {path}", hint="frazil warehouse new-key FILE makes one", option=_OPTION)
    return SecretKeys([_parse(line, str(path)) for line in lines])


def _parse(text: str, where: str) -> bytes:
    """The bytes of a key in base64 or hexadecimal digits."""
    try:
        key = bytes.fromhex(text) if len(text) == 2 * KEY_BYTES else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(
            f"the key in {where} is not {KEY_BYTES} bytes in base64 or hexadecimal digits",
            hint=HOW_TO_SET,
            option=_OPTION,
        )
    return key


def make_secret_key(path: Path) -> SecretKeys:
    """A new key, in a new file that its owner alone can read."""
    key = secrets.token_bytes(KEY_BYTES)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise ConfigError(f"cannot write {path}: {exc.strerror}", option=_OPTION, path=str(path)) from exc
    with os.fdopen(descriptor, "w") as file:
        file.write(base64.b64encode(key).decode() + "\n")
    return SecretKeys([key])


def require_keys(keys: SecretKeys | None, warehouse: str) -> SecretKeys:
    """The keys, if there are any."""
    if keys is None:
        raise ConfigError(
            f"warehouse '{warehouse}' has a secret, and there is no key to encrypt it with",
            hint=HOW_TO_SET,
            option=_OPTION,
            name=warehouse,
            problem="missing",
        )
    return keys
