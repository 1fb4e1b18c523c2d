"""Secrets of warehouses: what a key opens, what it does not, and where keys come from."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from frazil.catalog.storage.secrets import (
    Sealed,
    SecretKeys,
    make_secret_key,
    open_secret_keys,
    read_secret_keys,
    require_keys,
)
from frazil.errors import ConfigError
from tests.kit.raising import raises

FIRST, SECOND = bytes(range(32)), bytes(range(32, 64))
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


def test_a_secret_comes_back_with_its_key_and_its_warehouse() -> None:
    keys = SecretKeys([FIRST])
    sealed = keys.encrypt("cold", SECRET)
    assert SecretKeys([FIRST]).decrypt("cold", sealed) == SECRET
    assert SECRET not in sealed.text
    assert keys.encrypt("cold", SECRET).text != sealed.text  # a nonce of its own


def test_a_secret_does_not_work_in_another_row() -> None:
    keys = SecretKeys([FIRST])
    with raises(ConfigError, name="hot", problem="damaged"):
        keys.decrypt("hot", keys.encrypt("cold", SECRET))


@pytest.mark.parametrize("text", ["", "v1:", "v1:AAAA", "v2:{}", "{}", "v1:not base64", "flipped"])
def test_a_damaged_secret_is_refused(text: str) -> None:
    keys = SecretKeys([FIRST])
    sealed = keys.encrypt("cold", SECRET)
    content = bytearray(base64.b64decode(sealed.text.removeprefix("v1:")))
    content[-1] ^= 1
    flipped = f"v1:{base64.b64encode(content).decode()}"
    damaged = flipped if text == "flipped" else text.replace("{}", sealed.text.removeprefix("v1:"))
    with raises(ConfigError, name="cold", problem="damaged"):
        keys.decrypt("cold", replace(sealed, text=damaged))


def test_a_wrong_key_is_not_reported_as_a_damaged_secret() -> None:
    sealed = SecretKeys([FIRST]).encrypt("cold", SECRET)
    wrong = SecretKeys([SECOND])
    with raises(ConfigError, option="server.secret_key_file", expected=sealed.key_id, got=wrong.id):
        wrong.decrypt("cold", sealed)


def test_the_first_key_encrypts_and_older_ones_decrypt() -> None:
    sealed = SecretKeys([FIRST]).encrypt("cold", SECRET)
    both = SecretKeys([SECOND]).with_older(SecretKeys([FIRST]))
    assert both.decrypt("cold", sealed) == SECRET
    assert both.encrypt("cold", SECRET).key_id == both.id == SecretKeys([SECOND]).id


def test_nothing_shows_a_key_or_a_secret() -> None:
    keys = SecretKeys([FIRST])
    shown = f"{keys!r} {keys} {keys.encrypt('cold', SECRET)!r}"
    for hidden in (SECRET, FIRST.hex(), base64.b64encode(FIRST).decode(), "v1:"):
        assert hidden not in shown


@pytest.mark.parametrize("text", [FIRST.hex(), FIRST.hex().upper(), base64.b64encode(FIRST).decode()])
def test_a_key_is_base64_or_hexadecimal(text: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{text}\n{SECOND.hex()}\n")
    keys = read_secret_keys(tmp_path / "key")
    assert keys.id == SecretKeys([FIRST]).id
    assert repr(open_secret_keys(f"{text},{SECOND.hex()}", None)) == repr(keys)


@pytest.mark.parametrize("text", ["", "x", "00" * 31, "zz" * 32, base64.b64encode(b"x" * 31).decode(), "ключ"])
def test_a_key_of_another_form_is_refused_and_not_shown(text: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_secret_keys(tmp_path / "key")
    assert (caught.value.option, "new-key" in str(caught.value.hint)) == ("server.secret_key_file", True)
    assert len(text) < 10 or text not in str(caught.value)


def test_a_new_key_can_be_read_by_its_owner_alone_and_replaces_none(tmp_path: Path) -> None:
    path = tmp_path / "etc" / "key"
    keys = make_secret_key(path)
    assert (read_secret_keys(path).id, path.stat().st_mode & 0o777) == (keys.id, 0o600)
    with raises(ConfigError, path=str(path)):
        make_secret_key(path)


def test_a_secret_without_a_key_is_refused_and_says_how_to_make_one() -> None:
    with raises(ConfigError, name="cold", problem="missing") as caught:
        require_keys(None, "cold")
    assert "frazil warehouse new-key" in str(caught.value.hint)
    with raises(ConfigError, option="server.secret_key_file"):
        open_secret_keys(FIRST.hex(), "file")
    assert open_secret_keys(None, None) is None


def test_the_stored_text_has_no_more_than_nonce_content_and_tag() -> None:
    sealed: Sealed = SecretKeys([secrets.token_bytes(32)]).encrypt("cold", json.dumps({"a": SECRET}))
    assert len(base64.b64decode(sealed.text[3:])) == 12 + len(json.dumps({"a": SECRET})) + 16
